"""The limits that a child draws, and how it measures itself."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from django_dbqueue.sessions.django_session import session_of
from django_dbqueue.typed_values import typed_size
from django_dbqueue.worker.board import Board, Retirement
from django_dbqueue.worker.recycling import MEASURED_EVERY, Recycling
from django_dbqueue.worker.resident import resident_bytes
from django_dbqueue.worker.worker_options import EXIT_RECYCLED, WorkerOptions

pytestmark = pytest.mark.once


@dataclass
class Fed:
    """Stands in for a feeder that has claimed all that it may."""

    left: int = 0
    has_room = False

    @property
    def has_claimed_all(self) -> bool:
        return self.left == 0


class Calm:
    """Stands in for a maintenance that suspects nobody."""

    is_judging = False


def options(**chosen: Any) -> WorkerOptions:
    return WorkerOptions(session_of("default"), ("test",), datetime.now(UTC), **chosen)


def drawn(most: int | None, *, share: int | None = None, largest_batch: int = 0) -> int | None:
    chosen = options(child_max_messages=most, largest_batch=largest_batch)
    return Recycling(chosen, Board(1), share, None).share


@pytest.mark.parametrize(("most", "least"), [(1, 1), (2, 2), (9, 9), (10, 9), (15, 14), (1_000, 900)])
def test_a_child_draws_its_number_from_nine_tenths_to_what_is_set(most: int, least: int) -> None:
    found = {drawn(most) for _ in range(500)}
    assert found <= {*range(least, most + 1)}
    assert len(found) > (most - least) / 2


def test_a_child_begins_no_more_than_its_share_and_no_less_than_a_list() -> None:
    assert drawn(None) is None
    assert drawn(None, share=7) == 7
    assert drawn(9, share=7) == 7
    assert drawn(9, share=30) == 9
    assert drawn(9, largest_batch=50) == 50


def test_one_that_works_past_its_number_alongside_a_retired_one_is_still_measured() -> None:
    board, retired, fed = Board(1), Board(1), Fed()
    retired.note_retirement(Retirement.HAS_ROOM)
    recycling = Recycling(options(child_max_messages=10, child_max_rss=1), board, None, retired)
    recycling.run(time.monotonic(), fed)
    assert fed.left == 1, "a tenth, for as long as the other runs"
    board.count("started")
    recycling.run(time.monotonic() + MEASURED_EVERY, Fed())
    assert recycling.exit_code == EXIT_RECYCLED


def test_a_limit_of_its_own_ends_a_child_as_one_that_is_recycled_and_its_share_does_at_once() -> None:
    limited = Recycling(options(child_max_messages=10), Board(1), None, None)
    assert not limited.ends(Fed(), Calm()), "its drain would be over"
    limited.run(time.monotonic(), Fed())
    assert limited.exit_code == EXIT_RECYCLED
    assert limited.ends(Fed(), Calm())
    assert Recycling(options(child_max_messages=10), Board(1), 5, None).ends(Fed(), Calm())
    assert not Recycling(options(child_max_messages=10), Board(1), 5, None).ends(Fed(left=1), Calm())


def test_what_a_process_keeps_is_in_its_figure_with_and_without_proc(tmp_path: Path) -> None:
    before = resident_bytes()
    kept = b"x" * 64 * 1024 * 1024
    assert resident_bytes() - before > 0.9 * len(kept)
    assert resident_bytes(tmp_path / "none") >= 0.95 * resident_bytes() > len(kept)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("512M", 2**29), ("512MiB", 2**29), ("512MB", 2**29), ("1.5G", 3 * 2**29), ("64K", 2**16), ("1T", 2**40),
        ("0M", 0), ("512", None), ("", None), ("M", None), ("-1M", None), ("1e3M", None), ("1,5G", None), ("5m", None),
    ],
)  # fmt: skip
def test_a_size_is_a_number_and_its_unit(text: str, size: int | None) -> None:
    assert typed_size(text) == size
