"""The one mover of an operator's verbs: it locks rows, compares them with what was seen, and moves what is still so.

Each call is one transaction. Those in whose way something is are left alone, and the others continue: a newer live
message holds the key that a requeue would take back, or the database refuses the change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Final

from django.utils.translation import override

from django_dbqueue import signals
from django_dbqueue.databases.statement import chunks
from django_dbqueue.exceptions import NotCancelled
from django_dbqueue.lifecycle.enqueue import notify
from django_dbqueue.lifecycle.hydration import hydrator
from django_dbqueue.operations import bulk, bulk_sql, ways
from django_dbqueue.operations.outcome import CHANGED, GONE, LOCKED, SAME_QUEUE, MoveOutcome, not_for, sentence
from django_dbqueue.operations.seen import Seen
from django_dbqueue.operations.verbs import VERBS, Order
from django_dbqueue.sessions.django_session import DjangoSession, MessageType
from django_dbqueue.statements import enqueue_sql
from django_dbqueue.statements.message_columns import MESSAGE_COLUMNS

AT_ONCE: Final = 50
"""Messages per transaction that were named, or read, one by one: few enough to hold no row for long."""
STEP_OF_PAYLOADS: Final = 50
"""Messages of a page, where each takes statements of its own."""
_ENDS: Final = ("cancel", "reject", "drop")
"""Verbs that end a message."""


def move(
    model: MessageType,
    session: DjangoSession,
    order: Order,
    seen: Iterable[Seen],
    *,
    skips_locked: bool = False,
    also: Callable[[MoveOutcome], object] | None = None,
) -> MoveOutcome:
    """Apply a verb to what is still as it was seen.

    It waits for rows that others have locked, or skips them. ``also`` is done in the same commit.
    """
    work = partial(_move, model, session, order, list(seen), skips_locked=skips_locked, also=also)
    return _announced(model, session.using, order, session.outermost(work))


def move_all(
    model: MessageType, session: DjangoSession, order: Order, seen: Iterable[Seen], **how: Any
) -> Iterator[MoveOutcome]:
    """Do as ``move`` does, a few messages at a time."""
    for some in chunks(seen, AT_ONCE):
        yield move(model, session, order, some, **how)


def move_page(
    model: MessageType,
    session: DjangoSession,
    order: Order,
    selection: bulk.Selection,
    cursor: str,
    *,
    most: int | None = None,
) -> MoveOutcome:
    """Find up to ``most`` of the next that match, and move those that still do and that nobody has locked."""
    size = bulk.STEP if order.verb.move is not None else STEP_OF_PAYLOADS

    def find_and_move() -> MoveOutcome:
        found = bulk.find(session, selection, cursor, size if most is None else min(size, most))
        outcome = _move(model, session, order, [Seen(each) for each in found.ids], of=selection, skips_locked=True)
        outcome.cursor = found.cursor
        return outcome

    return session.outermost(find_and_move)


def drop_by_key(model: MessageType, session: DjangoSession, key_hash: str, *, reason: str) -> bool:
    """Drop, for its sender, the live message of a key, whoever holds it; return whether there was one."""

    def drop_it() -> MoveOutcome:
        with session.transaction():
            # Locked, so that nothing moves it meanwhile
            rows = session.fetch(enqueue_sql.live_by_hash(session.server, [key_hash]))
            ids = [row[MESSAGE_COLUMNS.index("id")] for row in rows]
            return _move(model, session, order, [Seen(each) for each in ids])

    order = Order(VERBS["drop"], None, reason)
    outcome = _announced(model, session.using, order, session.outermost(drop_it))
    for error in outcome.errors:
        raise error
    return bool(outcome.moved)


def cancel_one(model: MessageType, session: DjangoSession, message_id: int, order: Order) -> None:
    """Cancel one message; NotCancelled says why it can't be."""
    for why in move(model, session, order, [Seen(message_id)]).left.values():
        with override(None):  # English, as all errors
            raise NotCancelled(message_id, f"{order.verb.label}: {sentence(f'message {message_id}', why)}")


def _announced(model: MessageType, using: str, order: Order, outcome: MoveOutcome) -> MoveOutcome:
    """Announce those that ended by themselves, not in bulk."""
    if order.verb.name in _ENDS:
        for message_id in outcome.moved.keys() - outcome.were_dead:
            signals.message_ended.send(model, message_id=message_id, using=using)
    return outcome


def _move(
    model: MessageType,
    session: DjangoSession,
    order: Order,
    seen: list[Seen],
    *,
    of: bulk.Selection | None = None,
    skips_locked: bool = False,
    also: Callable[[MoveOutcome], object] | None = None,
) -> MoveOutcome:
    outcome = MoveOutcome()
    if not seen:
        return outcome
    with session.transaction():
        messages = _lock(
            model, session, order, {each.id: each for each in seen}, outcome, of=of, skips_locked=skips_locked
        )
        if messages:
            outcome.were_dead |= {message.pk for message in messages if message.is_dead}
            ways.apply(model, session, order, messages, outcome)
        if order.verb.name not in _ENDS:
            for queue in set(outcome.moved.values()):
                notify(session, queue, 1)
        if also is not None:
            also(outcome)
    return outcome


def _lock(
    model: Any,
    session: DjangoSession,
    order: Order,
    expected: dict[int, Seen],
    outcome: MoveOutcome,
    *,
    of: bulk.Selection | None,
    skips_locked: bool,
) -> list[Any]:
    """Lock the rows, and return those that are to be moved; of the others, note why not."""
    server, ids = session.server, list(expected)
    where = server.id_in(ids) if of is None else bulk_sql.still(server, ids, of.state, of.at)
    statement = bulk_sql.lock_seen(server, where, order.verb.fence(server), skip_locked=skips_locked)
    built, messages = hydrator(model, session.using, bulk_sql.SEEN), []
    for *row, is_for_it in session.fetch(statement):
        message = built(row)
        was = expected.pop(message.pk)
        if not was.is_still(message):
            outcome.left[message.pk] = CHANGED
        elif not is_for_it:  # a page with the stage has offered the verb
            outcome.left[message.pk] = CHANGED if was.stage else not_for(order.verb, message.stage)
        elif message.queue == order.queue:
            outcome.left[message.pk] = SAME_QUEUE
        else:
            messages.append(message)
    there: set[int] = set()
    if expected and of is None and skips_locked:
        there = set(model.objects.using(session.using).filter(pk__in=expected).values_list("pk", flat=True))
    missed = GONE if of is None else CHANGED
    outcome.left |= {message_id: LOCKED if message_id in there else missed for message_id in expected}
    return messages
