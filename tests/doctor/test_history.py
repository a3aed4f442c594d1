"""What the doctor says of the history's growth, and of rows that are kept beyond their age; on every database."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test import override_settings

from django_dbqueue.doctor import history_checks
from django_dbqueue.doctor.check import Check
from django_dbqueue.doctor.examined_database import ExaminedDatabase
from django_dbqueue.history import age_walk
from django_dbqueue.models import ArchivedMessage, HistoryReader
from django_dbqueue.states.counts import grouped
from tests.doctor.conftest import examined, levels
from tests.history.aging import DAY, YEAR, aged, clock_moved, walk

pytestmark = pytest.mark.django_db(transaction=True)
SET = {"DEFAULTS": {"history_retention": 7 * DAY}}


def test_an_empty_history_and_a_small_one_are_fine_with_its_figures() -> None:
    assert levels(examined(), "history-growth") == ["ok"]
    aged(20, rows=10)
    aged(3.5, rows=70)
    [finding] = examined()["history-growth"]
    assert finding.level == "ok"
    assert "up to 80 rows" in finding.found
    assert "a day brings 10: at this rate, it doubles in 8 days" in finding.found


def test_a_large_one_that_nothing_makes_smaller_is_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_checks, "LARGE", 10)
    aged(20, rows=10)
    [finding] = examined()["history-growth"]
    assert finding.level == "note"
    assert "grows without end" in finding.found
    assert "history_retention" in finding.do
    with override_settings(DBQUEUE=SET):
        assert levels(examined(), "history-growth") == ["ok"]
    with override_settings(DBQUEUE=SET | {"QUEUES": {"a": {"history_retention": None}}}):
        assert levels(examined(), "history-growth") == ["note"], "those of one queue stay"
    HistoryReader.objects.create(name="lake:1", position=1)
    assert levels(examined(), "history-growth") == ["ok"], "an export does"


@override_settings(DBQUEUE=SET)
def test_a_reader_that_keeps_expired_rows_is_a_warning() -> None:
    rows = aged(20, rows=10)
    HistoryReader.objects.create(name="slow", position=rows[3])
    [finding] = examined()["history-retention"]
    assert finding.level == "warning"
    assert "slow has read it up to id" in finding.found
    assert finding.do.endswith("manage.py queue_pipeline forget --database default --reader slow")
    with override_settings(DBQUEUE=SET | {"QUEUES": {"a": {"history_retention": YEAR}}}):
        assert levels(examined(), "history-retention") == ["warning"], "the shortest one counts"
    HistoryReader.objects.update(position=rows[-1])
    assert levels(examined(), "history-retention") == ["ok"]


@override_settings(DBQUEUE=SET)
def test_a_row_from_the_future_that_keeps_those_behind_it_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(age_walk, "OTHERS_CHECK", 0)
    walk(7 * DAY)
    aged(20)
    row = aged(-9.5)[0]
    aged(20)
    walk(7 * DAY)
    [finding] = examined()["history-retention"]
    assert finding.level == "warning"
    assert f"The row {grouped(row)} of the history" in finding.found
    assert "before 10 days have passed" in finding.found
    with clock_moved(10 * DAY):
        assert "warning" not in levels(examined(), "history-retention")


@override_settings(DBQUEUE=SET)
def test_time_that_does_not_count_is_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(age_walk, "OTHERS_CHECK", 0)
    aged(0)
    walk(7 * DAY)
    with clock_moved(YEAR):
        walk(7 * DAY)
        note, fine = examined()["history-retention"]
    assert (note.level, fine.level) == ("note", "ok")
    assert "gaps of 365 days" in note.found


@override_settings(DBQUEUE=SET)
@pytest.mark.parametrize("check", [history_checks.growth, history_checks.retention], ids=lambda each: each.name)
def test_rows_that_are_deleted_during_a_check_do_not_end_it(check: Check) -> None:
    aged(20, rows=50)
    read = 0

    def execute(go_on: Callable[..., Any], sql: str, *rest: Any) -> Any:
        nonlocal read
        if f"FROM {ArchivedMessage._meta.db_table} WHERE id >= " in sql:
            read += 1
            if read == 4:  # the first and the last have been read, and the halving has begun
                with connection.cursor() as cursor:
                    cursor.execute(f"DELETE FROM {ArchivedMessage._meta.db_table}")
        return go_on(sql, *rest)

    with connection.execute_wrapper(execute):
        found = list(check.examine(ExaminedDatabase.at(connection)))
    assert read > 4
    assert [finding.level for finding in found] == ["ok"]


def test_without_a_retention_it_is_not_checked() -> None:
    aged(20)
    assert "history-retention" not in examined()
