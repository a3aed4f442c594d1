"""On bad days workers delete no more of the history than they should: clocks jump, servers refuse, and workers die."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import F

from django_dbqueue.history import age_walk, history_sql
from django_dbqueue.history.age_state import AgeState
from django_dbqueue.history.age_walk import AgeWalk
from django_dbqueue.lifecycle import archive_sql
from django_dbqueue.models import ArchivedMessage, HistoryAge, HistoryReader, Message
from django_dbqueue.models.fields import clock
from tests.factories import QUEUE, done
from tests.history.aging import DAY, SESSION, YEAR, aged, clock_moved, small_windows, walk
from tests.refusing import pointing_to, refusing
from tests.spark.archives import archive_by_and_by, ids

__all__ = ["small_windows"]
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("small_windows")]
TABLE = ArchivedMessage._meta.db_table


# -- clocks --------------------------------------------------------------------------------------------------------


def archived_now() -> int:
    """The id of a message that a worker archives, by the clock as it is."""
    done()
    assert Message.objects.archive(QUEUE, older_than=0) == 1
    return ids()[-1]


@pytest.mark.parametrize("has_checked", [True, False], ids=["checked before", "never checked"])
def test_a_clock_that_jumps_by_a_year_deletes_little_and_nothing_when_it_is_back(has_checked: bool) -> None:
    aged(6.5)
    kept = aged(6, rows=4)
    now = archived_now()
    if not has_checked:
        HistoryAge.objects.all().delete()
    with clock_moved(YEAR):
        later = archived_now()
        walk(7 * DAY)
        assert ids() == [*kept, now, later], "a tenth of the retention counts"
        walk(7 * DAY)
    walk(7 * DAY)
    with clock_moved(YEAR):
        walk(7 * DAY)
    assert ids() == [*kept, now, later]


def test_rows_of_a_time_without_a_retention_go_at_their_age() -> None:
    HistoryAge.objects.update(seen_us=F("seen_us") - int(60 * DAY) * 1_000_000)
    for days in range(40, -1, -1):
        aged(days)
    walk(7 * DAY)
    left = len(ids())
    assert left <= 8
    with clock_moved(30 * DAY):
        walk(7 * DAY)
    assert len(ids()) >= left - 2, "where nobody archives, little of the time counts"


def test_a_jump_that_no_worker_has_seen_is_found_whatever_else_took_longer() -> None:
    HistoryAge.objects.all().delete()
    now = clock("default")
    archive_by_and_by(31, begin=now - timedelta(days=1_500), step=timedelta(days=30))
    archive_by_and_by(1, begin=now - timedelta(days=50), step=timedelta(days=30), first=32)
    archive_by_and_by(32, begin=now - timedelta(days=32), step=timedelta(days=1), first=33)
    archive_by_and_by(1, begin=now + timedelta(days=365), step=timedelta(days=1), first=65)
    with clock_moved(YEAR):
        walk(40 * DAY)
    assert ids() == [*range(33, 66)]


def test_where_no_worker_has_checked_the_clock_what_is_old_goes_all_the_same() -> None:
    HistoryAge.objects.all().delete()
    for days in range(40, -1, -1):
        aged(days)
    walk(7 * DAY)
    assert len(ids()) <= 8


def test_behind_a_jump_rows_go_at_their_age() -> None:
    rows, now = aged(3, rows=4), archived_now()
    walk(7 * DAY)
    with clock_moved(YEAR):
        walk(7 * DAY)
        later = archived_now()
    left = {}
    for hours in range(0, 8 * 24, 1):
        with clock_moved(YEAR + hours * 3_600):
            walk(7 * DAY)
        left[hours] = ids()
    assert left[3 * 24] == [*rows, now, later], "four days, and a tenth of seven"
    assert left[4 * 24] == [now, later]
    assert left[6 * 24] == [now, later]
    assert left[7 * 24 - 12] == [later]
    assert left[7 * 24 + 1] == []


# -- what the server doesn't let go --------------------------------------------------------------------------------


def test_what_a_foreign_key_keeps_is_passed_named_and_tried_again_a_day_later(caplog: pytest.LogCaptureFixture) -> None:
    rows = aged(20, rows=8)
    held = [rows[1], rows[6]]
    kind = "bigint" if connection.vendor != "sqlite" else "integer"
    with pointing_to(TABLE, "id", kind, *held):
        walk(7 * DAY)
        assert ids() == held
        walk(7 * DAY)
        assert ids() == held
    lines = [record.getMessage() for record in caplog.records if record.getMessage().startswith("left in the table")]
    assert [line for line in lines if f"archivedmessage {held[0]} " in line]
    walk(7 * DAY)
    assert ids() == held, "that would read all again that stays"
    for hours in range(26):
        with clock_moved(hours * 3_600):
            walk(7 * DAY)
    assert ids() == []


def test_what_a_trigger_keeps_keeps_no_other() -> None:
    rows = aged(20, rows=8)
    with refusing("DELETE", f"OLD.id IN ({rows[0]}, {rows[4]})", table=TABLE):
        walk(7 * DAY)
        assert ids() == [rows[0], rows[4]]


# -- others, and deaths --------------------------------------------------------------------------------------------


def test_while_another_one_is_at_it_a_worker_leaves_it_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    aged(20, rows=14)
    one, two = AgeWalk(SESSION), AgeWalk(SESSION)
    assert one.turn(7 * DAY, {})
    monkeypatch.setattr(age_walk, "OTHERS_CHECK", 300_000_000)
    assert not two.turn(7 * DAY, {})
    assert len(ids()) == 8
    walk(7 * DAY, walker=one)
    assert ids() == []
    aged(20)
    with clock_moved(600):
        walk(7 * DAY, walker=two)
    assert ids() == []
    aged(20)
    walk(7 * DAY, walker=two)
    assert ids() == [], "a clock that went back keeps nobody waiting"


@pytest.mark.skipif(connection.vendor == "sqlite", reason="Has one lock, for which everybody waits")
def test_a_row_that_somebody_has_locked_is_passed_without_waiting(
    other_connection: BaseDatabaseWrapper, session: Any
) -> None:
    rows = aged(20, rows=8)
    wait = "lock_timeout = '2s'" if connection.vendor == "postgresql" else "innodb_lock_wait_timeout = 2"
    with session.cursor() as own, other_connection.cursor() as others:
        own.execute(f"SET SESSION {wait}")
        others.execute("BEGIN")
        others.execute(f"SELECT id FROM {TABLE} WHERE id = {rows[4]} FOR UPDATE")
        walk(7 * DAY)
        assert ids() == [rows[4]]
        others.execute("ROLLBACK")
    walk(7 * DAY)
    assert ids() == [rows[4]]
    with clock_moved(DAY + 3_600):
        walk(7 * DAY)
    assert ids() == []


@pytest.mark.skipif(connection.vendor == "sqlite", reason="Has one lock, for which everybody waits")
def test_while_a_purge_runs_a_worker_does_not_wait(other_connection: BaseDatabaseWrapper) -> None:
    aged(20)
    walk(30 * DAY)
    lock = archive_sql.lock_mutex(SESSION.server, history_sql.READERS, wait=True)
    with other_connection.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute(lock.sql, lock.params)
        walk(7 * DAY)
        assert len(ids()) == 1
        cursor.execute("ROLLBACK")
    walk(7 * DAY)
    assert ids() == []


class Died(Exception):
    pass


def dying_at(number: int) -> Callable[..., Any]:
    """Let the worker die before the statement of this number."""
    count = 0

    def execute(go_on: Callable[..., Any], *arguments: Any) -> Any:
        nonlocal count
        count += 1
        if count == number:
            raise Died
        return go_on(*arguments)

    return execute


def test_who_dies_at_any_statement_leaves_what_was_not_due_and_the_next_one_does_the_rest() -> None:
    number, deaths = 0, 0
    while number == deaths:
        number += 1
        HistoryAge.objects.all().delete()
        walk(100 * YEAR)
        gone, kept = aged(20, rows=5), aged(20, rows=2, queue="b")
        young = aged(1)
        try:
            with connection.execute_wrapper(dying_at(number)):
                walk(7 * DAY, b=None)
        except Died:
            deaths += 1
        state = AgeState.read(SESSION)
        place = max((each.id for each in state.places.values()), default=0) if state else 0
        assert [each for each in ids() if each in gone] == [each for each in gone if each > place]
        walk(7 * DAY, b=None)
        assert ids() == [*kept, *young]
        ArchivedMessage.objects.all().delete()
    assert deaths > 10
    assert not HistoryReader.objects.exists()
