"""What an operator does to many messages: in steps, each a short transaction of a few rows that holds nobody up.

A step locks its rows, passing by those that others have locked, looks again whether each still stands as the operator
said, and moves it. So whoever stops between two steps leaves every message either moved or as it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Literal

from django.db import connections
from django.db.models import Q
from django.utils.translation import gettext as _

from django_dbqueue.databases import dialect_of
from django_dbqueue.exceptions import DBQueueError, DuplicateKey
from django_dbqueue.lifecycle import requeue
from django_dbqueue.lifecycle.depths import pages
from django_dbqueue.lifecycle.statements import MAX_IDS, MessageType, chunks, fetch, short_transaction
from django_dbqueue.lifecycle.streams import PARKED
from django_dbqueue.retry import outermost
from django_dbqueue.statuses import DONE, NEW, RUNNING

STEP: Final = 50
"""Messages of one transaction: few enough to hold no row for long."""
STATES: Final = {
    "requeue": ("dead", "stuck", "running"),
    "drop": ("ready", "delayed", "running", "stuck", "dead"),
}
"""Where a message may stand for that."""
_MOVABLE: Final = {
    "requeue": Q(status=RUNNING) | Q(status=NEW, available_at=None),
    "drop": Q(status__in=(NEW, RUNNING)),
}


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be done to messages, by whom and why."""

    verb: Literal["requeue", "drop"]
    by: str
    reason: str = ""

    def do(self, using: str, message: Any) -> requeue.Changed:
        """Do it to one message, in the caller's transaction."""
        if self.verb == "requeue":
            return requeue.requeue(using, [message], actor=self.by)
        return requeue.drop(using, [message], reason=self.reason, actor=self.by)


@dataclass(slots=True)
class Step:
    """What became of the messages of one step, or of several: those that moved, and why the others didn't."""

    moved: dict[int, str] = field(default_factory=dict)
    """By id, the queue of each."""
    refused: dict[int, str] = field(default_factory=dict)
    """By id, the reason."""
    passed_by: int = 0
    """Those that others have locked, or that stand elsewhere by now."""


def by_ids(model: MessageType, using: str, order: Order, ids: Iterable[int]) -> Iterator[Step]:
    """Do it to these messages, wherever they stand."""
    for chunk in chunks(sorted(set(ids)), STEP):
        yield outermost(connections[using], partial(_step_by_ids, model, using, order, chunk))


def by_state(
    model: MessageType, using: str, order: Order, queue: str, state: str, *, limit: int | None = None
) -> Iterator[Step]:
    """Do it to the messages of a queue in this state that are there now; ``limit`` is how many are tried.

    Those that leave the state meanwhile, or that others have locked, are passed by.
    """
    tried = 0
    step = partial(_step_by_state, model, using, order, queue, state)
    for found in standing(model, using, queue, state):
        for chunk in chunks(found if limit is None else found[: limit - tried], STEP):
            yield outermost(connections[using], partial(step, chunk))
            tried += len(chunk)
        if tried == limit:
            return


def standing(model: MessageType, using: str, queue: str, state: str) -> Iterator[list[int]]:
    """Walk through the ids of a queue's messages in this state, but for those that come after this has begun."""
    [(_first, last)] = fetch(using, dialect_of(connections[using]).ends(model._meta.db_table))
    for page in pages(using, queue, state):
        yield [message_id for message_id in page if message_id <= (last or 0)]


def count_movable(model: Any, using: str, verb: str, ids: Iterable[int]) -> int:
    """Return how many of these messages the verb could be done to now."""
    rows = model.objects.using(using).filter(_MOVABLE[verb])
    return sum(rows.filter(pk__in=chunk).count() for chunk in chunks(sorted(set(ids)), MAX_IDS))


def _step_by_ids(model: Any, using: str, order: Order, ids: Sequence[int]) -> Step:
    step = Step()
    rows = model.objects.using(using).filter(pk__in=ids)
    with short_transaction(using):
        locked = _locked(rows)
        for message in locked:
            _move(using, order, message, step)
    missing = set(ids) - {message.pk for message in locked}
    there = set(rows.filter(pk__in=missing).values_list("pk", flat=True)) if missing else set()
    for message_id in sorted(missing):
        busy = message_id in there
        step.refused[message_id] = _("is locked by another transaction, try again") if busy else _("is not there")
    return step


def _step_by_state(model: Any, using: str, order: Order, queue: str, state: str, ids: Sequence[int]) -> Step:
    step = Step()
    adjective = getattr(model.objects.using(using), state)
    with short_transaction(using):
        # what a stream has claimed since the walk met it is as much left out as what it held then
        locked = _locked(adjective(queue).filter(pk__in=ids).exclude(available_at=PARKED))
        for message in locked:
            _move(using, order, message, step)
    step.passed_by = len(ids) - len(locked)
    return step


def _locked(rows: Any) -> list[Any]:
    few = rows.only("id", "queue", "key", "status", "available_at", "claim_token")
    return list(few.select_for_update(skip_locked=True).order_by("pk"))


def _move(using: str, order: Order, message: Any, step: Step) -> None:
    changed = order.do(using, message)
    if changed:
        step.moved[message.pk] = message.queue
    elif changed.conflicts:
        step.refused[message.pk] = _why_not(changed.conflicts[0])
    else:
        is_done = message.status == DONE
        step.refused[message.pk] = _("is done already") if is_done else _("is neither taken nor dead")


def _why_not(error: DBQueueError) -> str:
    if isinstance(error, DuplicateKey):
        return _("a newer live message has its key %(key)r") % {"key": error.key}
    return str(error)
