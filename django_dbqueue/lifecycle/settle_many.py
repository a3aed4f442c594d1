"""What the holders of claims may do with many messages at once, each under the fence of its claim.

A batch returns the messages that were lost (promises P5 and P6; ``moves`` has the verbs of one message).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from functools import partial
from typing import TypeVar

from django_dbqueue import hooks, signals
from django_dbqueue.databases import Change, Claim, Statement
from django_dbqueue.databases.statement import MAX_IDS, Tie, chunks
from django_dbqueue.failures.failure_group_rows import with_failures
from django_dbqueue.lifecycle import moves
from django_dbqueue.lifecycle.held_message import HeldMessage
from django_dbqueue.lifecycle.moves import Ties, ack_of, extend_of, nack_of, reject_of, ties_known
from django_dbqueue.sessions.django_session import DjangoSession, Prelude
from django_dbqueue.statements import moves_sql

Held = TypeVar("Held", bound=HeldMessage)
Then = Callable[[set[int]], object]
"""What a transaction that settles does besides, given the ids that it moved."""


def ack_many(messages: Iterable[Held], session: DjangoSession) -> list[Held]:
    """run → y, or the row is removed, for each; return the ones that were lost."""
    return _settle_many(messages, session, "ack", partial(ack_of, session))


def ack_claims(session: DjangoSession, queues: Mapping[Claim, str]) -> set[Claim]:
    """Ack what these claims (each with its message's queue) still hold; return those."""
    acked: set[Claim] = set()
    for change, claims in _by_change(queues, partial(ack_of, session)).items():
        acked |= settle_claims(session, change, claims)
    return acked


def nack_many(
    messages: Iterable[Held],
    session: DjangoSession,
    *,
    delay: float | timedelta | None,
    error: str | BaseException | None,
) -> list[Held]:
    """run → n, charged, or dead, for each; return the ones that were lost."""
    change = nack_of(session, delay, error)
    return _settle_many(messages, session, "nack", lambda _: change)


def reject_many(messages: Iterable[Held], session: DjangoSession, *, reason: str) -> list[Held]:
    """run → dead for each; return the ones that were lost."""
    change = reject_of(session, reason)
    return _settle_many(messages, session, "reject", lambda _: change)


def release_many(messages: Iterable[Held], session: DjangoSession) -> list[Held]:
    """run → n, uncharged, for each; return the ones that were lost."""
    messages = list(messages)
    pause = max((message.release_pause for message in messages), default=0.0)
    change = moves_sql.release(session.server, pause=pause)
    return _settle_many(messages, session, "release", lambda _: change)


def extend_many(messages: Iterable[Held], session: DjangoSession, *, seconds: float | timedelta | None) -> list[Held]:
    """run → run with a new deadline for each; return the ones that were lost."""
    change = extend_of(session, seconds)
    return _settle_many(messages, session, "extend", lambda _: change, settled=False)


def _settle_many(
    messages: Iterable[Held],
    session: DjangoSession,
    verb: str,
    change_of: Callable[[str], Change],
    *,
    settled: bool = True,
) -> list[Held]:
    if hooks.active is None or not settled or not (messages := list(messages)):
        return _settle_these(messages, session, verb, change_of, settled=settled)
    queues = {message.queue for message in messages}
    work = partial(_settle_these, messages, session, verb, change_of, settled=settled)
    lost: list[Held] = hooks.active.settle(
        verb, queues.pop() if len(queues) == 1 else "", session.using, messages, work
    )
    return lost


def _settle_these(
    messages: Iterable[Held],
    session: DjangoSession,
    verb: str,
    change_of: Callable[[str], Change],
    *,
    settled: bool,
) -> list[Held]:
    lost: list[Held] = []
    for chunk in chunks(messages, MAX_IDS):
        changes = _by_change({message.claim: message.queue for message in chunk}, change_of)
        kept: dict[Claim, Change] = {}
        queues, ties = {message.queue for message in chunk}, ties_known(chunk)
        for change, claims in changes.items():
            recorded = with_failures(session, change, queues)
            kept |= dict.fromkeys(settle_claims(session, recorded, claims, ties=ties), change)
        for message in chunk:
            if message.claim in kept:
                message.forget(kept[message.claim], settled=settled)
            else:
                message.lease_lost = True
                lost.append(message)
                signals.lease_lost.send(type(message), queue=message.queue, message_id=message.pk, verb=verb)
    return lost


def _by_change(queues: Mapping[Claim, str], change_of: Callable[[str], Change]) -> dict[Change, list[Claim]]:
    """Group claims by the change that applies to their queue."""
    found: dict[Change, list[Claim]] = {}
    changes = {queue: change_of(queue) for queue in set(queues.values())}
    for claim, queue in queues.items():
        found.setdefault(changes[queue], []).append(claim)
    return found


def settle_claims(
    session: DjangoSession,
    change: Change,
    claims: Iterable[Claim],
    *,
    ties: Ties = None,
    then: Then | None = None,
) -> set[Claim]:
    """Move what these claims still hold, and record it if it is an event; return the claims that held.

    It is one statement, plus one for each time a message is named again under another token, and what the lanes of
    groups need. ``then`` is called with the ids that were moved, in the same transaction.
    """
    return set().union(*(_settle_layer(session, change, layer, ties, then) for layer in layers(claims)))


def layers(claims: Iterable[Claim]) -> list[list[Claim]]:
    """Split claims so that no part names a message twice: a fence checks one token per row."""
    rest, parts = dict.fromkeys(claims), []
    while rest:
        layer = {claim.id: claim for claim in rest}
        parts.append(list(layer.values()))
        rest = {claim: None for claim in rest if layer[claim.id] != claim}
    return parts


def _settle_layer(
    session: DjangoSession, change: Change, claims: list[Claim], ties: Ties, then: Then | None
) -> set[Claim]:
    if len(claims) == 1 and then is None:
        return set(claims) if session.outermost(lambda: moves.settle(session, change, claims, ties)) else set()
    move = _move_returning if session.server.returns_rows else _move_counted
    moved = session.outermost(lambda: move(session, change, claims, ties, then))
    return {claim for claim in claims if claim.id in moved}


def _move_returning(
    session: DjangoSession, change: Change, claims: list[Claim], ties: Ties, then: Then | None
) -> set[int]:
    """Move where the server returns the rows that it moved."""
    if then is None:
        return moves.settle_returning(session, change, claims, ties)
    with session.transaction():
        if moved := moves.settle_returning(session, change, claims, ties):
            then(moved)
        return moved


def _move_counted(
    session: DjangoSession, change: Change, claims: list[Claim], ties: Ties, then: Then | None
) -> set[int]:
    """Move where the server only counts: if the count is short, undo, lock to see which are held, and move those."""
    server, everything = session.server, {claim.id for claim in claims}
    try:
        with session.transaction():
            if moves.settle(session, change, claims, ties) < len(claims):
                raise FewerHeld
            if then is not None:
                then(everything)
    except FewerHeld:
        with session.transaction():
            held = {row[0] for row in session.fetch(moves_sql.lock(server, moves_sql.held(server, claims)))}
            if held:
                moves.settle(session, change, [claim for claim in claims if claim.id in held], ties)
                if then is not None:
                    then(held)
            return held
    return everything


def settling_all(
    session: DjangoSession,
    change: Change,
    claims: list[Claim],
    ties: Mapping[int, Tie],
    then: Statement | None,
) -> Prelude:
    """Return the statement that moves all that these claims hold, without an event; FewerHeld if some are lost."""

    def check(moved: int) -> None:
        if moved < len(claims):
            raise FewerHeld

    finish = partial(moves.untied, session, change, ties.values()) if ties else None
    return Prelude(moves_sql.settle(session.server, change, claims), check, then, finish)


class FewerHeld(Exception):
    """Fewer rows were moved than the caller holds claims for."""
