"""What every worker does for all must never keep it from its own messages."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from django.db import DatabaseError, connection
from django.test import override_settings

from django_dbqueue.insight import counter
from django_dbqueue.models import ArchivedMessage, Message, Queue, Schedule, Worker
from django_dbqueue.models.fields import clock
from django_dbqueue.sessions.django_session import session_of
from django_dbqueue.worker.maintenance import Maintenance
from django_dbqueue.worker.timetable import Timetable
from tests.concurrency.steps import meet
from tests.factories import QUEUE, done
from tests.schedules.timetables import plan

pytestmark = pytest.mark.django_db(transaction=True)


def worker_row(number: int, *, age: timedelta) -> Worker:
    moment = clock("default") - age
    return Worker.objects.create(id=number, host="h", pid=1, queues=QUEUE, threads=1, beat_at=moment, late_at=moment)


@contextmanager
def without_table(model: Any) -> Iterator[None]:
    """Any trouble that lasts: a missing privilege, a full disk, a migration that was not run."""
    table = model._meta.db_table
    with connection.schema_editor() as editor:
        editor.alter_db_table(model, table, f"{table}_away")
    try:
        yield
    finally:
        with connection.schema_editor() as editor:
            editor.alter_db_table(model, f"{table}_away", table)


def test_tidying_waits_for_none_that_has_the_row_of_a_live_worker_locked() -> None:
    """A guardian that is frozen in the middle of a verdict, say."""
    worker_row(1, age=timedelta(days=2))
    worker_row(2, age=timedelta(0))
    maintenance = Maintenance(session_of("default"), (QUEUE,))
    maintenance.run(0.0)

    def lock() -> Worker:
        return Worker.objects.select_for_update().get(pk=2)

    met = meet(lock, lambda: maintenance.run(1_000.0), waits=False)
    assert met.first.pk == 2
    assert met.second is None
    assert list(Worker.objects.values_list("pk", flat=True)) == [2]


@override_settings(DBQUEUE={"DEFAULTS": {"retention": 0}})
def test_a_history_that_can_not_be_written_leaves_all_else_of_maintenance_as_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(counter, "SECONDS", 30)  # a busy machine must not cut a turn short
    message = done()
    maintenance = Maintenance(session_of("default"), (QUEUE,))
    maintenance.run(0.0)
    with without_table(ArchivedMessage):
        for moment in (61.0, 61.5):  # who counts and who archives each have a turn of their own to fail in
            with pytest.raises(DatabaseError):
                maintenance.run(moment)
        Queue.objects.pause("other")
        maintenance.run(62.5)
        assert maintenance.idle_poll.closed == {"other"}
        assert Message.objects.filter(pk=message.pk).exists()
    maintenance.run(123.0)
    assert not Message.objects.filter(pk=message.pk).exists()


def test_schedules_that_can_not_be_read_are_checked_again_and_not_at_every_turn() -> None:
    timetable = Timetable(session_of("default"), (plan(),), clock("default"))
    with without_table(Schedule):
        with pytest.raises(DatabaseError):
            timetable.run(0.0)
        timetable.run(0.5)
    assert not Schedule.objects.exists()
    timetable.run(1.5)
    assert Schedule.objects.exists()
