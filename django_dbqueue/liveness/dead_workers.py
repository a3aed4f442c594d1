"""The guardian: rescues what a dead worker holds before its leases expire (promise P9).

It needs two signs, and only judges rows that name a worker. The worker has missed three beats, by the database's clock.
And its session is gone: the named lock that the session was proven to hold is free or, if it holds none, the session is
missing from the server's list, provided that list can be seen in full. Both must hold at two checks by the same
guardian, two seconds apart, and once more in the transaction that locks the worker's row and rescues.

A session that was proven on another server, or before the server's last start, is no sign: it may be gone here while
its worker lives. Then the lease counts (``lifecycle/rescue``), as it does for claims without a worker.

``late_workers`` finds who has missed beats, and ``databases/sessions_sql`` asks for locks and sessions.
"""

from __future__ import annotations

import logging
import time
from functools import partial
from typing import Any, Final, NamedTuple

from django.db import DatabaseError, transaction
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_dbqueue.databases import means
from django_dbqueue.databases.sessions_sql import SessionsSQL
from django_dbqueue.failures.failure_group_rows import with_failures
from django_dbqueue.lifecycle.left_behind import LeftBehind
from django_dbqueue.lifecycle.moves import held_by, move
from django_dbqueue.lifecycle.rescue import BATCH, announce_rescued
from django_dbqueue.liveness.late_workers import Late, delete, late_workers, lock, workers
from django_dbqueue.models import Message
from django_dbqueue.models.fields import DbLater
from django_dbqueue.sessions.django_session import DjangoSession
from django_dbqueue.sessions.retry import is_refused
from django_dbqueue.statements import moves_sql

RECHECK_AFTER: Final = 0.25
"""Seconds after which a worker that seems to be gone is checked again."""
PERSISTS: Final = 2.0
"""Seconds for which a session must have been gone."""
JUDGES_FOR: Final = 0.5
"""Seconds after which a check leaves the remaining dead workers to the next one."""
LATELY: Final = 60.0
"""Maximum age, in seconds, of a worker's last beat for it to count among the blind spots."""
SETTLES: Final = 3.0
"""Seconds that a worker has, after its start or an outage, to prove its session before it is reported."""

logger = logging.getLogger(__name__)


class RescuedRow(NamedTuple):
    """A rescued message, as it was before."""

    id: int
    queue: str
    read_count: int
    max_reads: int | None


class Guardian:
    """A watcher of late workers; it remembers since when each one's session is gone, for its own session's lifetime."""

    def __init__(self, session: DjangoSession) -> None:
        self._session = session
        self._raw: Any = None
        self._server = ""
        self._gone_since: dict[Late, float] = {}
        self._warned_blind = False
        self._left = LeftBehind("Worker")

    @property
    def suspects(self) -> int:
        """Return how many workers seem to be gone and await the next check."""
        return len(self._gone_since)

    def check(self) -> int:
        """Judge which workers are gone; return how many messages were rescued. Call it often."""
        here = self.server()
        if not here:
            return 0
        late = late_workers(self._session, here, without=self._left.lately())
        gone, now = self._gone(late), time.monotonic()
        self._gone_since = {
            key: self._gone_since.get(key, now) for worker in late if worker in gone for key in [_unjudged(worker)]
        }
        rescued = 0
        for worker in late:
            since = self._gone_since.get(_unjudged(worker))
            if time.monotonic() - now > JUDGES_FOR:
                break
            if worker.is_overdue and since is not None and now - since >= PERSISTS:
                rescued += self._judge(worker)
        return rescued

    def server(self) -> str:
        """Return the server whose workers can be judged from here, '' where there are no sessions (SQLite).

        It forgets what an earlier session has seen: the new one may be on another server, or after a restart.
        """
        connection, sessions = self._session.connection, self._session.server.sessions
        if sessions is None:
            return ""
        connection.ensure_connection()
        if connection.connection is not self._raw:
            self._gone_since.clear()
            [(_, here)] = self._session.fetch(sessions.me())
            self._server, self._raw = str(here), connection.connection
        return self._server

    def _gone(self, late: list[Late]) -> set[Late]:
        """Return the workers whose session is gone, as far as this server and this account can see."""
        sessions = self._session.server.sessions
        if sessions is None:
            return set()
        locks = {worker.session_lock: worker for worker in late if worker.session_lock is not None}
        listed = [worker for worker in late if worker.session_lock is None and worker.conn_id is not None]
        gone: set[Late] = set()
        if locks:
            free = self._session.fetch(sessions.free_locks([number for number in locks if number is not None]))
            gone = {locks[int(number)] for here, number in free if locks[int(number)].server == here}
        if listed:
            there = self._sessions(sessions, [worker.conn_id for worker in listed if worker.conn_id is not None])
            servers = {here for here, _ in there}
            present = {number for _, number in there}
            gone |= {worker for worker in listed if worker.conn_id not in present and worker.server in servers}
        return gone

    def _sessions(self, sessions: SessionsSQL, ids: list[int]) -> set[tuple[str, int]]:
        """Return those of these sessions that exist, and one's own; nothing if the list can't be seen in full."""
        try:
            return {(str(here), int(number)) for here, number in self._session.fetch(sessions.existing(ids))}
        except DatabaseError as error:
            if not means(error, "hidden"):
                raise
            if not self._warned_blind:
                self._warned_blind = True
                logger.warning("%s", _blind_words())
            return set()

    def _judge(self, worker: Late) -> int:
        rescued = 0
        while True:
            try:
                messages, is_all = self._session.outermost(partial(self._rescue_some, worker))
            except BaseException:
                self._left.forget(worker.id)
                raise
            _announce(self._session.using, messages, worker.evidence)
            rescued += len(messages)
            if is_all or not messages:
                return rescued

    def _rescue_some(self, worker: Late) -> tuple[list[RescuedRow], bool]:
        """Rescue up to BATCH messages of a worker that is still gone; delete its row with the last of them.

        Its row is locked: a beat that arrives now waits, and finds the row gone. Rows that are locked elsewhere (a
        handler's session may end later than the worker's own) are left for the next check.
        """
        here = self._session.server
        with self._session.transaction():
            if not lock(self._session, worker.id, worker.beat_at, worker.server):
                return [], True
            if worker not in self._gone([worker]):
                return [], True
            queues = worker.queues.split(",")
            owned = held_by(self._session, queues, worker.id)
            part = owned[:BATCH]
            free = (
                self._session.fetch(moves_sql.lock(here, moves_sql.held(here, part), skip_locked=True)) if part else []
            )
            messages = self._read([row[0] for row in free])
            ids = {row.id for row in messages}
            if ids:
                change = moves_sql.rescue(here, f"WorkerGone: {worker.evidence}.")
                change = with_failures(self._session, change, {row.queue for row in messages})
                move(self._session, change, moves_sql.held(here, [claim for claim in part if claim.id in ids]))
            is_all = len(ids) == len(owned)
            if is_all:
                self._delete(worker)
        return messages, is_all

    def _delete(self, worker: Late) -> None:
        """Delete its row; if the server doesn't let it go, what was rescued is rescued all the same."""
        if self._left.without(self._session, [worker.id]):
            try:
                with transaction.atomic(using=self._session.using):
                    delete(self._session, worker.id)
            except DatabaseError as error:
                if not is_refused(error):
                    raise
                self._left.refused(worker.id, error)

    def _read(self, ids: list[int]) -> list[RescuedRow]:
        rows = Message.objects.using(self._session.using).filter(pk__in=ids)
        return [RescuedRow(*row) for row in rows.values_list("id", "queue", "read_count", "max_reads")]


def _unjudged(worker: Late) -> Late:
    """Return the worker as its row stands: only time changes ``is_overdue``."""
    return worker._replace(is_overdue=False)


def _announce(using: str, messages: list[RescuedRow], evidence: str) -> None:
    for queue in {message.queue: None for message in messages}:
        rows = [(each.id, each.read_count, each.max_reads) for each in messages if each.queue == queue]
        announce_rescued(Message, using, queue, rows, evidence, f"WorkerGone: {evidence}.")


def _blind_words() -> str:
    return _(
        "The list of sessions is not used, because this account may only see its own sessions in it: the messages of "
        "dead workers whose session held no named lock wait until their leases expire. To use the list: GRANT "
        "PROCESS ON *.* TO this account."
    )


def blind_spots(session: DjangoSession) -> list[str]:
    """Say what a guardian on this connection can't see, and what to do about it; nothing if it sees everything."""
    sessions = session.server.sessions
    if sessions is None:
        return [_("SQLite has no sessions: the messages of a dead worker come back when their leases expire.")]
    return [*blind_to_sessions(session, sessions), *blind_to_workers(session, sessions)]


def blind_to_sessions(session: DjangoSession, sessions: SessionsSQL) -> list[str]:
    """Say that this account may not see other accounts' sessions, if the server hides them."""
    try:
        session.fetch(sessions.existing([0]))
    except DatabaseError as error:
        if not means(error, "hidden"):
            raise
        return [_blind_words()]
    return []


def blind_to_workers(session: DjangoSession, sessions: SessionsSQL) -> list[str]:
    """Say which living workers can't be judged from here."""
    spots: list[str] = []
    [(_conn_id, here)] = session.fetch(sessions.me())
    rows = workers(session).filter(beat_at__gt=DbLater(-LATELY), started_at__lt=DbLater(-SETTLES))
    places = list(rows.exclude(server=here).values_list("server", flat=True))
    unproven = places.count("")
    if unproven:
        spots.append(
            ngettext(
                "%(count)s worker can't prove its session (its log says why; often because of a connection pooler): "
                "only its leases count. Connect it to the database directly.",
                "%(count)s workers can't prove their sessions (their logs say why; often because of a connection "
                "pooler): only their leases count. Connect them to the database directly.",
                unproven,
            )
            % {"count": unproven}
        )
    if elsewhere := len(places) - unproven:
        spots.append(
            ngettext(
                "%(count)s worker is connected to another server than this one, or connected before this server's "
                "last start: only its leases count. Run the guardian on the server that the workers connect to.",
                "%(count)s workers are connected to another server than this one, or connected before this server's "
                "last start: only their leases count. Run the guardian on the server that the workers connect to.",
                elsewhere,
            )
            % {"count": elsewhere}
        )
    return spots
