"""The model behind the billion recovers what it is given, and the history that is measured is as it should be."""

from __future__ import annotations

import math
import shutil
from collections import namedtuple
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from benchmarks.scale import __main__ as command
from benchmarks.scale import filling, jobs, places, tables
from benchmarks.scale.account import Account
from benchmarks.scale.counters import COUNTED
from benchmarks.scale.memory import HELD
from benchmarks.scale.model import Point, error, fitted
from django_dbqueue.models import ArchivedMessage
from tests.servers.private import ServerError

ROWS = 2_000
SIZES = (1_000_000, 3_000_000, 10_000_000, 100_000_000)


def points(cost: Any) -> list[Point]:
    return [Point(rows, new, cost(rows, new)) for rows in SIZES for new in (20_000, 40_000)]


@pytest.mark.once
def test_a_model_recovers_its_coefficients_and_foretells_what_it_has_not_seen() -> None:
    model = fitted(points(lambda rows, new: 90 + 5.25 * new + 40 * math.log2(rows))[:6], ("each", "new", "depth"))
    assert model.coefficients == pytest.approx({"each": 90, "new": 5.25, "depth": 40}, rel=1e-5)
    assert model.at(10**9, 10_000) == pytest.approx(90 + 52_500 + 40 * math.log2(10**9))
    files = [Point(10**8, 0, 7 + 0.5 * many, many) for many in (10, 100, 1_000)]
    assert fitted(files, ("each", "files")).coefficients == pytest.approx({"each": 7, "files": 0.5})
    shrinks = fitted(points(lambda rows, new: 100 + new - math.log2(rows)), ("each", "new", "depth"))
    assert shrinks.coefficients["depth"] == 0, "no part of a cost is negative"
    with pytest.raises(ValueError, match="3 coefficients can't be fitted to 2 different runs"):
        fitted(points(lambda rows, new: rows + new)[:2] * 5, ("each", "new", "depth"))


@pytest.mark.once
def test_a_job_that_grows_with_the_whole_history_is_found_out() -> None:
    grows = points(lambda rows, new: new + rows / 50)
    model = fitted(grows[:-2], ("each", "new", "depth"))
    assert error(model, grows[-2:]) < -tables.OFF
    job = jobs.Job("greedy", lambda *_: 0)
    for cost, marked in ((lambda rows, new: new + rows / 50, True), (lambda rows, new: new + math.log2(rows), False)):
        accounts = [made(job.name, rows, new, int(cost(rows, new))) for rows in SIZES for new in (20_000, 40_000)]
        assert ("<- grows otherwise" in tables.foretold([job], accounts, {})) is marked
    assert "40,000" not in tables.measured([job], accounts), "only runs with the usual new rows are compared"


def made(job: str, rows: int, new: int, cost: int) -> Account:
    return Account(job, rows, new, dict.fromkeys(COUNTED, cost), dict.fromkeys(HELD, 1.0), 1, 0, 1.0)


@pytest.mark.once
def test_wrong_sizes_and_a_disk_that_is_too_small_are_refused_before_anything_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for sizes, complaint in (
        ("1000000,2000001,3000000", "2,000,001 is no multiple"),
        ("1000000,3000000", "three sizes"),
    ):
        monkeypatch.setattr("sys.argv", ["bench", "--rows", sizes])
        with pytest.raises(SystemExit) as end:
            raise SystemExit(command.main())
        assert end.value.code == 2
        assert complaint in capsys.readouterr().err
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(0, 0, 10**9))
    with pytest.raises(ServerError, match=r"100,000,000 rows take up to 33 GB, and .* has 1 GB free"):
        filling.require_room(tmp_path, 10**8)
    filling.require_room(tmp_path, 10**6)


@pytest.mark.once
def test_every_job_can_be_chosen() -> None:
    assert {*command.JOBS} == {job.name for job in (*jobs.JOBS, *jobs.LAKE_JOBS)}


if settings.TEST_DATABASE in places.DATABASES:

    @pytest.mark.django_db(transaction=True)
    def test_a_history_goes_on_where_a_smaller_one_ended() -> None:
        for until in (500, ROWS):
            filling.fill("default", until, pytest.fail)
        rows = ArchivedMessage.objects.order_by("pk")
        assert list(rows.values_list("pk", flat=True)) == list(range(1, ROWS + 1))
        last = rows.last()
        assert last is not None
        assert last.finished_at == filling.BEGIN + ROWS * filling.STEP
        assert last.payload == {"to": "someone@example.com", "n": ROWS}
        assert rows.filter(key="customer-10").count() == filling.ROWS_OF_A_KEY
        assert {*rows.values_list("outcome", flat=True)} == {"done", "dead", "dropped"}
        assert ArchivedMessage.objects.create(
            message_id=0, priority=0, read_count=1, crashes=0, due_at=filling.BEGIN,
            created_at=filling.BEGIN, finished_at=filling.BEGIN,
        ).pk > ROWS  # fmt: skip
