"""A poll says what is due, and when something is due next: together they miss nothing, though the clock moves."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from django_dbqueue.databases import Statement
from django_dbqueue.databases.statement import Row
from django_dbqueue.models import Queue
from django_dbqueue.sessions.django_session import DjangoSession
from django_dbqueue.worker import idle_poll
from django_dbqueue.worker.idle_poll import IdlePoll
from tests.factories import QUEUE, held, waiting

pytestmark = pytest.mark.django_db(transaction=True)


class LeapingSession(DjangoSession):
    """A session whose clock leaps a minute ahead once it has run ``leaps_after`` statements."""

    sent = 0
    leaps_after = 1_000

    def fetch(self, statement: Statement) -> list[Row]:
        self.sent += 1
        if self.sent > self.leaps_after:
            now = self.server.now
            statement = Statement(statement.sql.replace(now, self.server.plus(now, "60")), statement.params)
        return super().fetch(statement)


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
    monkeypatch.setattr(idle_poll, "_TOGETHER", 1)  # on SQLite, the clock moves within a statement as well
    make()
    session = LeapingSession("default")
    poll = IdlePoll(session, (QUEUE,), "")
    poll.awaits_work, poll.asker, poll.knows_next = True, 1, True
    poll.poll("", soon=1.0)  # it learns of the priority
    session.sent = 0
    poll.poll("", soon=1.0)
    assert (is_due(poll), poll.next_due) == (False, pytest.approx(30, abs=10))
    for leaps_after in range(session.sent + 1):
        session.sent, session.leaps_after = 0, leaps_after
        poll.poll("", soon=1.0)
        assert is_due(poll) or poll.next_due < math.inf, f"missed when the clock leapt after {leaps_after} statements"
