"""The signs that a child lives: the row that it beats, and the named lock that its session holds.

The main thread's session, which claims and settles, takes a lock whose number it draws at each connect: the previous
session may linger at the server, and must not vouch for it. The heartbeat, from its own session, checks that the lock
is held by the session that the main thread believes it has. Only then does the row name the session, and others may
judge by it (``liveness.dead_workers``). A pooler in between fails that proof; then only the lease counts.
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from django.db import Error, IntegrityError, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import QuerySet

from django_dbqueue import conf
from django_dbqueue.databases import terms_of
from django_dbqueue.databases.sessions_sql import SessionsSQL
from django_dbqueue.liveness.late_workers import BEAT_HOLDING, BEAT_RESTING, delete_ended
from django_dbqueue.models import Worker
from django_dbqueue.models.fields import DbNow
from django_dbqueue.sessions.django_session import DjangoSession

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

    def __init__(self, session: DjangoSession, worker_id: int, queues: Sequence[str], threads: int) -> None:
        self._session = session
        self._row: dict[str, Any] = {
            "id": worker_id,
            "host": socket.gethostname()[:255],
            "pid": os.getpid(),
            "queues": ",".join(queues),
            "threads": threads,
        }
        self._own: OwnSession | None = None
        self._proven: OwnSession | None = None
        self._failures = 0
        self._warned = False
        self.promised = 0
        """Seconds from the last write within which the row promises a beat; 0 before the first."""
        self.judged = threading.Event()
        """Set when the heartbeat has proven the session, or has found that it can't."""
        self.is_called = False
        """Whether a beat has found, since the last check, that something which this child runs may be cancelled."""

    @property
    def beats_too_slowly(self) -> bool:
        """Whether the row promises the beats of an idle worker."""
        return self.promised != BEAT_HOLDING

    # -- the main thread ----------------------------------------------------------------------------------

    def connect(self, *, held: int) -> None:
        """Take the session that the main thread's connection has now, and put it in the row, unproven as yet."""
        self._session.allow_updates()
        own = _take_session(self._session)
        self._write(held=held, every=BEAT_HOLDING, conn_id=own.conn_id, server="", session_lock=None)
        self._own = own

    def begin_holding(self, held: int) -> None:
        """Promise quick beats before the first of these messages starts."""
        if self.beats_too_slowly and self._session.server.sessions:
            self._write(held=held, every=BEAT_HOLDING)

    def end(self) -> None:
        """Remove the row: the child has ended, and holds nothing."""
        delete_ended(self._session, self._row["id"])

    # -- the heartbeat ------------------------------------------------------------------------------------

    def beat(self, *, held: int, every: int) -> None:
        """Write that the worker lives, and through which session, if that can be proven."""
        own = self._own
        if own is None:
            return
        proven = self._prove(own)
        self._write(
            of=own,
            held=held,
            every=every,
            server=own.server if proven else "",
            session_lock=own.lock if proven else None,
        )
        if own is self._own:
            self.judged.set()

    def _prove(self, own: OwnSession) -> bool:
        """Check from here that the main thread's session is what it believes; warn once if it never was."""
        sessions = self._session.server.sessions
        if sessions is None:
            return False
        was_proven = own is self._proven
        doubt = own.doubt or _doubt(self._session, sessions, own, seen_before=was_proven)
        self._proven = None if doubt else own
        self._failures = 0 if not doubt or was_proven else self._failures + 1
        if (own.doubt or self._failures > 1) and not self._warned and own is self._own:
            self._warned = True
            logger.warning(
                "nothing outside can see whether this worker is alive: %s; if all of it dies, its messages wait "
                "until their leases expire",
                doubt,
            )
        return not doubt

    def beat_for(self, ids: Sequence[int], *, every: int) -> bool:
        """Write that these workers, which rest, live; return whether all of their rows promised no more than that.

        A row that promises quicker beats is left alone: its worker has begun to hold messages.
        """
        rows = Worker.objects.using(self._session.using).filter(pk__in=ids, beat_every__gte=BEAT_RESTING)
        late_at = DbNow() + timedelta(seconds=every + SLACK)
        return rows.update(beat_at=DbNow(), beat_every=every, late_at=late_at) == len(ids)

    # -- the row ------------------------------------------------------------------------------------------

    def _write(self, *, every: int, of: OwnSession | None = None, **fields: object) -> None:
        """Update the row (only for this session, from the heartbeat), or write it again if somebody removed it.

        Who cancels what this child runs sets a mark, which the heartbeat's update misses: so it costs no statement to
        learn that nobody did. The mark is noted here before the row loses it: the reply to that may be lost.
        """
        fields |= {"beat_at": DbNow(), "beat_every": every, "late_at": DbNow() + timedelta(seconds=every + SLACK)}
        rows = self._rows()
        mine = rows if of is None else rows.filter(conn_id=of.conn_id)
        self.promised = every
        if of is not None:
            if mine.filter(is_called=False).update(**fields):
                return
            self.is_called, fields["is_called"] = True, False
        if mine.update(**fields) or (of is not None and of is not self._own):
            return
        try:
            with transaction.atomic(using=self._session.using):
                rows.create(**self._row, **fields, **({} if of is None else {"conn_id": of.conn_id}))
        except IntegrityError:  # the other thread was first, and the next beat corrects it
            mine.update(**fields)

    def _rows(self) -> QuerySet[Worker]:
        return Worker.objects.using(self._session.using).filter(pk=self._row["id"])


def _take_session(session: DjangoSession) -> OwnSession:
    connection, sessions = session.connection, session.server.sessions
    if sessions is None:
        return OwnSession(os.getpid())
    connection.ensure_connection()
    [(conn_id, here)] = session.fetch(sessions.me())
    lock, doubt = None, ""
    if conf.get("SESSION_LOCKS"):
        lock, doubt = _take_lock(session, sessions)
    greeted = driver_session_id(connection)
    if greeted is None and lock is None:
        doubt = "it holds no named lock, and its driver doesn't report which session it was given"
    elif greeted is not None and greeted != int(conn_id) % 2**32:
        doubt = (
            f"the connection was opened as session {greeted} but works as session {conn_id}, so there is a connection "
            "pooler between this worker and the database"
        )
    elif session.fetch(sessions.me()) != [(conn_id, here)]:
        doubt = "its session changes from statement to statement, so there is a connection pooler in between"
    return OwnSession(int(conn_id), str(here), lock, doubt)


def _take_lock(session: DjangoSession, sessions: SessionsSQL) -> tuple[int | None, str]:
    """Take a lock with a new number; some servers (Galera in a strict mode) have none: then the session list counts."""
    number = secrets.randbits(63)
    try:
        [(was_free,)] = session.fetch(sessions.take_lock(number))
    except Error:
        if not session.connection.is_usable():
            raise
        return None, ""
    return (number, "") if was_free else (None, f"the named lock {number} is already taken")


def driver_session_id(connection: BaseDatabaseWrapper) -> int | None:
    """Return the session's id from the server's greeting (32 bits), if the driver keeps it; a pooler sends its own."""
    return terms_of(connection.vendor).driver.greeted(connection.connection)


def _doubt(session: DjangoSession, sessions: SessionsSQL, own: OwnSession, *, seen_before: bool) -> str:
    """Say why the session is not what it believes to be, as seen from the heartbeat's; '' if it is."""
    if own.lock is None:
        return _doubt_of_listed(session, sessions, own)
    if seen_before:
        [(held,)] = session.fetch(sessions.is_held(own.lock, own.conn_id))
        return "" if held else "its lock is free"
    [(here, holder, *_)] = session.fetch(sessions.lock_holder(own.lock))
    if here != own.server:
        return f"its connections lead to two servers ({own.server}; {here})"
    if holder is None:
        return f"the named lock that its session {own.conn_id} took is free"
    if int(holder) != own.conn_id:
        return (
            f"the named lock of its session {own.conn_id} is held by session {holder}, so a connection "
            "pooler mixes its sessions"
        )
    return ""


def _doubt_of_listed(session: DjangoSession, sessions: SessionsSQL, own: OwnSession) -> str:
    """Do as ``_doubt`` where there is no lock. An account always sees its own sessions in the list."""
    [(_, here)] = session.fetch(sessions.me())
    return "" if here == own.server else f"its connections lead to two servers ({own.server}; {here})"
