"""Events: written in the emitter's transaction; after its commit, those who wait are woken.

An emitter that dies in between leaves an event with ``wake_from``: workers wake those who wait for it.
"""

from __future__ import annotations

import hashlib
from functools import partial
from typing import Final

from django.db import transaction

from django_dbqueue import codecs, conf
from django_dbqueue.codecs import Json
from django_dbqueue.databases.statements import Statement, new_token
from django_dbqueue.lanes import lane_moves
from django_dbqueue.lifecycle.enqueue import notifies, notify
from django_dbqueue.sessions.django_session import DjangoSession

BATCH: Final = 500


def hash_of_event(name: str) -> str:
    """Return the hex SHA-256 by which an event is found, byte by byte, whatever the server's collation does."""
    return hashlib.sha256(name.encode()).hexdigest()


def emit(session: DjangoSession, name: str, payload: Json, *, keep_seconds: float) -> bool:
    """Write an event in the caller's transaction; return whether it is the first of its name."""
    body, content_type = codecs.encode(payload, max_bytes=conf.get("MAX_PAYLOAD_BYTES"))
    values, name_hash, token = session.dialect.event_values, hash_of_event(name), new_token()
    written = values.emit(name_hash, name, body, content_type, token, keep_seconds)
    session.outermost(partial(session.run, written))
    rows = session.fetch(values.token_of(name_hash))
    transaction.on_commit(partial(wake, session, name_hash), using=session.using, robust=True)
    return bool(rows) and rows[0][0] == token


def wake(session: DjangoSession, name_hash: str) -> int:
    """Let all who wait for an event be due now; return how many. The event, and their waits, are committed."""
    values, after, woken = session.dialect.event_values, 0, 0
    while rows := session.fetch(values.waiting(name_hash, after, BATCH)):
        ids = [row[0] for row in rows]
        woken += wake_these(session, name_hash, ids)
        if len(ids) < BATCH:
            break
        after = ids[-1]
    session.outermost(partial(session.run, values.woken(name_hash)))
    return woken


def wake_these(session: DjangoSession, name_hash: str, ids: list[int]) -> int:
    """Let those of these messages be due now that still wait for the event; return how many."""
    values = session.dialect.event_values
    woken = session.outermost(partial(_wake, session, values.still_waiting(name_hash, ids)))
    if woken and notifies(session):
        for (queue,) in session.fetch(values.queues_of(ids)):
            notify(session, queue, woken)
    return woken


def _wake(session: DjangoSession, where: Statement) -> int:
    """Let the messages of a fence be due, those of groups at their turn."""
    with session.transaction():
        places = lane_moves.places_of(session, where)
        woken = session.run(session.dialect.event_values.wake(where))
        if places:
            lane_moves.back_in_lane(session, places)
    return woken


def wake_left_behind(session: DjangoSession, *, limit: int, sooner: float = 0.0) -> int:
    """Wake those who wait for events whose emitter died after its commit; return how many events there were.

    ``sooner``: don't wait until it is certain that the emitter is gone, but for this many seconds less.
    """
    hashes = [row[0] for row in session.fetch(session.dialect.event_values.left_behind(sooner, limit))]
    for name_hash in hashes:
        wake(session, name_hash)
    return len(hashes)


def forget_events_emitted(session: DjangoSession, *, limit: int) -> int:
    """Delete up to ``limit`` events that have been kept long enough; return how many."""
    values, forgotten = session.dialect.event_values, 0
    if not session.fetch(values.expired(1, lock=False)):
        return 0  # the usual case, and no transaction was opened
    while forgotten < limit:
        some = session.outermost(partial(_forget_some, session, min(BATCH, limit - forgotten)))
        forgotten += some
        if some < BATCH:
            break
    return forgotten


def _forget_some(session: DjangoSession, limit: int) -> int:
    values = session.dialect.event_values
    with session.transaction():
        hashes = [row[0] for row in session.fetch(values.expired(limit))]
        return session.run(values.delete(hashes)) if hashes else 0
