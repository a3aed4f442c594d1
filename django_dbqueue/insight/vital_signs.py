"""Whether a session exists, as far as this server and this account can see. This is reported, not acted on."""

from __future__ import annotations

from enum import Enum

from django.db import DatabaseError

from django_dbqueue.databases import means
from django_dbqueue.sessions.django_session import DjangoSession


class Sign(Enum):
    """What is known about a session."""

    THERE = "there"
    GONE = "gone"
    UNKNOWN = "unknown"


def sign_of_worker(session: DjangoSession, *, here: str, conn_id: int | None, session_lock: int | None) -> Sign:
    """Judge a worker's session by the named lock that it was proven to hold, or else by the server's list."""
    sessions = session.server.sessions
    if sessions is None or not here:
        return Sign.UNKNOWN
    if session_lock is None:
        return sign_of_session(session, conn_id, here=here)
    [(server, holder, *_)] = session.fetch(sessions.lock_holder(session_lock))
    if str(server) != here:
        return Sign.UNKNOWN
    return Sign.GONE if holder is None else Sign.THERE


def sign_of_session(session: DjangoSession, conn_id: int | None, *, here: str = "") -> Sign:
    """Judge a session by the server's list; ``server`` is where it was proven to be, if it was."""
    sessions = session.server.sessions
    if sessions is None or conn_id is None:
        return Sign.UNKNOWN
    try:
        rows = session.fetch(sessions.existing([conn_id]))
    except DatabaseError as error:
        if not means(error, "hidden"):
            raise
        return Sign.UNKNOWN
    if here and here not in {str(server) for server, _ in rows}:
        return Sign.UNKNOWN
    return Sign.THERE if conn_id in {int(number) for _, number in rows} else Sign.GONE
