"""A poll says what is due, and when something is due next: together nothing is missed, however the clock moves."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection

from django_dbqueue.models import Queue
from django_dbqueue.sessions.django_session import session_of
from django_dbqueue.worker.idle_poll import IdlePoll
from tests.factories import QUEUE, held, waiting

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif("sqlite" not in connection.vendor, reason="elsewhere a statement has one time"),
]
TIME = "%Y-%m-%d %H:%M:%S.%f"


class Clock:
    """A time in SQL that passes a minute after so many calls."""

    def __init__(self) -> None:
        self.calls = 0
        self._still_for = 0

    def pass_after(self, times: int) -> None:
        self.calls, self._still_for = 0, times

    def now(self) -> str:
        self.calls += 1
        minutes = 0 if self.calls <= self._still_for else 1
        return f"{datetime.now(UTC) + timedelta(minutes=minutes):{TIME}}"[:-3]


@contextmanager
def with_clock(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    connection.ensure_connection()
    connection.connection.create_function("moving", 0, clock.now)
    with monkeypatch.context() as patch:
        patch.setattr(type(session_of("default").server), "now", "moving()")
        yield


@pytest.mark.parametrize(
    ("make", "is_due"),
    [
        (lambda: waiting(delay=30), lambda poll: QUEUE in poll.take_news()),
        (lambda: held(lease=30), lambda poll: QUEUE in poll.expired),
        (lambda: Queue.objects.pause(QUEUE, for_=30), lambda poll: QUEUE not in poll.closed),
    ],
    ids=["delayed", "held", "paused"],
)
def test_what_becomes_due_during_a_poll_is_due_or_comes_next(
    make: Callable[[], object], is_due: Callable[[IdlePoll], bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    make()
    poll, clock = IdlePoll(session_of("default"), (QUEUE,), ""), Clock()
    poll.awaits_work, poll.asker, poll.knows_next = True, 1, True
    with with_clock(clock, monkeypatch):
        clock.pass_after(1_000)
        for _ in range(2):  # it learns of the priority
            poll.poll("", soon=1.0)
        assert (is_due(poll), poll.next_due) == (False, pytest.approx(30, abs=10))
        most = clock.calls
        for times in range(most + 1):
            clock.pass_after(times)
            poll.poll("", soon=1.0)
            assert is_due(poll) or poll.next_due < math.inf, f"missed when the clock passed after {times} of {most}"
