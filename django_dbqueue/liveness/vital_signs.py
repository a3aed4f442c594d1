"""Whether a session exists, as far as this server and this account can see. This is reported, not acted on."""

from __future__ import annotations

from enum import Enum

from django.db import DatabaseError

from django_dbqueue.databases import ServerDialect
from django_dbqueue.sessions.django_session import DjangoSession


class Sign(Enum):
    """What is known about a session."""

    THERE = "there"
    GONE = "gone"
    UNKNOWN = "unknown"


def is_blind(dialect: ServerDialect, error: DatabaseError) -> bool:
    """Return whether the server refused because this account may not see other accounts' sessions."""
    refusal, cause = dialect.sessions.blind_error, error.__cause__
    return refusal is not None and cause is not None and cause.args[:1] == (refusal,)


def sign_of_worker(session: DjangoSession, *, server: str, conn_id: int | None, session_lock: int | None) -> Sign:
    """Judge a worker's session by the named lock that it was proven to hold, or else by the server's list."""
    dialect = session.dialect
    if not isinstance(dialect, ServerDialect) or not server:
        return Sign.UNKNOWN
    if session_lock is None:
        return sign_of_session(session, conn_id, server=server)
    [(asked, holder)] = session.fetch(dialect.sessions.lock_holder(session_lock))
    if str(asked) != server:
        return Sign.UNKNOWN
    return Sign.GONE if holder is None else Sign.THERE


def sign_of_session(session: DjangoSession, conn_id: int | None, *, server: str = "") -> Sign:
    """Judge a session by the server's list; ``server`` is where it was proven to be, if it was."""
    dialect = session.dialect
    if not isinstance(dialect, ServerDialect) or conn_id is None:
        return Sign.UNKNOWN
    try:
        rows = session.fetch(dialect.sessions.existing([conn_id]))
    except DatabaseError as error:
        if not is_blind(dialect, error):
            raise
        return Sign.UNKNOWN
    if server and server not in {str(asked) for asked, _ in rows}:
        return Sign.UNKNOWN
    return Sign.THERE if conn_id in {int(number) for _, number in rows} else Sign.GONE
