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

from django.db import connections
from django.utils.translation import gettext as _

from django_dbqueue.databases import Statement, dialect_of
from django_dbqueue.exceptions import DBQueueError, DuplicateKey
from django_dbqueue.lifecycle import bulk, requeue
from django_dbqueue.lifecycle.operator_verbs import VERBS
from django_dbqueue.lifecycle.statements import MAX_IDS, MessageType, chunks, fetch, short_transaction
from django_dbqueue.retry import outermost
from django_dbqueue.statuses import DONE

NAMED_STEP: Final = 50
"""Named messages per transaction: each is moved, or refused, by a statement of its own."""


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be done to messages, by whom and why."""

    verb: Literal["requeue", "drop"]
    by: str
    reason: str = ""

    def do(self, using: str, message: Any) -> requeue.Changed:
        """Do it to one message, in the caller's transaction."""
        verb = VERBS[self.verb]
        return requeue.apply(using, verb, [message], reason=verb.said_by(self.by, self.reason), actor=self.by)


@dataclass(slots=True)
class Step:
    """What became of the messages of one step."""

    moved: dict[str, int] = field(default_factory=dict)
    """How many, by queue."""
    refused: dict[int, str] = field(default_factory=dict)
    """Named messages that were left alone: by id, why."""
    left_alone: int = 0
    """Other messages left alone: in another state by now, locked elsewhere, or a live message has their key."""


def by_ids(model: MessageType, using: str, order: Order, ids: Iterable[int]) -> Iterator[Step]:
    """Do it to these messages, in whatever state they are."""
    for chunk in chunks(sorted(set(ids)), NAMED_STEP):
        yield outermost(connections[using], partial(_step_by_ids, model, using, order, chunk))


def by_state(
    model: MessageType, using: str, order: Order, queue: str, state: str, *, limit: int | None = None
) -> Iterator[Step]:
    """Do it to the messages of a queue that are in this state now; ``limit`` is how many are tried."""
    selection = bulk.Selection.now(using, state=state, queue=queue)
    cursor: str | None = ""
    tried = 0
    while cursor is not None and tried != limit:
        size = bulk.STEP if limit is None else min(bulk.STEP, limit - tried)
        done = outermost(connections[using], partial(_step_by_state, model, using, order, selection, cursor, size))
        tried += done.moved + done.left_alone
        cursor = done.cursor
        yield Step({queue: done.moved} if done.moved else {}, left_alone=done.left_alone)


def count_in_state(using: str, queue: str, state: str) -> Iterator[int]:
    """Count, page by page, the messages of a queue that ``by_state`` would try."""
    selection = bulk.Selection.now(using, state=state, queue=queue)
    cursor: str | None = ""
    while cursor is not None:
        found = bulk.find(using, selection, cursor)
        yield len(found.ids)
        cursor = found.cursor


def count_movable(using: str, verb: str, ids: Iterable[int]) -> int:
    """Return to how many of these messages the verb could be applied now."""
    dialect, count = dialect_of(connections[using]), 0
    for chunk in chunks(sorted(set(ids)), MAX_IDS):
        named = dialect.id_in(chunk)
        [(some,)] = fetch(using, dialect.count_these(Statement(f"{named.sql} AND {VERBS[verb].fence}", named.params)))
        count += int(some)
    return count


def _step_by_ids(model: Any, using: str, order: Order, ids: Sequence[int]) -> Step:
    step = Step()
    rows = model.objects.using(using).filter(pk__in=ids)
    few = rows.only("id", "queue", "key", "status", "claim_token")
    with short_transaction(using):
        locked = list(few.select_for_update(skip_locked=True).order_by("pk"))
        for message in locked:
            if why := _refusal(order.do(using, message), message):
                step.refused[message.pk] = why
            else:
                step.moved[message.queue] = step.moved.get(message.queue, 0) + 1
    missing = set(ids) - {message.pk for message in locked}
    there = set(rows.filter(pk__in=missing).values_list("pk", flat=True)) if missing else set()
    for message_id in sorted(missing):
        busy = message_id in there
        step.refused[message_id] = _("is locked by another transaction, try again") if busy else _("is not there")
    return step


def _refusal(changed: requeue.Changed, message: Any) -> str:
    """Say why a message was not moved; '' if it was."""
    if changed:
        return ""
    if changed.conflicts:
        return _told(changed.conflicts[0])
    return _("is done already") if message.status == DONE else _("is neither taken nor dead")


def _told(error: DBQueueError) -> str:
    if isinstance(error, DuplicateKey):
        return _("a newer live message has its key %(key)r") % {"key": error.key}
    return str(error)


def _step_by_state(
    model: MessageType, using: str, order: Order, selection: bulk.Selection, cursor: str, size: int
) -> bulk.Step:
    with short_transaction(using):
        return bulk.step(model, using, order.verb, selection, cursor, reason=order.reason, actor=order.by, size=size)
