"""Workers delete rows of the history that are older than their queue's history_retention, and no others."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test import override_settings
from django.test.utils import CaptureQueriesContext

from django_dbqueue.exceptions import HistoryGone
from django_dbqueue.history import age_state
from django_dbqueue.history.age_state import AgeState
from django_dbqueue.history.age_walk import AgeWalk
from django_dbqueue.insight.counter import Counter
from django_dbqueue.insight.statistics_sql import lakes_purged_into
from django_dbqueue.models import ArchivedMessage, ExportBatch, HistoryAge, Message, QueueMinute
from django_dbqueue.spark import history_readers
from django_dbqueue.spark.export_batches import Register
from django_dbqueue.worker.maintenance import TIDY_EVERY, Maintenance
from tests.factories import QUEUE, done
from tests.history.aging import DAY, SESSION, aged, clock_moved, small_windows, walk
from tests.spark.archives import ids

__all__ = ["small_windows"]
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("small_windows")]
TABLE = ArchivedMessage._meta.db_table
READERS: Any = SESSION
"""Django's session, where Spark has its own."""


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


def test_however_many_times_are_set_each_queue_comes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """More than places of other settings are remembered: each walk would begin with the first row again."""
    monkeypatch.setattr(age_state, "PLACES", 2)
    kept = aged(20, rows=20)
    retentions = {name: days * DAY for days, name in enumerate("abcd", 5)}
    for name in retentions:
        aged(20, queue=name)
    walker = AgeWalk(SESSION)
    for _turn in range(6):
        walker.turn(None, retentions)
    assert ids() == kept
    walk(None, e=7 * DAY)
    walk(None, f=7 * DAY)
    state = AgeState.read(SESSION)
    assert state is not None
    assert len(state.places) == 3, "and those of earlier settings are forgotten"


def test_nothing_goes_before_it_is_counted_for_good() -> None:
    counter = Counter(SESSION)
    while counter.turn():
        pass
    done()
    assert Message.objects.archive(QUEUE, older_than=0) == 1
    walk(0.0)
    assert len(ids()) == 1
    with clock_moved(900):
        while counter.turn():
            pass
        walk(0.0)
    assert ids() == []
    assert sum(QueueMinute.objects.filter(queue=QUEUE, shown=True).values_list("messages", flat=True)) == 1


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


def test_who_begins_when_all_is_gone_begins_behind_it() -> None:
    rows = aged(20, rows=2)
    walk(7 * DAY)
    assert history_readers.newest_id(READERS) == rows[-1]
    assert history_readers.begin(READERS, "late", history_readers.LATEST) == rows[-1]
    assert history_readers.begin(READERS, "early", history_readers.EARLIEST) == rows[-1]
    assert [each.behind for each in history_readers.readers(READERS)] == [0, 0]
    assert history_readers.forget(READERS, "late")
    history_readers.resume(READERS, "late", rows[-1])


def test_statistics_know_a_lake_that_has_rows_which_went_by_age() -> None:
    """Who counts without it would count too few."""
    aged(20, rows=4)
    register = Register(READERS, "lake:1")
    batch = register.plan(register.begin(), 2, register.cutoff(0))
    assert batch is not None
    walk(7 * DAY)
    assert SESSION.fetch(lakes_purged_into(SESSION.server, None)) == []
    register.verified(batch)
    assert SESSION.fetch(lakes_purged_into(SESSION.server, None)) == []
    walk(7 * DAY)
    assert SESSION.fetch(lakes_purged_into(SESSION.server, None)) == [("lake:1",)]
    assert SESSION.fetch(lakes_purged_into(SESSION.server, register.cutoff(-DAY))) == []


def test_a_new_lake_takes_what_is_there() -> None:
    aged(20, queue="a")
    kept = aged(20)
    walk(None, a=7 * DAY)
    register = Register(READERS, "lake:1")
    batch = register.plan(register.begin(), 10, register.cutoff(0))
    assert batch is not None
    assert (batch.last_id, batch.rows) == (kept[0], 1)
