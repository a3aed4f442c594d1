"""Workers at rest beat seldom, one for all, and are overdue as soon as any idle one was."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from django_dbqueue.liveness.late_workers import BEAT_HOLDING, BEAT_IDLE, BEAT_RESTING, is_overdue
from django_dbqueue.liveness.presence import Presence
from django_dbqueue.models import Worker
from django_dbqueue.models.fields import DbNow
from django_dbqueue.sessions.django_session import session_of
from tests.factories import QUEUE

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize(
    ("every", "after"), [(BEAT_HOLDING, 3), (BEAT_IDLE, 30), (BEAT_RESTING, 30), (450, 450 + BEAT_IDLE)]
)
def test_whoever_rests_is_overdue_ten_seconds_after_its_beat_was_due(every: int, after: int) -> None:
    beat_at = datetime(2026, 3, 1, tzinfo=UTC)
    assert not is_overdue(beat_at, every, beat_at + timedelta(seconds=after))
    assert is_overdue(beat_at, every, beat_at + timedelta(seconds=after, microseconds=1))


def test_the_asker_beats_for_those_that_rest_and_not_for_who_has_begun_something() -> None:
    late_at = DbNow() + timedelta(seconds=3_600)
    fields = {"host": "h", "pid": 1, "threads": 1, "queues": QUEUE, "late_at": late_at}
    resting, working = [1, 2], [3, 4]
    Worker.objects.bulk_create(Worker(id=each, beat_every=BEAT_RESTING, **fields) for each in resting)
    Worker.objects.bulk_create(Worker(id=each, beat_every=BEAT_HOLDING, **fields) for each in working)
    before = dict(Worker.objects.values_list("pk", "late_at"))
    presence = Presence(session_of("default"), 9, (QUEUE,), 1)
    assert presence.beat_for(resting, every=BEAT_RESTING)
    assert not presence.beat_for([*resting, *working], every=BEAT_RESTING)
    now = dict(Worker.objects.values_list("pk", "late_at"))
    assert {each for each in now if now[each] != before[each]} == {*resting}
