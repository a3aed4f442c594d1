"""Workers delete rows of the history that are older than their queue's history_retention, and no others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.db.backends.base.base import BaseDatabaseWrapper
from django.test import override_settings
from django.test.utils import CaptureQueriesContext

from django_dbqueue.exceptions import HistoryGone
from django_dbqueue.history import age_walk, history_sql
from django_dbqueue.history.age_state import AgeState
from django_dbqueue.history.age_walk import AgeWalk
from django_dbqueue.lifecycle import archive_sql
from django_dbqueue.models import ArchivedMessage, ExportBatch, HistoryAge, HistoryReader, Message
from django_dbqueue.spark import history_readers
from django_dbqueue.spark.export_batches import Register
from django_dbqueue.worker.maintenance import TIDY_EVERY, Maintenance
from tests.factories import QUEUE, done
from tests.history.aging import DAY, SESSION, YEAR, aged, clock_moved, walk
from tests.refusing import pointing_to, refusing
from tests.spark.archives import ids

pytestmark = pytest.mark.django_db(transaction=True)
TABLE = ArchivedMessage._meta.db_table
READERS: Any = SESSION
"""Django's session, where Spark has its own."""


@pytest.fixture(autouse=True)
def _small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(age_walk, "WINDOW", 3)
    monkeypatch.setattr(age_walk, "AT_ONCE", 6)
    monkeypatch.setattr(age_walk, "OTHERS_CHECK", 0)


@pytest.fixture(autouse=True)
def _checked_before(_small_windows: None, transactional_db: None) -> None:
    """A worker has checked the clock before there were rows."""
    walk(100 * YEAR)


def test_rows_go_at_the_age_of_their_queue_and_others_stay() -> None:
    aged(30, rows=8)
    week = aged(8, queue="a")
    for_ever = aged(8, queue="b")
    young = aged(6, rows=2)
    walk(7 * DAY, a=9 * DAY, b=None)
    assert ids() == [*week, *for_ever, *young]


def test_by_default_nothing_goes_and_nothing_is_queried() -> None:
    aged(1_000)
    with CaptureQueriesContext(connection) as queries:
        assert not AgeWalk(SESSION).turn(None, {})
    assert queries.captured_queries == []


@override_settings(DBQUEUE={"QUEUES": {"a": {"history_retention": 7 * DAY}}})
def test_a_worker_does_it_each_minute_whatever_queues_it_serves() -> None:
    kept, gone = aged(8), aged(8, queue="a")
    maintenance = Maintenance(SESSION, (QUEUE,))
    for minute in range(3):
        maintenance.run(minute * TIDY_EVERY)
    assert ids() == kept
    assert HistoryAge.objects.get().gone_to == gone[0]


def test_one_turn_deletes_a_bounded_part_and_reports_that_more_is_left() -> None:
    aged(8, rows=14)
    walker = AgeWalk(SESSION)
    left = []
    more = True
    while more:
        more = walker.turn(7 * DAY, {})
        left.append(len(ids()))
    assert left == [8, 2, 0]


def test_no_row_behind_a_younger_one_goes() -> None:
    """Ids grow with time: a row that seems older was written while the clock was behind."""
    before = aged(6)
    behind = aged(400)
    walk(7 * DAY)
    assert ids() == [*before, *behind]


def test_what_stays_is_passed_once() -> None:
    aged(8, rows=10)
    place = aged(8, queue="a")[0]
    aged(0)
    walk(None, a=7 * DAY)
    with CaptureQueriesContext(connection) as queries:
        walk(None, a=7 * DAY)
    sent = [
        each["sql"] for each in queries.captured_queries if f"FROM {TABLE}" in each["sql"] and "LIMIT" in each["sql"]
    ]
    assert len(sent) == 1
    assert f"id > {place} " in sent[0]


def test_queues_whose_retention_is_set_later_begin_with_their_oldest_row() -> None:
    a, b = aged(20, queue="a"), aged(20, queue="b")
    walk(None, a=30 * DAY)
    walk(None, a=10 * DAY)
    assert ids() == b
    walk(None, a=10 * DAY, b=10 * DAY)
    assert ids() == []
    assert a < b


# -- exports and readers -------------------------------------------------------------------------------------------


def test_what_an_export_has_planned_and_not_verified_stays() -> None:
    gone, kept = aged(20, rows=2), aged(20, rows=2)
    register = Register(READERS, "lake:1")
    assert register.begin() == 0
    walk(7 * DAY)
    assert ids() == [*gone, *kept], "it has read nothing yet"
    batch = register.plan(0, 2, register.cutoff(0))
    assert batch is not None
    walk(7 * DAY)
    assert ids() == [*gone, *kept]
    register.verified(batch)
    planned = register.plan(batch.last_id, 2, register.cutoff(0))
    assert planned is not None
    walk(7 * DAY)
    assert ids() == kept
    assert register.remaining(planned) == planned.rows
    register.verified(planned)
    walk(7 * DAY)
    assert ids() == []
    assert register.purge(batch, progress=lambda _: None) == 0, "whoever purges it finds nothing left"
    assert ExportBatch.objects.filter(state="purged").count() == 1


def test_the_slowest_reader_holds_it() -> None:
    rows = aged(20, rows=4)
    history_readers.begin(READERS, "slow", history_readers.EARLIEST)
    history_readers.begin(READERS, "fast", history_readers.LATEST)
    walk(7 * DAY)
    assert ids() == rows
    history_readers.advance(READERS, "slow", rows[1])
    walk(7 * DAY)
    assert ids() == rows[2:]


def test_a_reader_that_was_forgotten_learns_that_rows_are_gone_and_one_that_was_not_goes_on() -> None:
    rows = aged(20, rows=4, queue="a")
    kept = aged(20)[0]
    history_readers.begin(READERS, "r", history_readers.EARLIEST)
    history_readers.advance(READERS, "r", rows[1])
    walk(None, a=7 * DAY)
    history_readers.resume(READERS, "r", rows[1])
    history_readers.require_kept(READERS, "r", rows[1])
    assert history_readers.forget(READERS, "r")
    walk(None, a=7 * DAY)
    assert ids() == [kept]
    with pytest.raises(HistoryGone, match="history_retention"):
        history_readers.resume(READERS, "r", rows[1])
    begun = history_readers.begin(READERS, "new", history_readers.EARLIEST)
    assert begun == kept - 1
    history_readers.require_kept(READERS, "new", begun)


def test_a_new_lake_takes_what_is_there() -> None:
    aged(20, queue="a")
    kept = aged(20)
    walk(None, a=7 * DAY)
    register = Register(READERS, "lake:1")
    batch = register.plan(register.begin(), 10, register.cutoff(0))
    assert batch is not None
    assert (batch.last_id, batch.rows) == (kept[0], 1)


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


def test_where_nobody_has_checked_the_clock_what_is_old_goes_all_the_same() -> None:
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
