"""The thread that keeps a child's leases and its row alive, on a connection of its own."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Final

from django.db import Error

from django_dbqueue.databases import Claim
from django_dbqueue.databases.statement import MAX_IDS, chunks
from django_dbqueue.liveness.late_workers import BEAT_HOLDING, BEAT_IDLE, BEAT_RESTING
from django_dbqueue.liveness.presence import Presence
from django_dbqueue.sessions.apart import apart, name_refused
from django_dbqueue.sessions.django_session import DjangoSession
from django_dbqueue.statements import moves_sql
from django_dbqueue.worker import last_words
from django_dbqueue.worker.cancellations import announce_lost
from django_dbqueue.worker.delivery import Delivery
from django_dbqueue.worker.holding import Holding
from django_dbqueue.worker.sleepers import Seat
from django_dbqueue.worker.thread_connections import discard, discard_all, forget_queries, leave_ended
from django_dbqueue.worker.worker_options import EXIT_FAILED

_LONGEST_NAP: Final = 0.5
_AFTER_TROUBLE: Final = 0.25
_EARLY: Final = 0.9
_WITH_A_QUESTION: Final = 0.65
"""An asker beats for all that rest after this part of what their rows promise, so that none of them has to: earlier
when it has just asked, if it asks seldom, so that a server is woken once for both."""
_LONG: Final = 30.0
"""Seconds without a statement after which the server may have ended the session."""

logger = logging.getLogger(__name__)


class Heartbeat(threading.Thread):
    """Beats, extends leases at a third of their length, and notices when the supervisor is gone."""

    def __init__(
        self, session: DjangoSession, presence: Presence, holding: Holding, seat: Seat, orphaned: Callable[[], None]
    ) -> None:
        super().__init__(name="dbqueue-heartbeat", daemon=True)
        self._session = session
        self._presence = presence
        self._holding = holding
        self._seat = seat
        self._orphaned = orphaned
        self._parent = os.getppid()
        self._over = False
        self._troubles: set[str] = set()
        self._stirred = threading.Event()
        self._beat_at = 0.0
        self._spoke_at = self._held_at = time.monotonic()

    def stop(self) -> None:
        """Let the thread end, and wait for it."""
        self._over = True
        self._stirred.set()
        self.join(timeout=5)

    def beat_now(self) -> None:
        """Beat now rather than at the next scheduled time."""
        self._beat_at = 0.0
        self._stirred.set()

    def run(self) -> None:
        """Do what is due, sleep until the next thing is; end the process rather than leave it without a heartbeat."""
        forget_queries()
        try:
            while not self._over:
                self._turn()
        except BaseException:
            logger.critical("the heartbeat has ended, so its process exits", exc_info=True)
            last_words.flush()
            os._exit(EXIT_FAILED)
        discard_all()

    def _turn(self) -> None:
        if os.getppid() != self._parent:
            self._orphaned()
        for due in (self._extend_due, self._beat_if_due, self._check_if_called):
            self._try(due)  # one that keeps failing doesn't hold up the others
        self._stirred.wait(_AFTER_TROUBLE if self._troubles else self._nap())
        self._stirred.clear()

    def _try(self, due: Callable[[], None]) -> None:
        """Do it; log once why it fails, and keep trying."""
        try:
            due()
        except Error as error:
            self._warn_once(due.__name__, "the heartbeat can't reach the database, retrying: %s", error)
            discard(self._session.using)
        except Exception as error:
            self._warn_once(due.__name__, "the heartbeat failed, retrying: %r", error, exc_info=True)
            discard(self._session.using)
        else:
            self._troubles.discard(due.__name__)

    def _warn_once(self, what: str, text: str, error: Exception, *, exc_info: bool = False) -> None:
        if what not in self._troubles:
            logger.warning(text, error, exc_info=exc_info)
        self._troubles.add(what)

    def _nap(self) -> float:
        waits = [delivery.extend_at for delivery in self._holding.snapshot() if delivery.lease]
        soonest = min(self._beat_at + self._due_after, *waits, float("inf"))
        return min(_LONGEST_NAP, max(0.02, soonest - time.monotonic()))

    @property
    def _every(self) -> int:
        """Beat quickly while messages are held, and for a while after, so that a pause doesn't change the rhythm."""
        if time.monotonic() - self._held_at < BEAT_IDLE:
            return BEAT_HOLDING
        return max(BEAT_RESTING, self._seat.beat_every) if self._seat.rests else BEAT_IDLE

    @property
    def _due_after(self) -> int:
        """Keep what the row has promised, until another beat promises a slower rhythm."""
        return min(self._every, self._presence.promised or self._every)

    def _beat_if_due(self) -> None:
        now, held = time.monotonic(), len(self._holding)
        self._held_at = now if held else self._held_at
        self._seat.note_beat(is_slow=self._presence.promised >= BEAT_RESTING)
        if (vouched_at := self._seat.vouched_at) > self._beat_at:
            self._beat_at, self._presence.promised = vouched_at, self._seat.vouched_for
        ids, every = self._seat.vouched(), self._every
        part = 1.0 if not ids else _EARLY
        if ids and every > BEAT_RESTING and now - self._seat.question_at < 1.0:
            part = _WITH_A_QUESTION
        if now - self._beat_at < part * self._due_after:
            return
        if now - self._spoke_at > _LONG:
            leave_ended(self._session.using)
        if ids and self._presence.beat_for(ids, every=every):
            self._seat.note_vouched(ids, now, every)
            self._presence.promised = every
        else:
            self._presence.beat(held=held, every=every)
        self._spoke_at = self._beat_at = now

    def _check_if_called(self) -> None:
        """Check all that is held; and once more for a claim whose reply was on its way, however late it comes.

        What this child has lost already, because it claimed the message again, may have been cancelled before that.
        """
        if not (self._presence.is_called or self._holding.has_late):
            return
        self._presence.is_called = True  # until all is checked
        self._holding.checked_at, self._holding.has_late = time.monotonic(), False
        for part in chunks((each for each in self._holding.snapshot() if each.cancelled_at is None), MAX_IDS):
            announce_lost(self._session, part)
        self._presence.is_called = False

    def _extend_due(self) -> None:
        now = time.monotonic()
        due = [
            delivery
            for delivery in self._holding.snapshot()
            if delivery.lease and now >= delivery.extend_at and not delivery.is_lost
        ]
        for part in chunks(due, MAX_IDS):
            extend(self._session, part)
            for delivery in part:
                delivery.extended_at = now


def extend(session: DjangoSession, deliveries: list[Delivery]) -> None:
    """Extend leases by their own length in one statement; inform deliveries whose claim is lost.

    Rows that a handler's open transaction has locked are skipped: nothing can take them meanwhile. So are those whose
    extension the server refuses: their leases expire.
    """
    server, extended = session.server, set[int]()

    def lock_and_extend(claims: list[Claim]) -> set[int]:
        with session.transaction():
            ids = {
                row[0]
                for row in session.fetch(moves_sql.lock(server, moves_sql.held(server, claims), skip_locked=True))
            }
            if ids:
                held = moves_sql.held(server, [claim for claim in claims if claim.id in ids])
                session.run(moves_sql.move(server, moves_sql.extend(server, None), held))
        return ids

    apart(
        [delivery.claim for delivery in deliveries],
        lambda some: extended.update(session.outermost(partial(lock_and_extend, some))),
        lambda claim, error: name_refused(claim.id, error),
    )
    missing = [delivery for delivery in deliveries if delivery.claim.id not in extended]
    if missing:
        announce_lost(session, missing)
