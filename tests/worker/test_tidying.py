"""Once a minute a worker deletes whatever has been kept for long enough, and nothing younger."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from django_dbqueue.models import ArchivedMessage, Failure, Message, MessageEvent, Once, Result, Schedule, Worker
from django_dbqueue.models.fields import clock
from django_dbqueue.sessions.django_session import session_of
from django_dbqueue.worker.board import Board
from django_dbqueue.worker.maintenance import TIDY_EVERY, Maintenance
from tests.factories import QUEUE, done, let_pass

pytestmark = pytest.mark.django_db(transaction=True)

YEAR = timedelta(days=365)
ENDED = "ended"


def test_a_worker_forgets_each_kind_of_row_whose_time_has_ended() -> None:
    now = clock("default")
    for number, moment in enumerate((now - YEAR, now + YEAR), 1):
        keep_one_of_each(number, moment)
    let_pass(done(key=ENDED), YEAR.total_seconds())
    young = done()
    maintenance = Maintenance(session_of("default"), (QUEUE,))
    for minute in range(3):
        maintenance.run(minute * TIDY_EVERY)
    assert {
        "results": [*Result.objects.values_list("pk", flat=True)],
        "tokens": [*Once.objects.values_list("message_id", flat=True)],
        "events": [*MessageEvent.objects.filter(kind="failed").values_list("message_id", flat=True)],
        "failures": [*Failure.objects.values_list("fingerprint", flat=True)],
        "schedules": [*Schedule.objects.values_list("name", flat=True)],
        "workers": [*Worker.objects.values_list("pk", flat=True)],
    } == {"results": [2], "tokens": [2], "events": [2], "failures": ["2"], "schedules": ["s2"], "workers": [2]}
    assert [*Message.objects.all()] == [young]
    assert ArchivedMessage.objects.get().key == ENDED


def test_children_that_live_for_seconds_tidy_as_often_as_one_that_lives_on() -> None:
    let_pass(done(key=ENDED), YEAR.total_seconds())
    board = Board(0)
    for second in range(1_000, 1_000 + int(2 * TIDY_EVERY), 10):
        board, before = Board(0), board
        board.tidies_at = before.tidies_at
        Maintenance(session_of("default"), (QUEUE,), board).run(second)
    assert ArchivedMessage.objects.get().key == ENDED


def keep_one_of_each(number: int, moment: datetime) -> None:
    """One row of each kind that was last of use at that moment."""
    Result.objects.create(message_id=number, body="1", content_type="json", expires_at=moment)
    Once.objects.create(hash=str(number) * 64, message_id=number, expires_at=moment)
    failure = Failure.objects.create(queue=QUEUE, fingerprint=str(number), first_at=moment)
    MessageEvent.objects.create(message_id=number, queue=QUEUE, kind="failed", failure_id=failure.pk, at=moment)
    Worker.objects.create(id=number, host="h", pid=1, queues=QUEUE, threads=1, beat_at=moment, late_at=moment)
    Schedule.objects.create(
        name=f"s{number}", queue=QUEUE, cron="0 0 * * *", timezone="UTC", declared_at=moment, seen_at=moment
    )
