"""What is done to steps besides running them: workers wake who was left behind, and tidy; operators forget one."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Final

from django_dbqueue.databases import EventRecord
from django_dbqueue.lifecycle.left_behind import LeftBehind
from django_dbqueue.sessions.apart import apart
from django_dbqueue.sessions.django_session import DjangoSession
from django_dbqueue.statements import events_sql, steps_sql
from django_dbqueue.statements.events_sql import FORGOTTEN
from django_dbqueue.statements.steps_sql import forget_steps
from django_dbqueue.steps.emitting import forget_events_emitted, wake_left_behind

BATCH: Final = 500


@dataclass(slots=True)
class StepWalk:
    """A worker's walk over all steps, a window at a time: it deletes those whose message is gone.

    The archive deletes steps with their messages. So they are left behind only where an ack removes the message, and
    the process that sent it died, or didn't know that the message had steps.
    """

    session: DjangoSession
    _after: int = 0
    _left: LeftBehind = field(default_factory=partial(LeftBehind, "Step"))
    _left_events: LeftBehind = field(default_factory=partial(LeftBehind, "Event"))

    def turn(self, *, limit: int) -> bool:
        """Wake, and delete a bounded part of what is over; return whether more is left."""
        session = self.session
        if not session.fetch(steps_sql.are_in_use(session.server)):
            return False
        woken = wake_left_behind(session, limit=BATCH)
        forgotten = forget_events_emitted(session, limit=limit, left=self._left_events)
        self._walk()
        return woken == BATCH or forgotten == limit

    def _walk(self) -> None:
        rows = self.session.fetch(steps_sql.behind(self.session.server, self._after, BATCH))
        gone = self._left.unmet(sorted({row[0] for row in rows if row[1] is None}))
        apart(gone, lambda some: self.session.outermost(partial(self._forget, some)), self._left.refused)
        self._after = rows[-1][0] if len(rows) == BATCH else 0

    def _forget(self, ids: list[int]) -> None:
        with self.session.transaction():
            forget_steps(self.session, ids)


def forget_step(session: DjangoSession, message_id: int, name: str, *, actor: str | None) -> bool:
    """Delete a step of a message that isn't done, and record it; return whether there was one."""

    def forget() -> bool:
        with session.transaction():
            is_there = session.run(
                events_sql.record(
                    session.server,
                    EventRecord(FORGOTTEN, name, actor),
                    steps_sql.unfinished(message_id),
                )
            )
            if is_there and not session.run(steps_sql.forget_one(session.server, message_id, name)):
                raise _NoStep
            return bool(is_there)

    try:
        return session.outermost(forget)
    except _NoStep:
        return False


class _NoStep(Exception):
    """There is nothing to forget, and nothing to record."""
