"""How a verb moves locked messages: together, by a change of their rows; or one by one, into a queue or sent again.

A message that goes to another queue stays the same row, and so do its id, its life and its age. It leaves the line, or
the ticket, that it has in its group, and stands in the line of the same group there, behind what was sent before it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Final

from django.db import DatabaseError

from django_dbqueue import conf
from django_dbqueue.codecs import Json, decode_headers
from django_dbqueue.databases.statement import LanePlace, Statement
from django_dbqueue.envelope import WHOLE_QUEUE
from django_dbqueue.exceptions import DuplicateKey, InvalidMessage, UndecodableMessage
from django_dbqueue.keys import key_hash, lane_of
from django_dbqueue.lanes import groups_sql, lane_moves
from django_dbqueue.lifecycle import moves
from django_dbqueue.lifecycle.enqueue import notify
from django_dbqueue.operations.outcome import MoveOutcome, conflict_of
from django_dbqueue.operations.verbs import Order
from django_dbqueue.sessions.apart import apart
from django_dbqueue.sessions.django_session import DjangoSession
from django_dbqueue.statements import moves_sql
from django_dbqueue.states.table import is_parked
from django_dbqueue.value_types import TYPES

SENT_AGAIN_FROM: Final = "dbqueue.sent_again_from"
"""Header of a message that was sent again: the id of the one it repeats."""


def apply(model: Any, session: DjangoSession, order: Order, messages: Sequence[Any], outcome: MoveOutcome) -> None:
    """Do to messages what was ordered, in the transaction that has locked them; note what becomes of each."""
    if order.verb.asks_queue:
        _one_by_one(session, order, messages, outcome, partial(_into_queue, session, order))
    elif order.verb.move is None:
        whole = model.objects.using(session.using).filter(pk__in=[message.pk for message in messages]).order_by("pk")
        _one_by_one(session, order, whole, outcome, partial(_send_again, model, session, order))
    else:
        _together(session, order, messages, outcome)


def _together(session: DjangoSession, order: Order, messages: Sequence[Any], outcome: MoveOutcome) -> None:
    """Move all if nothing is in the way, otherwise in halves."""
    server = session.server
    change = order.verb.change(server, order.error, order.by)

    def move_them(some: list[Any]) -> None:
        with session.transaction():
            moves.move(session, change, _locked([message.pk for message in some], session, order))
        outcome.moved |= {message.pk: message.queue for message in some}

    def leave(message: Any, error: DatabaseError) -> None:
        outcome.left[message.pk] = conflict_of(error, message, message.queue)

    apart(messages, move_them, leave)


def _locked(ids: Sequence[int], session: DjangoSession, order: Order) -> Statement:
    named = session.server.id_in(ids)
    return Statement(f"{named.sql} AND {order.verb.stage_fence}", named.params)


def _one_by_one(
    session: DjangoSession,
    order: Order,
    messages: Sequence[Any],
    outcome: MoveOutcome,
    work: Callable[[Any], object],
) -> None:
    for message in messages:
        try:
            with session.transaction():
                work(message)
        except DatabaseError as error:
            outcome.left[message.pk] = conflict_of(error, message, order.queue or message.queue)
        except (DuplicateKey, InvalidMessage, UndecodableMessage) as error:
            outcome.left[message.pk] = error
        else:
            outcome.moved[message.pk] = message.queue


def _send_again(model: Any, session: DjangoSession, order: Order, message: Any) -> None:
    try:
        send_copy(model.objects, session, message, message.payload, by=order.by)
    except DuplicateKey as error:
        raise DuplicateKey(message.queue, message.key, message_id=message.pk) from error
    except (UndecodableMessage, InvalidMessage) as error:
        raise UndecodableMessage(f"message {message.pk} can't be sent again: {error}") from error


def send_copy(
    messages: Any, session: DjangoSession, message: Any, payload: Json, *, by: str | None, at: datetime | None = None
) -> Any:
    """Send, in the caller's transaction, a message like this one with this payload, and record that it was."""
    headers = {**decode_headers(message.headers_text), SENT_AGAIN_FROM: message.pk}
    headers.pop(TYPES, None)  # they are those of the payload before
    new = messages.enqueue(
        payload,
        queue=message.queue,
        key=message.key,
        at=at,
        priority=message.priority,
        max_reads=message.max_reads,
        lease=message.lease_seconds or None,
        headers=headers,
        group=_group_of(message),
        on_conflict="error",
        using=session.using,
    )
    moves.resent(session, message, new.pk, actor=by)
    return new


def _group_of(message: Any) -> str | None:
    """Return the group that its sender named."""
    return None if message.group_name == WHOLE_QUEUE else message.group_name


def _into_queue(session: DjangoSession, order: Order, message: Any) -> None:
    """Move it; a dead one becomes as if new. InvalidMessage if it can't be in that queue."""
    server, queue, lane = session.server, order.queue, message.lane
    if message.queue == conf.get("OPERATIONS_QUEUE"):
        raise InvalidMessage(f"Message {message.pk} is a step of a bulk operation, which no other queue can take.")
    if _waits_elsewhere(session, message):
        raise InvalidMessage(
            f"Message {message.pk} waits for an event, or for others of its flow: move it when it is ready."
        )
    group = _group_in(queue, message)
    new = None if group is None else lane_of(queue, group)
    if new is not None:
        lane_moves.refuse_without_commit(session)
    hashed = None if message.key is None else key_hash(queue, message.key)
    change = moves_sql.into(server, queue, hashed, new, group, is_dead=message.is_dead, actor=order.by)
    moves.move(session, change, _locked([message.pk], session, order))
    lane_moves.change(
        session, message.pk, old=_place(lane, message.pk, message.queue), new=_place(new, message.pk, queue)
    )
    if new is None:
        notify(session, queue, 1)


def _waits_elsewhere(session: DjangoSession, message: Any) -> bool:
    """Return whether it waits for something other than its turn."""
    if not is_parked(message):
        return False
    if message.lane is not None and session.fetch(groups_sql.in_line(session.server, [(message.lane, message.pk)])):
        return False
    message.refresh_from_db(fields=["available_at"])  # one before it, which has just gone, gave it the turn
    return is_parked(message)


def _group_in(queue: str, message: Any) -> str | None:
    """Return the group that a message has in another queue."""
    named = _group_of(message)
    if not conf.for_senders(queue).is_whole_queue:
        return named
    if named is not None:
        raise InvalidMessage(
            f"Message {message.pk} is of the group {named!r}, but all messages of queue {queue!r} are one group: move "
            "it to another queue."
        )
    return WHOLE_QUEUE


def _place(lane: int | None, message_id: int, queue: str) -> LanePlace | None:
    return None if lane is None else LanePlace(lane, message_id, queue)
