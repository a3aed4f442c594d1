"""An operator's verbs, message by message; each move names the state and the token that the operator saw.

A sender may drop, by key, what it has sent: the live message, whoever holds it.

A row that moved meanwhile is skipped, so a stale page changes nothing. A requeue takes the message's key back. If a
newer live message holds it, that row is reported as DuplicateKey and the others proceed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from django.db import DatabaseError

from django_dbqueue import signals
from django_dbqueue.databases import Change, Server
from django_dbqueue.exceptions import DBQueueError
from django_dbqueue.lifecycle.held_message import HeldMessage
from django_dbqueue.lifecycle.hydration import hydrate
from django_dbqueue.lifecycle.moves import move
from django_dbqueue.operations.conflicts import conflict_of
from django_dbqueue.operations.verbs import VERBS, Verb
from django_dbqueue.sessions.django_session import DjangoSession, MessageType
from django_dbqueue.statements import enqueue_sql, fences_sql
from django_dbqueue.states.table import Stage

ENDS: Final = ("dropped", "dies")
"""What becomes of the place in a lane of a message that a change ends."""


class Changed(int):
    """How many messages a verb changed; ``conflicts`` holds the error of each one that it could not change.

    The error is a DuplicateKey if the key was taken, an UndecodableMessage if the row can't be read, and an
    InvalidMessage if the message can't be what was asked, or the database refused it.
    """

    conflicts: list[DBQueueError]

    def __new__(cls, count: int, conflicts: Iterable[DBQueueError] = ()) -> Changed:
        changed = super().__new__(cls, count)
        changed.conflicts = list(conflicts)
        return changed


def requeue(session: DjangoSession, messages: Iterable[HeldMessage], *, actor: str | None = None) -> Changed:
    """{run, dead} → n, as if new. ``actor``, here and below, is the person who does it, if one does."""
    return apply(session, VERBS["requeue"], messages, actor=actor)


def reject_waiting(
    session: DjangoSession, messages: Iterable[HeldMessage], *, reason: str, actor: str | None = None
) -> Changed:
    """N → dead, by an operator."""
    change = VERBS["reject"].change
    return _move_each(session, messages, Stage.UNCLAIMED.sql, lambda server: change(server, reason, actor))


def due_now(session: DjangoSession, messages: Iterable[HeldMessage], *, actor: str | None = None) -> Changed:
    """N → n, due at once."""
    return apply(session, VERBS["due-now"], messages, actor=actor)


def drop(session: DjangoSession, messages: Iterable[HeldMessage], *, reason: str, actor: str | None = None) -> Changed:
    """{n, run, dead} → y, marked by whom."""
    return apply(session, VERBS["drop"], messages, reason=reason, actor=actor)


def apply(
    session: DjangoSession, verb: Verb, messages: Iterable[HeldMessage], *, reason: str = "", actor: str | None = None
) -> Changed:
    """Move those that the verb applies to; ``reason`` is what the column ``error`` is to keep."""
    return _move_each(session, messages, verb.fence(session.server), lambda server: verb.change(server, reason, actor))


def drop_by_key(model: MessageType, session: DjangoSession, key_hash: str, *, reason: str) -> bool:
    """{n, run} → y for the live message of a key, whoever holds it; return whether there was one."""
    server, verb = session.server, VERBS["drop"]

    def drop_it() -> int | None:
        with session.transaction():
            rows = session.fetch(
                enqueue_sql.live_by_hash(server, [key_hash])
            )  # locked, so that nothing moves it meanwhile
            if not rows:
                return None
            claim = hydrate(model, session.using, rows[0]).claim
            where = fences_sql.unmoved(claim, verb.fence(server))
            return claim.id if move(session, verb.change(server, reason, None), where) == 1 else None

    dropped = session.outermost(drop_it)
    if dropped is not None:
        signals.message_ended.send(model, message_id=dropped)
    return dropped is not None


def _move_each(
    session: DjangoSession, messages: Iterable[HeldMessage], state: str, change: Callable[[Server], Change]
) -> Changed:
    count = 0
    conflicts: list[DBQueueError] = []
    for message in messages:
        try:
            count += _move_one(session, message, state, change)
        except DatabaseError as error:
            conflicts.append(conflict_of(error, message, message.queue))
    return Changed(count, conflicts)


def _move_one(session: DjangoSession, message: HeldMessage, state: str, change: Callable[[Server], Change]) -> int:
    server = session.server
    what, where = change(server), fences_sql.unmoved(message.claim, state)
    count = session.outermost(lambda: move(session, what, where))
    if count and what.in_lane in ENDS:
        signals.message_ended.send(type(message), message_id=message.pk)
    return count
