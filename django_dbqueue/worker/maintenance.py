"""What every worker does for all, a little at a time: rescue, guard, check for pauses, archive and tidy."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from functools import partial
from typing import Final, TypeVar

from django.db import DatabaseError

from django_dbqueue import conf
from django_dbqueue.history import partitioned
from django_dbqueue.history.age_walk import AgeWalk
from django_dbqueue.insight.counter import Counter
from django_dbqueue.lifecycle import archive, expired_rows, expired_streams, rescue
from django_dbqueue.lifecycle.left_behind import LeftBehind
from django_dbqueue.liveness.dead_workers import RECHECK_AFTER, Guardian
from django_dbqueue.liveness.late_workers import forget_workers
from django_dbqueue.models import Message, Schedule
from django_dbqueue.sessions.django_session import DjangoSession
from django_dbqueue.sessions.retry import distinct, in_one_line, is_refused
from django_dbqueue.steps.step_rows import StepWalk
from django_dbqueue.worker.board import Board
from django_dbqueue.worker.idle_poll import IdlePoll
from django_dbqueue.worker.keepers import Keepers
from django_dbqueue.worker.thread_connections import leave_ended

CHECK_EVERY: Final = 0.9
"""Seconds between checks for anything to do, in one statement; what arrives starts within a second."""
CHECK_SOONER: Final = 0.5
"""The same while a worker's beat would be late before that, unless it arrives: the dead are to be found soon."""
TIDY_EVERY: Final = 60.0
ARCHIVE_AT_ONCE: Final = 5_000
"""Rows of a queue that are moved in one turn, and dead ones that are checked."""
TOKENS_AT_ONCE: Final = 1_000
"""Expired tokens that are deleted in one turn."""
ARCHIVE_SHARE: Final = 10
"""If there is more to move than that, the next turn comes sooner, using at most 1/ARCHIVE_SHARE of the time."""
COUNT_EVERY: Final = 60.0
COUNT_AT_MOST: Final = 480.0
"""Seconds between the counts of a fleet that rests, however seldom it asks: an alert takes ten minutes for a fault."""
COUNT_SOON: Final = 10.0
"""Seconds between counts of what ended, while this worker ends something."""
COUNT_SHARE: Final = 20
"""If a count takes long, the next one waits, so that counting takes at most 1/COUNT_SHARE of the time."""
KEEP_EVERY: Final = 15.0
"""Seconds between checks for groups whose sender died between its commit and the kick."""
KEEP_SHARE: Final = 50
"""If there are more than one check takes, the next one comes sooner; they use at most 1/KEEP_SHARE of the time."""
SETTLED_FIRST: Final = 3.0
"""Seconds after an outage in which nothing is rescued: supervisors know better what their dead children held."""
WORKER_ROWS_KEPT: Final = 86_400.0
"""Seconds after which a worker's row that nobody could judge is deleted."""

LONG: Final = 30.0
"""Seconds without a statement after which the server may have ended the session."""

Result = TypeVar("Result")

ERRORS_KNOWN: Final = 1_000
_logged = set[str]()
"""Errors of maintenance whose traceback is in the log."""

logger = logging.getLogger("django_dbqueue.worker")


class Maintenance:
    """A runner of what is due, on the worker's own connection. Times are of the monotonic clock, in seconds.

    Each task is rescheduled before it is tried, so one that keeps failing doesn't keep the others from their turn.
    """

    def __init__(self, session: DjangoSession, queues: tuple[str, ...], board: Board | None = None) -> None:
        self._session = session
        self._board = board
        self._queues = queues
        self._guardian = Guardian(session)
        self.idle_poll = IdlePoll(session, queues, conf.get("OPERATIONS_QUEUE"))
        self._check_at = self._checked_at = 0.0
        self._rescue_from = 0.0
        self._to_do: list[Callable[[], object]] = []
        self._tidy_at = None if board is None else board.tidies_at
        self._done = {queue: archive.DoneWalk(session, queue) for queue in queues}
        self._dead = {queue: archive.DeadWalk(session, queue) for queue in queues}
        self._steps = StepWalk(session)
        self._history = AgeWalk(session)
        self._failures_after = 0
        models = ("MessageEvent", "Result", "Once", "Failure", "Worker", "Schedule")
        self._left = {name: LeftBehind(name) for name in models}
        self._keepers = Keepers(session)
        self._keep_at: float | None = None
        self._counter = Counter(session)
        self._count_at: float | None = None
        self._count_soon_at = 0.0
        self.has_ended_something = False
        """Set by the worker: there is something to count."""
        self._had_ended_something = False
        self.has_more = False
        """Whether the last turns have left something of what is done for all."""
        self.until_turn: Callable[[], float] | None = None
        """Set while this worker asks for all that rest: in how many seconds it asks again, once it has asked."""
        self.spread = 1.0
        """How many times less often it does what is to be done once for all."""
        self.askers = 1
        """How many workers take turns at that while they rest."""

    def wake(self, now: float) -> None:
        """Check at once after a sleep. What is done for all, others have done: no message waits for that now."""
        self._check_at = 0.0
        self._keep_at = _not_at_once(self._keep_at, now, KEEP_EVERY)
        self._tidy_at = _not_at_once(self._tidy_at, now, TIDY_EVERY)
        self._count_at = _not_at_once(self._count_at, now, COUNT_EVERY)

    def rest_no_longer(self, now: float) -> None:
        """Do again what is to be done once for all as often as one who works, the first time as soon as that."""
        self.spread = 1.0
        self._keep_at = _no_later(self._keep_at, now + KEEP_EVERY)
        self._tidy_at = _no_later(self._tidy_at, now + TIDY_EVERY)
        self._count_at = _no_later(self._count_at, now + COUNT_EVERY)

    def leave_ended(self, now: float) -> None:
        """Close the connection, before anything is due, if the server has ended it since the last check long ago."""
        if now - self._checked_at > LONG and self.is_due(now):
            leave_ended(self._session.using)

    def hasten(self, moment: float = 0.0) -> None:
        """Check by then, or at once."""
        self._check_at = min(self._check_at, moment)

    @property
    def is_judging(self) -> bool:
        """Return whether another worker seems to be dead, which a few more checks decide."""
        return self._guardian.suspects > 0

    def is_due(self, now: float) -> bool:
        """Return whether anything may be due."""
        times = (self._check_at, self._tidy_at or 0.0, self._count_at or 0.0, self._count_soon_at, self._keep_at or 0.0)
        return bool(self._to_do) or now >= min(times)

    def run(self, now: float) -> None:
        """Do what is due."""
        if now >= self._check_at:
            # if it fails, nothing is claimed until it is known which queues are paused
            self._check_at = now + self._check(now)
            self._checked_at = now
        if self._to_do:
            while self._to_do:
                _go_on(self._to_do.pop(0))
            self.idle_poll.renew_news()  # what was released is ready now, and was not when we checked
        if self._guardian.suspects:
            self._check_at = min(self._check_at, now + RECHECK_AFTER)
        _go_on(partial(self._count, now))
        _go_on(partial(self._keep, now))
        if self._tidy_at is None:  # spread over the minute, so that workers started together don't meet
            self._tidy_next(now + random.uniform(0.2, 1.0) * TIDY_EVERY)
        elif now >= self._tidy_at:
            self._tidy_next(now + TIDY_EVERY)  # should it fail
            began = time.monotonic()
            self.has_more = self._tidy()
            soon = max(1.0, ARCHIVE_SHARE * (time.monotonic() - began))
            self._tidy_next(now + (min(soon, TIDY_EVERY) if self.has_more else TIDY_EVERY * self.spread))

    def _tidy_next(self, moment: float) -> None:
        """Tidy then; the next child in this place does, if this one lives for less than a minute."""
        self._tidy_at = moment
        if self._board is not None:
            self._board.tidies_at = moment

    def until_next(self, now: float) -> float:
        """Return for how many seconds nothing urgent will be due: the dead are to be found soon."""
        return max(0.0, self._check_at - now)

    def hold_rescues(self, now: float) -> None:
        """Hold rescues after an outage: leases that expired meanwhile are left to the supervisors for a moment.

        A supervisor charges what was in a handler when its child died, and nothing else; a rescue charges everything.
        """
        self._rescue_from = now + SETTLED_FIRST

    def _check(self, now: float) -> float:
        """Ask what there is to do, and note it; return for how many seconds that is enough."""
        idle_poll = self.idle_poll
        idle_poll.poll(self._guardian.server(), soon=CHECK_EVERY)
        may_rescue = now >= self._rescue_from
        found = {
            self._rescue: may_rescue and idle_poll.expired,
            self._requeue: idle_poll.saw_claims_given_up,
            self._guardian.check: may_rescue and (idle_poll.saw_late_workers or self._guardian.suspects),
        }
        self._to_do += [act for act, wanted in found.items() if wanted and act not in self._to_do]
        every = CHECK_EVERY if self.until_turn is None else self.until_turn()
        return min(every, CHECK_SOONER) if idle_poll.expects_late_workers else every

    def _rescue(self) -> None:
        rescue.rescue(Message, self._session, self.idle_poll.expired)

    def _requeue(self) -> None:
        expired_streams.requeue_expired(Message, self._session)

    def _count(self, now: float) -> None:
        """Count what has ended, if it is time: soon if this worker ended something, and once a minute for others."""
        if self._count_at is None:
            self._count_at = now + random.uniform(0.0, 1.0) * COUNT_EVERY
        soon = self.has_ended_something or self._had_ended_something
        if now < (min(self._count_at, self._count_soon_at) if soon else self._count_at):
            return
        self._count_at, began = now + COUNT_EVERY, time.monotonic()
        self._count_soon_at = now + COUNT_SOON
        more = self._counter.turn()
        self._had_ended_something = self.has_ended_something  # a count lags a second behind: the next one has the last
        self.has_ended_something = False
        rest = COUNT_SHARE * (time.monotonic() - began)
        self._count_soon_at = now + max(COUNT_SOON, rest)
        self._count_at = now + (max(1.0, rest) if more else min(COUNT_EVERY * self.spread, COUNT_AT_MOST * self.askers))

    def _keep(self, now: float) -> None:
        """Look after the groups of all, if it is time; the first time soon, for an earlier worker may have died."""
        if self._keep_at is None:
            self._keep_at = now + random.uniform(0.0, 0.2) * KEEP_EVERY
        if now < self._keep_at:
            return
        self._keep_at, began = now + KEEP_EVERY, time.monotonic()
        rest = 1.0 if self._keepers.turn() else KEEP_EVERY * self.spread
        self._keep_at = now + max(rest, KEEP_SHARE * (time.monotonic() - began))

    def _tidy(self) -> bool:
        """Move a bounded part of what is old enough, unless another archiver is active; return whether more is left."""
        session = self._session
        _go_on(partial(partitioned.keep, session))  # first: without its table, nothing can be archived
        more = [_go_on(partial(self._archive, queue)) for queue in self._done]
        left = self._left
        _go_on(partial(Schedule.objects.using(session.using).forget, left["Schedule"]))
        _go_on(partial(forget_workers, session, age=WORKER_ROWS_KEPT, left=left["Worker"]))
        _go_on(self._forget_failures)
        age, most = conf.get("EVENT_RETENTION"), ARCHIVE_AT_ONCE
        gone = _go_on(partial(expired_rows.forget_events, session, age=age, limit=most, left=left["MessageEvent"]))
        past = _go_on(partial(expired_rows.forget_results, session, limit=most, left=left["Result"]))
        tokens = _go_on(partial(expired_rows.forget_tokens, session, limit=TOKENS_AT_ONCE, left=left["Once"]))
        more.append(_go_on(partial(self._steps.turn, limit=most)))
        more.append(_go_on(partial(self._history.turn, *conf.history_retentions())))
        return any(more) or ARCHIVE_AT_ONCE in (gone, past) or tokens == TOKENS_AT_ONCE

    def _archive(self, queue: str) -> bool:
        """Move what has been done, or dead, for long enough; return whether more is left."""
        options = conf.queue_options(queue)
        moved = self._done[queue].archive(
            age=options.retention, most_rows=ARCHIVE_AT_ONCE, limit=ARCHIVE_AT_ONCE, wait=False
        )
        if options.dead_retention is not None:
            self._dead[queue].archive(age=options.dead_retention, most_rows=ARCHIVE_AT_ONCE, wait=False)
        return moved == ARCHIVE_AT_ONCE

    def _forget_failures(self) -> None:
        self._failures_after = expired_rows.forget_failures(
            self._session, age=conf.get("EVENT_RETENTION"), after=self._failures_after, left=self._left["Failure"]
        )


def _not_at_once(at: float | None, now: float, every: float) -> float | None:
    """Return when to do what is due at this time: a little later if that has passed."""
    return at if at is None or at > now else now + random.uniform(0.0, 0.2) * every


def _no_later(at: float | None, moment: float) -> float | None:
    """Return when to do what is due at this time: by that moment."""
    return None if at is None else min(at, moment)


def _go_on(task: Callable[[], Result]) -> Result | None:
    """Do a task; what the database refuses of it for good keeps nothing else from its turn, and is logged.

    The traceback is logged once: the next turn is refused as well.
    """
    try:
        return task()
    except DatabaseError as error:
        if not is_refused(error):
            raise
        is_new = (which := distinct(error)) not in _logged
        if len(_logged) >= ERRORS_KNOWN:
            _logged.clear()
        _logged.add(which)
        what = "the database refused a part of the maintenance, which is left undone (%s)"
        logger.error(what, in_one_line(error), exc_info=is_new)
        return None
