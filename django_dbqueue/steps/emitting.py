"""Events: written in the emitter's transaction; after its commit, those who wait are woken.

An emitter that dies in between leaves an event with ``wake_from``: workers wake those who wait for it.
"""

from __future__ import annotations

import hashlib
from functools import partial
from typing import Any, Final

from django.db import transaction

from django_dbqueue import codecs, conf
from django_dbqueue.codecs import Json
from django_dbqueue.databases.statement import Statement, new_token
from django_dbqueue.exceptions import TransactionNotAllowed
from django_dbqueue.lanes import lane_moves
from django_dbqueue.lifecycle.enqueue import notifies, notify
from django_dbqueue.lifecycle.expired_rows import forget_expired
from django_dbqueue.lifecycle.left_behind import LeftBehind
from django_dbqueue.sessions.django_session import DjangoSession
from django_dbqueue.steps import event_values_sql

BATCH: Final = 500


def hash_of_event(name: str) -> str:
    """Return the hex SHA-256 by which an event is found, byte by byte, whatever the server's collation does."""
    return hashlib.sha256(name.encode()).hexdigest()


def emit(session: DjangoSession, name: str, payload: Json, *, keep_seconds: float) -> bool:
    """Write an event in the caller's transaction; return whether it is the first of its name.

    TransactionNotAllowed with autocommit off.
    """
    connection: Any = session.connection
    if not connection.in_atomic_block and not connection.get_autocommit():
        raise TransactionNotAllowed(
            "emit() was called with autocommit off, where Django does not learn of your commit, after which those who "
            "wait for the event are to run: call set_autocommit(True) first, or use it inside atomic()."
        )
    body, content_type, types = codecs.encode(payload, max_bytes=conf.get("MAX_PAYLOAD_BYTES"))
    name_hash, token = hash_of_event(name), new_token()
    written = event_values_sql.emit(session.server, name_hash, name, (body, content_type, types), token, keep_seconds)
    session.outermost(partial(session.run, written))
    rows = session.fetch(event_values_sql.token_of(session.server, name_hash))
    transaction.on_commit(partial(wake, session, name_hash), using=session.using, robust=True)
    return bool(rows) and rows[0][0] == token


def wake(session: DjangoSession, name_hash: str) -> int:
    """Let all who wait for an event be due now; return how many. The event, and their waits, are committed."""
    after, woken = 0, 0
    while rows := session.fetch(event_values_sql.waiting(session.server, name_hash, after, BATCH)):
        ids = [row[0] for row in rows]
        woken += wake_these(session, name_hash, ids)
        if len(ids) < BATCH:
            break
        after = ids[-1]
    session.outermost(partial(session.run, event_values_sql.woken(session.server, name_hash)))
    return woken


def wake_these(session: DjangoSession, name_hash: str, ids: list[int]) -> int:
    """Let those of these messages be due now that still wait for the event; return how many."""
    woken = session.outermost(partial(_wake, session, event_values_sql.still_waiting(session.server, name_hash, ids)))
    if woken and notifies(session):
        for (queue,) in session.fetch(event_values_sql.queues_of(session.server, ids)):
            notify(session, queue, woken)
    return woken


def _wake(session: DjangoSession, where: Statement) -> int:
    """Let the messages of a fence be due, those of groups at their turn."""
    with session.transaction():
        places = lane_moves.places_of(session, where)
        woken = session.run(event_values_sql.wake(session.server, where))
        if places:
            lane_moves.back_in_lane(session, places)
    return woken


def wake_left_behind(session: DjangoSession, *, limit: int, sooner: float = 0.0) -> int:
    """Wake those who wait for events whose emitter died after its commit; return how many events there were.

    ``sooner``: don't wait until it is certain that the emitter is gone, but for this many seconds less.
    """
    hashes = [row[0] for row in session.fetch(event_values_sql.left_behind(session.server, sooner, limit))]
    for name_hash in hashes:
        wake(session, name_hash)
    return len(hashes)


def forget_events_emitted(session: DjangoSession, *, limit: int, left: LeftBehind) -> int:
    """Delete up to ``limit`` events that have been kept long enough; return how many."""
    return forget_expired(session, partial(event_values_sql.expired, session.server), _delete, limit, left)


def _delete(session: DjangoSession, hashes: list[str]) -> int:
    return session.run(event_values_sql.delete(session.server, hashes))
