"""How ids are dealt out to tasks: even shares, each id once, whatever gaps there are."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from django_dbqueue.spark.id_pieces import SAMPLED, Piece, dealt
from django_dbqueue.statements.scan_sql import Span
from tests.spark.table_readers import SEVERAL_PARTITIONS, every, ids_of, messages, reader

pytestmark = pytest.mark.django_db(transaction=True)


def planned(ids: list[int], parts: int, least: int = 1) -> tuple[list[list[Piece]], int]:
    """Deal ids out that stand in a list, and count the probes."""
    from bisect import bisect_left, bisect_right

    ids = sorted(ids)
    probes = 0

    def sample(span: Span, limit: int, backwards: bool) -> tuple[int | None, int | None, int]:
        nonlocal probes
        probes += 1
        low, high = bisect_left(ids, span.first), bisect_right(ids, span.last)
        low, high = (max(low, high - limit), high) if backwards else (low, min(high, low + limit))
        return (ids[low], ids[high - 1], high - low) if low < high else (None, None, 0)

    return dealt(Span(ids[0], ids[-1]), sample, parts=parts, least=least), probes


def rows_in(ids: list[int], part: list[Piece]) -> int:
    return sum(piece.span.first <= number <= piece.span.last for piece in part for number in ids)


LAYOUTS = {
    "no gap": [*range(1, 20_001)],
    "both ends": [*range(1, 5_001), *range(10**12, 10**12 + 5_000)],
    "one far away": [*range(1, 10_001), 2**62],
    "dense and then sparse": [*range(1, 10_001), *range(10**6, 10**9, 100_000)],
    "sparse and then dense": [*range(1, 10**9, 100_000), *range(2 * 10**9, 2 * 10**9 + 10_000)],
    "blocks with gaps": [start + n for start in range(0, 10**9, 5 * 10**7) for n in range(1, 501)],
    "negative ones": [*range(-5_000, 5_000)],
    "one in three, by chance": random.Random(4).sample(range(60_000), 20_000),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("parts", [2, 7])
def test_no_task_gets_much_more_than_its_share(layout: str, parts: int) -> None:
    ids = LAYOUTS[layout]
    pieces, probes = planned(ids, parts)
    loads = [rows_in(ids, part) for part in pieces]
    assert sum(loads) == len(ids), "each row is in one piece"
    assert len(loads) == parts
    assert max(loads) <= 1.5 * len(ids) / parts
    assert probes <= 1_000


def test_pieces_of_all_tasks_are_apart() -> None:
    pieces, _ = planned(LAYOUTS["blocks with gaps"], 5)
    spans = sorted(piece.span for part in pieces for piece in part)
    assert all(one.last < other.first for one, other in pairwise(spans))


def test_a_small_table_is_one_task() -> None:
    pieces, probes = planned([*range(1, SAMPLED)], 8, least=1_000)
    assert len(pieces) == 1
    assert probes == 1


if SEVERAL_PARTITIONS:

    def test_live_messages_at_both_ends_of_a_gap_are_dealt_out_evenly(
        credentials_file: str, ids_start_over: None
    ) -> None:
        ids = [*range(1, 1_001), *range(2**50, 2**50 + 1_000)]
        messages(ids)
        parts = ids_of(reader(credentials_file, numPartitions=4))
        assert every(parts) == ids
        assert len(parts) == 4
        assert max(map(len, parts)) <= 750

    def test_by_default_small_tables_are_read_by_one_task(credentials_file: str) -> None:
        messages(range(1, 1_001))
        assert len(ids_of(reader(credentials_file))) == 1


def test_ids_can_be_bounded(credentials_file: str) -> None:
    messages(range(1, 101))
    assert every(ids_of(reader(credentials_file, firstId=10, lastId=12))) == [10, 11, 12]
    assert ids_of(reader(credentials_file, firstId=101)) == [[]]
