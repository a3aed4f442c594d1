"""The signs that a child lives: the row that it beats, and the named lock that its session holds.

The main thread's session, which claims and settles, takes a lock whose number it draws at each connect: the previous
session may linger at the server, and must not vouch for it. The heartbeat, from its own session, checks that the lock
is held by the session that the main thread believes it has. Only then does the row name the session, and others may
judge by it (``liveness.guardian``). A pooler in between fails that proof; then only the lease counts.
"""

from __future__ import annotations

import logging
import os
import secrets
import threading
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from django.db import Error, IntegrityError, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from django_dbqueue import conf
from django_dbqueue.databases import terms_of
from django_dbqueue.databases.sessions_sql import SessionsSQL
from django_dbqueue.models import Worker
from django_dbqueue.models.fields import DbNow
from django_dbqueue.sessions.django_session import session_of

BEAT_HOLDING: Final = 1
BEAT_IDLE: Final = 10
"""Seconds between beats of the worker's row: while it holds messages, and while it holds none."""
SLACK: Final = 0.15
"""Seconds by which a beat may be later than promised before its worker is checked."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class OwnSession:
    """The main thread's session, as it sees itself; ``doubt`` says why it can't be sure, or is ''."""

    conn_id: int
    server: str = ""
    lock: int | None = None
    doubt: str = ""


class Presence:
    """A writer of a child's row; the main thread and the heartbeat each call it on their own connection."""

    def __init__(self, using: str, worker: Worker) -> None:
        self._using = using
        self._worker = worker
        self._session: OwnSession | None = None
        self._proven: OwnSession | None = None
        self._failures = 0
        self._warned = False
        self.promised = 0
        """Seconds from the last write within which the row promises a beat; 0 before the first."""
        self.judged = threading.Event()
        """Set when the heartbeat has proven the session, or has found that it can't."""

    @property
    def beats_too_slowly(self) -> bool:
        """Whether the row promises the beats of an idle worker."""
        return self.promised != BEAT_HOLDING

    # -- the main thread ----------------------------------------------------------------------------------

    def connect(self, *, held: int) -> None:
        """Take the session that the main thread's connection has now, and put it in the row, unproven as yet."""
        session_of(self._using).allow_updates()
        session = _take_session(self._using)
        self._write(held=held, every=BEAT_HOLDING, conn_id=session.conn_id, server="", session_lock=None)
        self._session = session

    def begin_holding(self, held: int) -> None:
        """Promise quick beats before the first of these messages starts."""
        if self.beats_too_slowly and session_of(self._using).server.sessions:
            self._write(held=held, every=BEAT_HOLDING)

    # -- the heartbeat ------------------------------------------------------------------------------------

    def beat(self, *, held: int, every: int) -> None:
        """Write that the worker lives, and through which session, if that can be proven."""
        session = self._session
        if session is None:
            return
        proven = self._prove(session)
        self._write(
            of=session,
            held=held,
            every=every,
            server=session.server if proven else "",
            session_lock=session.lock if proven else None,
        )
        if session is self._session:
            self.judged.set()

    def _prove(self, session: OwnSession) -> bool:
        """Check from here that the main thread's session is what it believes; warn once if it never was."""
        sessions = session_of(self._using).server.sessions
        if sessions is None:
            return False
        was_proven = session is self._proven
        doubt = session.doubt or _doubt(self._using, sessions, session, seen_before=was_proven)
        self._proven = None if doubt else session
        self._failures = 0 if not doubt or was_proven else self._failures + 1
        if (session.doubt or self._failures > 1) and not self._warned and session is self._session:
            self._warned = True
            logger.warning(
                "nothing outside can see whether this worker is alive: %s; if all of it dies, its messages wait "
                "until their leases expire",
                doubt,
            )
        return not doubt

    # -- the row ------------------------------------------------------------------------------------------

    def _write(self, *, every: int, of: OwnSession | None = None, **fields: object) -> None:
        """Update the row (only for this session, from the heartbeat), or write it again if somebody removed it."""
        fields |= {"beat_at": DbNow(), "beat_every": every, "late_at": DbNow() + timedelta(seconds=every + SLACK)}
        rows = Worker.objects.using(self._using).filter(pk=self._worker.pk)
        mine = rows if of is None else rows.filter(conn_id=of.conn_id)
        self.promised = every
        if mine.update(**fields) or (of is not None and of is not self._session):
            return
        try:
            with transaction.atomic(using=self._using):
                self._insert(fields if of is None else fields | {"conn_id": of.conn_id})
        except IntegrityError:  # the other thread was first, and the next beat corrects it
            mine.update(**fields)

    def _insert(self, fields: dict[str, object]) -> None:
        worker = self._worker
        Worker.objects.using(self._using).create(
            id=worker.pk,
            host=worker.host,
            pid=worker.pid,
            queues=worker.queues,
            threads=worker.threads,
            **fields,
        )


def _take_session(using: str) -> OwnSession:
    connection, sessions = connections[using], session_of(using).server.sessions
    if sessions is None:
        return OwnSession(os.getpid())
    connection.ensure_connection()
    [(conn_id, here)] = session_of(using).fetch(sessions.me())
    lock, doubt = None, ""
    if conf.get("SESSION_LOCKS"):
        lock, doubt = _take_lock(using, sessions)
    told = told_by_driver(connection)
    if told is None and lock is None:
        doubt = "it holds no named lock, and its driver doesn't report which session it was given"
    elif told is not None and told != int(conn_id) % 2**32:
        doubt = (
            f"the connection was opened as session {told} but works as session {conn_id}, so there is a connection "
            "pooler between this worker and the database"
        )
    elif session_of(using).fetch(sessions.me()) != [(conn_id, here)]:
        doubt = "its session changes from statement to statement, so there is a connection pooler in between"
    return OwnSession(int(conn_id), str(here), lock, doubt)


def _take_lock(using: str, sessions: SessionsSQL) -> tuple[int | None, str]:
    """Take a lock with a new number; some servers (Galera in a strict mode) have none: then the session list counts."""
    number = secrets.randbits(63)
    try:
        [(taken,)] = session_of(using).fetch(sessions.take_lock(number))
    except Error:
        if not connections[using].is_usable():
            raise
        return None, ""
    return (number, "") if taken else (None, f"the named lock {number} is already taken")


def told_by_driver(connection: BaseDatabaseWrapper) -> int | None:
    """Return the session's id from the server's greeting (32 bits), if the driver keeps it; a pooler sends its own."""
    return terms_of(connection.vendor).driver.greeted(connection.connection)


def _doubt(using: str, sessions: SessionsSQL, session: OwnSession, *, seen_before: bool) -> str:
    """Say why the session is not what it believes to be, as seen from the heartbeat's; '' if it is."""
    if session.lock is None:
        return _doubt_of_listed(using, sessions, session)
    if seen_before:
        [(held,)] = session_of(using).fetch(sessions.is_held(session.lock, session.conn_id))
        return "" if held else "its lock is free"
    [(here, holder, *_)] = session_of(using).fetch(sessions.lock_holder(session.lock))
    if here != session.server:
        return f"its connections lead to two servers ({session.server}; {here})"
    if holder is None:
        return f"the named lock that its session {session.conn_id} took is free"
    if int(holder) != session.conn_id:
        return (
            f"the named lock of its session {session.conn_id} is held by session {holder}, so a connection "
            "pooler mixes its sessions"
        )
    return ""


def _doubt_of_listed(using: str, sessions: SessionsSQL, session: OwnSession) -> str:
    """Do as ``_doubt`` where there is no lock. An account always sees its own sessions in the list."""
    [(_, here)] = session_of(using).fetch(sessions.me())
    return "" if here == session.server else f"its connections lead to two servers ({session.server}; {here})"
