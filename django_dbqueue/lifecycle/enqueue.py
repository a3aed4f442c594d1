"""Enqueue: a plain INSERT on the caller's connection, so that the message exists iff the caller commits (P1, P2).

A key names at most one live message of its queue (P11): unique (key_hash, live). Where the server supports "on conflict
do nothing", the INSERT uses it; MySQL and MariaDB raise 1062 and undo the statement. Either way the live row is then
read under a lock, which shows the newest committed one at any isolation level, and ``on_conflict`` decides what becomes
of it. If it has gone meanwhile, the INSERT is retried.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, Final, Literal

from django.conf import settings
from django.db import IntegrityError

from django_dbqueue import codecs, conf, hooks
from django_dbqueue.databases.moments import to_column
from django_dbqueue.databases.statement import LanePlace
from django_dbqueue.envelope import Envelope, Sealed, check_headers, seal
from django_dbqueue.exceptions import DBQueueError, DuplicateKey, InvalidMessage, UndecodableMessage
from django_dbqueue.hooks import PROPAGATED
from django_dbqueue.keys import OnceToken
from django_dbqueue.lanes import lane_moves
from django_dbqueue.lifecycle import flows_sql, once_tokens
from django_dbqueue.lifecycle.held_message import HeldMessage
from django_dbqueue.lifecycle.hydration import filler, hydrate
from django_dbqueue.sessions.django_session import DjangoSession, MessageType
from django_dbqueue.sessions.retry import is_duplicate
from django_dbqueue.statements import enqueue_sql
from django_dbqueue.statements.message_columns import SENT_COLUMNS
from django_dbqueue.statements.steps_sql import forget_steps
from django_dbqueue.states.table import is_parked
from django_dbqueue.statuses import NEW

OnConflict = Literal["ignore", "update", "error"]
ON_CONFLICT = ("ignore", "update", "error")
SENT_ATTRIBUTES: Final = tuple("headers_text" if name == "headers" else name for name in SENT_COLUMNS)
"""The attributes of a message that have what its sender set."""
_NEW_ROW: Final[dict[str, object]] = {
    **dict.fromkeys(("conn_id", "worker_id", "claim_token", "flow", "claimed_at", "finished_at", "error")),
    "status": NEW,
    "read_count": 0,
    "crashes": 0,
    "outcome": "created",
}
"""What is known of each new message, besides what its sender set; its times are known to the database alone."""
TRIES = 20
"""How often a live row with our key may vanish between our INSERT and our read before we give up."""


def enqueue_one(
    model: MessageType, session: DjangoSession, envelope: Envelope, *, queue: str, on_conflict: OnConflict
) -> Any:
    """Store one message and return it, with its ``outcome``."""
    check_on_conflict(on_conflict)
    store = partial(_seal_and_enqueue, model, session, queue, on_conflict)
    return store(envelope) if hooks.active is None else hooks.active.send(envelope, queue, session.using, store)


def _seal_and_enqueue(
    model: MessageType, session: DjangoSession, queue: str, on_conflict: OnConflict, envelope: Envelope
) -> Any:
    sealed = seal_for(envelope, queue)
    if sealed.once is not None:
        return session.outermost(partial(_enqueue_once, model, session, sealed, sealed.once, on_conflict))
    return session.outermost(partial(_enqueue_one, model, session, sealed, on_conflict))


def check_on_conflict(on_conflict: str) -> None:
    """Raise InvalidMessage unless this is a valid ``on_conflict``."""
    if on_conflict not in ON_CONFLICT:
        raise InvalidMessage(f"on_conflict must be one of {', '.join(ON_CONFLICT)}, not {on_conflict!r}.")


def seal_for(envelope: Envelope, queue: str) -> Sealed:
    """Check an envelope under the settings of its queue."""
    defaults = conf.for_senders(queue if isinstance(queue, str) else "")  # seal() refuses other types
    if envelope.at is not None:
        envelope = with_aware_moment(envelope)
    return seal(envelope, queue=queue, **defaults._asdict())


def with_aware_moment(envelope: Envelope) -> Envelope:
    """Return the envelope; a naive moment in it is what Django means by it."""
    return envelope if envelope.at is None or settings.USE_TZ else replace(envelope, at=conf.aware(envelope.at))


def _enqueue_once(
    model: MessageType, session: DjangoSession, item: Sealed, once: OnceToken, on_conflict: OnConflict
) -> Any:
    if item.lane is not None:
        lane_moves.refuse_without_commit(session)
    with session.transaction():
        if first := once_tokens.take(session, [once]):
            return once_tokens.first_message(model, session, first[once.hash], item.queue)
        message = _enqueue_one(model, session, item, on_conflict)
        once_tokens.name(session, {once.hash: message.pk})
    return message


def _enqueue_one(model: MessageType, session: DjangoSession, item: Sealed, on_conflict: OnConflict) -> Any:
    for _ in range(TRIES):
        lane = item.lane
        message_id = _insert(session, item) if lane is None else _insert_into_lane(session, item, lane)
        if message_id is not None:
            written = {**_NEW_ROW, **dict(zip(SENT_ATTRIBUTES, item, strict=False)), "id": message_id}
            return filler(model)(model, session.using, written)
        message = _meet(model, session, item, on_conflict)
        if message is not None:
            return message
    raise DBQueueError(f"The key {item.key!r} of queue {item.queue!r} changed hands {TRIES} times: try again.")


def _insert(session: DjangoSession, item: Sealed) -> int | None:
    """Insert, wake workers, and return the id; None if a live message has the key."""
    server, row = session.server, dict(zip(SENT_COLUMNS, item, strict=False))
    at = None if item.at is None else due_moment(session, item)
    if server.returns_rows:
        notify = item.lane is None and server.notifies and notifies(session)
        returning = enqueue_sql.returning_id(notify=notify)
        rows = session.fetch(
            enqueue_sql.insert(server, row, item.delay, at, returning=returning, ignore=item.key is not None)
        )
        return int(rows[0][0]) if rows else None
    statement = enqueue_sql.insert(server, row, item.delay, at)
    try:
        return session.insert(statement)
    except IntegrityError as error:
        if not is_duplicate(error):
            raise
        return None


def _insert_into_lane(session: DjangoSession, item: Sealed, lane: int) -> int | None:
    """Insert, parked, and put it into its line; the group continues after the commit, which wakes workers."""
    lane_moves.refuse_without_commit(session)
    with session.transaction():
        message_id = _insert(session, item)
        if message_id is not None:
            lane_moves.enter(session, [LanePlace(lane, message_id, item.queue)])
    return message_id


def due_moment(session: DjangoSession, item: Sealed) -> datetime | str | None:
    """Return ``at`` as a parameter for the column, or None."""
    return None if item.at is None else to_column(item.at, session.connection.vendor)


def _meet(model: MessageType, session: DjangoSession, item: Sealed, on_conflict: OnConflict) -> Any:
    """Apply ``on_conflict`` to the live message of this key; return None if it is gone."""
    server = session.server
    with session.transaction():
        rows = session.fetch(enqueue_sql.live_by_hash(server, [item.key_hash or ""]))
        if not rows:
            return None
        live = hydrate(model, session.using, rows[0])
        live.outcome = "ignored"
        if on_conflict == "error":
            raise DuplicateKey(item.queue, item.key)
        if on_conflict == "update" and overwrite(session, live, item):
            if item.lane is None:
                notify(session, item.queue, 1)
            live = hydrate(model, session.using, session.fetch(enqueue_sql.by_id(server, live.pk))[0])
            live.outcome = "updated"
        return live


def overwrite(session: DjangoSession, live: HeldMessage, item: Sealed) -> bool:
    """Give a live message new content, unless it is the same already; its running claim ends.

    One that waits for others of its flow still does (P22), and keeps what it is after.
    """
    if live.flow is not None:
        item = _after_the_same(live, item)
    if _has_same_content(live, item) and not _changes_due_time(session, live, item):
        return False
    if item.lane is not None:
        lane_moves.refuse_without_commit(session)
    server, sees_the_past = session.server, lane_moves.sees_the_past(session)
    has_gate = flows_sql.has_gate(server, live.pk, lock=sees_the_past)
    is_gated = live.flow is not None and is_parked(live) and bool(session.fetch(has_gate))
    at = due_moment(session, item)
    if session.run(enqueue_sql.overwrite(server, live.pk, item, at, parked=is_gated)) != 1:
        return False
    if (live.lane, item.lane) != (None, None) and not is_gated:
        lane_moves.overwritten(session, live.pk, item.queue, old=live.lane, new=item.lane)
    if live.claim_token is not None:  # what a handler has done was for the content before
        forget_steps(session, [live.pk], may_skip=not sees_the_past)
    return True


def _after_the_same(live: HeldMessage, item: Sealed) -> Sealed:
    """Return the content with the header that says whose results a message of a flow gets."""
    try:
        after = codecs.decode_headers(live.headers_text).get(flows_sql.AFTER)
    except UndecodableMessage:
        return item
    if after is None:
        return item
    return item._replace(headers=check_headers({**codecs.decode_headers(item.headers), flows_sql.AFTER: after}))


def _has_same_content(live: HeldMessage, item: Sealed) -> bool:
    return (
        (live.body, live.content_type, live.priority, live.lane)
        == (item.body, item.content_type, item.priority, item.lane)
        and _have_the_same_headers(live.headers_text, item.headers)
        and item.max_reads in (None, live.max_reads)
        and item.lease_seconds in (None, live.lease_seconds)
    )


def _have_the_same_headers(stored: str | None, sent: str | None) -> bool:
    """Return whether the headers are the same, but for the trace in which each was sent."""
    if stored == sent:
        return True
    try:
        there, here = codecs.decode_headers(stored), codecs.decode_headers(sent)
    except UndecodableMessage:
        return False
    return {**there, **dict.fromkeys(PROPAGATED)} == {**here, **dict.fromkeys(PROPAGATED)}


def _changes_due_time(session: DjangoSession, live: Any, item: Sealed) -> bool:
    """Return whether the due time changes. A past moment means now, which changes nothing for a message already due."""
    if item.at is None:
        return item.delay > 0
    if item.at >= live.due_at:
        return bool(item.at > live.due_at)
    connection = session.connection
    [(now,)] = session.fetch(session.server.clock())
    return bool(live.due_at > live._meta.get_field("due_at").from_db_value(now, None, connection))


def notify(session: DjangoSession, queue: str, changed: int) -> None:
    """Wake listening workers, if the server can and the setting allows it."""
    if changed and notifies(session):
        session.fetch(enqueue_sql.notify(queue))


def notifies(session: DjangoSession) -> bool:
    """Return whether the server can wake listening workers and the setting allows it."""
    return session.server.notifies and bool(conf.get("NOTIFY"))
