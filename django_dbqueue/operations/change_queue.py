"""Moving messages to another queue: each with its key, its group and its due time, in a transaction of its own.

The row stays, and so do its id, its life and its age. It leaves the line, or the ticket, that it has in its group, and
stands in the line of the same group there, behind what was sent before it.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from django.db import DatabaseError

from django_dbqueue import conf
from django_dbqueue.databases.statement import LanePlace, Statement
from django_dbqueue.envelope import WHOLE_QUEUE, check_queue, lane_of
from django_dbqueue.exceptions import DBQueueError, InvalidMessage
from django_dbqueue.keys import key_hash
from django_dbqueue.lanes import groups_sql, lane_moves
from django_dbqueue.lifecycle.enqueue import notify
from django_dbqueue.lifecycle.held_message import HeldMessage
from django_dbqueue.lifecycle.moves import move
from django_dbqueue.operations.conflicts import conflict_of
from django_dbqueue.operations.operator_moves import Changed
from django_dbqueue.operations.verbs import VERBS
from django_dbqueue.sessions.django_session import DjangoSession
from django_dbqueue.statements import changes_sql, fences_sql


def change_queue(
    session: DjangoSession, messages: Iterable[HeldMessage], queue: str, *, actor: str | None = None
) -> Changed:
    """Move those that nobody has taken and that are not done; a dead one becomes as if new.

    One that stands in that queue already, or has moved since the caller saw it, is skipped. ``conflicts`` has a
    DuplicateKey where a live message there has the key, and an InvalidMessage for what can't be in that queue.
    """
    check_target(queue)
    count = 0
    conflicts: list[DBQueueError] = []
    for message in messages:
        try:
            count += session.outermost(partial(_change_one, session, message, queue, actor))
        except DatabaseError as error:
            conflicts.append(conflict_of(error, message, queue))
        except InvalidMessage as error:
            conflicts.append(error)
    return Changed(count, conflicts)


def check_target(queue: str) -> str:
    """Return the name of a queue into which messages may be moved, or raise InvalidMessage."""
    if check_queue(queue) == conf.get("OPERATIONS_QUEUE"):
        raise InvalidMessage(f"The queue {queue!r} is for the steps of bulk operations: move messages elsewhere.")
    return queue


def _change_one(session: DjangoSession, message: HeldMessage, queue: str, actor: str | None) -> int:
    server, old = session.server, message.queue
    if old == queue:
        return 0
    if old == conf.get("OPERATIONS_QUEUE"):
        raise InvalidMessage(f"Message {message.pk} is a step of a bulk operation, which no other queue can take.")
    seen = fences_sql.unmoved(message.claim, VERBS["move"].fence(server))
    where = Statement(f"{seen.sql} AND queue = %s", (*seen.params, old))
    with session.transaction():
        rows = session.fetch(changes_sql.lock_place(server, where))
        if not rows:
            return 0
        key, lane, group, is_dead, is_parked = rows[0]
        if is_parked and not _is_in_line(session, lane, message.pk):
            raise InvalidMessage(
                f"Message {message.pk} waits for an event, or for others of its flow: move it when it is ready."
            )
        group = _group_in(queue, group, message.pk)
        new = None if group is None else lane_of(queue, group)
        if new is not None:
            lane_moves.refuse_without_commit(session)
        hashed = None if key is None else key_hash(queue, key)
        move(
            session,
            changes_sql.into(server, queue, hashed, new, group, is_dead=bool(is_dead), actor=actor),
            where,
        )
        lane_moves.change(session, message.pk, old=_place(lane, message.pk, old), new=_place(new, message.pk, queue))
        if new is None:
            notify(session, queue, 1)
    return 1


def _is_in_line(session: DjangoSession, lane: int | None, message_id: int) -> bool:
    return lane is not None and bool(session.fetch(groups_sql.in_line(session.server, [(lane, message_id)])))


def _group_in(queue: str, group: str | None, message_id: int) -> str | None:
    """Return the group that a message of this group has in another queue."""
    named = None if group == WHOLE_QUEUE else group
    if not conf.for_senders(queue).is_whole_queue:
        return named
    if named is not None:
        raise InvalidMessage(
            f"Message {message_id} is of the group {named!r}, but all messages of queue {queue!r} are one group: move "
            "it to another queue."
        )
    return WHOLE_QUEUE


def _place(lane: int | None, message_id: int, queue: str) -> LanePlace | None:
    return None if lane is None else LanePlace(lane, message_id, queue)
