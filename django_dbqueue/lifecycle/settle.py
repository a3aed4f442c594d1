"""What the holder of a claim may do with it: ack, nack, reject, release, extend.

Every statement names the row, its state ``run`` and the token of the claim. A former holder changes nothing: a single
message raises LeaseLost, a batch returns the ones that were lost (promises P5 and P6). The statements run on the
caller's connection and join the caller's transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from functools import partial
from typing import Any

from django.db import connections

from django_dbqueue import conf, signals
from django_dbqueue.databases import Change, Claim, dialect_of
from django_dbqueue.envelope import check_seconds
from django_dbqueue.exceptions import LeaseLost
from django_dbqueue.lifecycle import recording
from django_dbqueue.lifecycle.errors import error_text
from django_dbqueue.lifecycle.statements import MAX_IDS, Ahead, chunks, fetch, short_transaction
from django_dbqueue.retry import outermost


def ack_of(using: str, queue: str) -> Change:
    """Return what an ack does to a row of this queue: it is kept as ``y``, or removed.

    Only the settings decide, so the answer is the same whoever acks: a handler, a worker, its supervisor, a program
    without consumers.
    """
    dialect = dialect_of(connections[using])
    return dialect.remove() if conf.on_ack(queue) == conf.DELETE else dialect.ack()


def ack_one(message: Any, using: str) -> None:
    """run → y, or the row is removed."""
    _settle_one(message, using, "ack", ack_of(using, message.queue))


def nack_one(message: Any, using: str, *, delay: float | timedelta | None, error: str | BaseException | None) -> None:
    """run → n, charged, or dead when the reads are spent."""
    seconds = None if delay is None else check_seconds("delay", delay)
    _settle_one(message, using, "nack", dialect_of(connections[using]).nack(seconds, error_text(error)))


def reject_one(message: Any, using: str, *, reason: str) -> None:
    """run → dead."""
    _settle_one(message, using, "reject", dialect_of(connections[using]).reject(error_text(reason) or "Rejected"))


def release_one(message: Any, using: str) -> None:
    """run → n, uncharged."""
    _settle_one(message, using, "release", dialect_of(connections[using]).release(pause=message.release_pause))


def extend_one(message: Any, using: str, *, seconds: float | timedelta | None) -> None:
    """run → run with a new deadline."""
    length = None if seconds is None else check_seconds("seconds", seconds)
    _settle_one(message, using, "extend", dialect_of(connections[using]).extend(length), settled=False)


def _settle_one(message: Any, using: str, verb: str, change: Change, *, settled: bool = True) -> None:
    change = recording.blamed(using, change, [message.queue])
    if outermost(connections[using], lambda: recording.settle(using, change, [message.claim])) != 1:
        message.lease_lost = True
        signals.lease_lost.send(type(message), queue=message.queue, message_id=message.pk, verb=verb)
        raise LeaseLost(message.pk, verb)
    message.forget(settled=settled, removed=change.removes)


def ack_many(messages: Iterable[Any], using: str) -> list[Any]:
    """run → y, or the row is removed, for each; return the ones that were lost."""
    return _settle_many(messages, using, "ack", partial(ack_of, using))


def ack_claims(using: str, queues: Mapping[Claim, str]) -> set[Claim]:
    """Ack what these claims (each with its message's queue) still hold; return those."""
    acked: set[Claim] = set()
    for change, claims in _by_change(queues, partial(ack_of, using)).items():
        acked |= settle_claims(using, change, claims)
    return acked


def nack_many(
    messages: Iterable[Any], using: str, *, delay: float | timedelta | None, error: str | BaseException | None
) -> list[Any]:
    """run → n, charged, or dead, for each; return the ones that were lost."""
    seconds = None if delay is None else check_seconds("delay", delay)
    change = dialect_of(connections[using]).nack(seconds, error_text(error))
    return _settle_many(messages, using, "nack", lambda _: change)


def reject_many(messages: Iterable[Any], using: str, *, reason: str) -> list[Any]:
    """run → dead for each; return the ones that were lost."""
    change = dialect_of(connections[using]).reject(error_text(reason) or "Rejected")
    return _settle_many(messages, using, "reject", lambda _: change)


def release_many(messages: Iterable[Any], using: str) -> list[Any]:
    """run → n, uncharged, for each; return the ones that were lost."""
    messages = list(messages)
    pause = max((message.release_pause for message in messages), default=0.0)
    change = dialect_of(connections[using]).release(pause=pause)
    return _settle_many(messages, using, "release", lambda _: change)


def extend_many(messages: Iterable[Any], using: str, *, seconds: float | timedelta | None) -> list[Any]:
    """run → run with a new deadline for each; return the ones that were lost."""
    length = None if seconds is None else check_seconds("seconds", seconds)
    change = dialect_of(connections[using]).extend(length)
    return _settle_many(messages, using, "extend", lambda _: change, settled=False)


def _settle_many(
    messages: Iterable[Any], using: str, verb: str, change_of: Callable[[str], Change], *, settled: bool = True
) -> list[Any]:
    lost: list[Any] = []
    for chunk in chunks(messages, MAX_IDS):
        changes = _by_change({message.claim: message.queue for message in chunk}, change_of)
        kept: dict[Claim, Change] = {}
        queues = {message.queue for message in chunk}
        for change, claims in changes.items():
            told = recording.blamed(using, change, queues)
            kept |= dict.fromkeys(settle_claims(using, told, claims), change)
        for message in chunk:
            if message.claim in kept:
                message.forget(settled=settled, removed=kept[message.claim].removes)
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


def settle_claims(using: str, change: Change, claims: Iterable[Claim]) -> set[Claim]:
    """Move what these claims still hold, and record it if it is an event; return the claims that held.

    It is one statement, plus one for each time a message is named again under another token.
    """
    return set().union(*(_settle_layer(using, change, layer) for layer in layers(claims)))


def layers(claims: Iterable[Claim]) -> list[list[Claim]]:
    """Split claims so that no part names a message twice: a fence checks one token per row."""
    rest, parts = dict.fromkeys(claims), []
    while rest:
        layer = {claim.id: claim for claim in rest}
        parts.append(list(layer.values()))
        rest = {claim: None for claim in rest if layer[claim.id] != claim}
    return parts


def _settle_layer(using: str, change: Change, claims: list[Claim]) -> set[Claim]:
    connection = connections[using]
    if len(claims) == 1:
        return set(claims) if outermost(connection, lambda: recording.settle(using, change, claims)) else set()
    if dialect_of(connection).updates_return_rows:
        moved = outermost(connection, lambda: recording.settle_and_tell(using, change, claims))
    else:
        moved = outermost(connection, lambda: _move_counted(using, change, claims))
    return {claim for claim in claims if claim.id in moved}


def _move_counted(using: str, change: Change, claims: list[Claim]) -> set[int]:
    """Move where the server only counts: if the count is short, undo, lock to see which are held, and move those."""
    dialect = dialect_of(connections[using])
    try:
        with short_transaction(using):
            if recording.settle(using, change, claims) < len(claims):
                raise Short
    except Short:
        with short_transaction(using):
            held = {row[0] for row in fetch(using, dialect.lock(dialect.held(claims)))}
            if held:
                recording.settle(using, change, [claim for claim in claims if claim.id in held])
            return held
    return {claim.id for claim in claims}


def settling_all(using: str, change: Change, claims: list[Claim]) -> Ahead:
    """Return the statement that moves all that these claims hold, without an event; Short if some are lost."""

    def check(moved: int) -> None:
        if moved < len(claims):
            raise Short

    return Ahead(dialect_of(connections[using]).settle(change, claims), check)


class Short(Exception):
    """Fewer rows were moved than the caller holds claims for."""
