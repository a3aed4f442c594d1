"""What an operator does to messages from a terminal: in steps, each a short transaction that holds nobody up.

A step locks its rows, skips those that others have locked, checks again that each is still in the state the operator
named, and moves it. So stopping between two steps leaves every message either moved or as it was. Messages of a queue
are found and moved by the same code as bulk operations.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Literal

from django.utils.translation import gettext as _

from django_dbqueue.databases import Statement
from django_dbqueue.databases.statement import MAX_IDS, chunks
from django_dbqueue.exceptions import DBQueueError, DuplicateKey
from django_dbqueue.lifecycle.held_message import HeldMessage
from django_dbqueue.operations import bulk, bulk_sql, operator_moves
from django_dbqueue.operations.change_queue import change_queue
from django_dbqueue.operations.verbs import VERBS
from django_dbqueue.sessions.django_session import DjangoSession, MessageType
from django_dbqueue.statuses import DONE, NEW

NAMED_STEP: Final = 50
"""Named messages per transaction: each is moved, or refused, by a statement of its own."""


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be done to messages, by whom and why."""

    verb: Literal["requeue", "due-now", "move", "drop"]
    by: str
    reason: str = ""
    queue: str = ""
    """Where they are to go, if the verb asks for it."""

    def do(self, session: DjangoSession, message: HeldMessage) -> operator_moves.Changed:
        """Do it to one message, in the caller's transaction."""
        verb = VERBS[self.verb]
        if verb.asks_queue:
            return change_queue(session, [message], self.queue, actor=self.by)
        return operator_moves.apply(session, verb, [message], reason=verb.said_by(self.by, self.reason), actor=self.by)


@dataclass(slots=True)
class SweepStep:
    """What became of the messages of one step."""

    moved: dict[str, int] = field(default_factory=dict)
    """How many, by queue."""
    refused: dict[int, str] = field(default_factory=dict)
    """Named messages that were left alone: by id, why."""
    left_alone: int = 0
    """Other messages left alone: in another state by now, locked elsewhere, or a live message has their key."""


def by_ids(model: MessageType, session: DjangoSession, order: Order, ids: Iterable[int]) -> Iterator[SweepStep]:
    """Do it to these messages, in whatever state they are."""
    for chunk in chunks(sorted(set(ids)), NAMED_STEP):
        yield session.outermost(partial(_step_by_ids, model, session, order, chunk))


def by_state(
    model: MessageType, session: DjangoSession, order: Order, queue: str, state: str, *, limit: int | None = None
) -> Iterator[SweepStep]:
    """Do it to the messages of a queue that are in this state now; ``limit`` is how many are tried."""
    selection = bulk.Selection.now(session, state=state, queue=queue)
    cursor: str | None = ""
    tried = 0
    while cursor is not None and tried != limit:
        size = bulk.STEP if limit is None else min(bulk.STEP, limit - tried)
        done = session.outermost(partial(_step_by_state, model, session, order, selection, cursor, size))
        tried += done.moved + done.left_alone
        cursor = done.cursor
        yield SweepStep({queue: done.moved} if done.moved else {}, left_alone=done.left_alone)


def count_in_state(session: DjangoSession, queue: str, state: str) -> Iterator[int]:
    """Count, page by page, the messages of a queue that ``by_state`` would try."""
    selection = bulk.Selection.now(session, state=state, queue=queue)
    cursor: str | None = ""
    while cursor is not None:
        found = bulk.find(session, selection, cursor)
        yield len(found.ids)
        cursor = found.cursor


def count_movable(session: DjangoSession, verb: str, ids: Iterable[int]) -> int:
    """Return to how many of these messages the verb could be applied now."""
    server, count = session.server, 0
    for chunk in chunks(sorted(set(ids)), MAX_IDS):
        named = server.id_in(chunk)
        [(some,)] = session.fetch(
            bulk_sql.count_these(server, Statement(f"{named.sql} AND {VERBS[verb].fence(server)}", named.params))
        )
        count += int(some)
    return count


def _step_by_ids(model: Any, session: DjangoSession, order: Order, ids: Sequence[int]) -> SweepStep:
    step = SweepStep()
    rows = model.objects.using(session.using).filter(pk__in=ids)
    few = rows.only("id", "queue", "key", "status", "claim_token", "available_at")
    with session.transaction():
        locked = list(few.select_for_update(skip_locked=True).order_by("pk"))
        for message in locked:
            if why := _refusal(order, order.do(session, message), message):
                step.refused[message.pk] = why
            else:
                step.moved[message.queue] = step.moved.get(message.queue, 0) + 1
    missing = set(ids) - {message.pk for message in locked}
    there = set(rows.filter(pk__in=missing).values_list("pk", flat=True)) if missing else set()
    for message_id in sorted(missing):
        busy = message_id in there
        step.refused[message_id] = _("is locked by another transaction, try again") if busy else _("is not there")
    return step


def _refusal(order: Order, changed: operator_moves.Changed, message: HeldMessage) -> str:
    """Say why a message was not moved; '' if it was."""
    if changed:
        return ""
    if changed.conflicts:
        return _told(changed.conflicts[0])
    if message.status == DONE:
        return _("is done already")
    if order.verb == "requeue":
        return _("is neither taken nor dead")
    if order.verb == "move":
        return _("is in that queue already") if message.queue == order.queue else _("is taken")
    return _("is due already") if message.status == NEW and message.available_at is not None else _("is not delayed")


def _told(error: DBQueueError) -> str:
    if isinstance(error, DuplicateKey):
        return _("a newer live message has its key %(key)r") % {"key": error.key}
    return str(error)


def _step_by_state(
    model: MessageType, session: DjangoSession, order: Order, selection: bulk.Selection, cursor: str, size: int
) -> bulk.Step:
    with session.transaction():
        return bulk.step(
            model,
            session,
            order.verb,
            selection,
            cursor,
            reason=order.reason,
            actor=order.by,
            queue=order.queue,
            size=size,
        )
