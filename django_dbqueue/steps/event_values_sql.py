"""Events that handlers wait for, and who waits: both beside the hot table, found by the hash of the event's name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from django_dbqueue.databases.indexes import Index
from django_dbqueue.databases.server import Server
from django_dbqueue.databases.statement import Claim, Statement
from django_dbqueue.states.table import not_due

LEFT_BEHIND: Final = 2.0
"""Seconds after which a worker wakes those who wait for an event, if its emitter hasn't."""


def emit(
    server: Server,
    name_hash: str,
    name: str,
    value: tuple[str, str, str | None],
    token: int,
    keep_seconds: float,
) -> Statement:
    """Write an event, unless there is one of this name that has not expired; ``token`` is drawn for this call."""
    columns = ("name", "body", "content_type", "types", "token", "at", "wake_from", "expires_at")
    now, plus = server.now, server.plus
    return Statement(
        f"INSERT INTO {server.event_value} (name_hash, {', '.join(columns)}) "
        f"VALUES (%s, %s, %s, %s, %s, %s, {now}, {plus(now, '%s')}, {plus(now, '%s')})"
        f"{server.or_replace(server.event_value, 'name_hash', columns, if_expired=True)}",
        (name_hash, name, *value, token, LEFT_BEHIND, keep_seconds),
    )


def token_of(server: Server, name_hash: str) -> Statement:
    """Read which call wrote the event."""
    return Statement(f"SELECT token FROM {server.event_value} WHERE name_hash = %s", (name_hash,))


def value(server: Server, name_hash: str) -> Statement:
    """Read the payload of an event that has not expired."""
    return Statement(
        f"SELECT body, content_type, types FROM {server.event_value} "
        f"WHERE name_hash = %s AND expires_at > {server.now}",
        (name_hash,),
    )


def wait(server: Server, name_hash: str, claim: Claim) -> Statement:
    """Note that a message waits, as it is suspended under this claim."""
    return Statement(
        f"INSERT INTO {server.waiter} (name_hash, message_id, token) VALUES (%s, %s, %s)"
        f"{server.or_replace(server.waiter, 'name_hash, message_id', ('token',))}",
        (name_hash, claim.id, claim.token),
    )


def wait_no_more(server: Server, message_id: int, name_hash: str) -> Statement:
    """Note that a message doesn't wait any more."""
    return Statement(f"DELETE FROM {server.waiter} WHERE name_hash = %s AND message_id = %s", (name_hash, message_id))


def waiting(server: Server, name_hash: str, after: int, limit: int) -> Statement:
    """Read the messages that are noted as waiting for an event, by id."""
    # Both columns are named in the order: else MySQL reads and sorts all who wait for the event
    return Statement(
        f"SELECT message_id FROM {server.waiter} WHERE name_hash = %s AND message_id > %s "
        "ORDER BY name_hash, message_id LIMIT %s",
        (name_hash, after, limit),
    )


def queues_of(server: Server, ids: Sequence[int]) -> Statement:
    """Read the queues of messages."""
    named = server.id_in(ids)
    return Statement(
        f"SELECT DISTINCT queue FROM {server.message}{server.use[Index.IDS]} WHERE {named.sql}", named.params
    )


def still_waiting(server: Server, name_hash: str, ids: Sequence[int]) -> Statement:
    """Return the fence of those of these messages that still wait for the event."""
    named = server.id_in(ids)
    return Statement(
        f"{named.sql} AND {not_due(server)} AND claim_token = "
        f"(SELECT w.token FROM {server.waiter} AS w "
        f"WHERE w.name_hash = %s AND w.message_id = {server.message}.id)",
        (*named.params, name_hash),
    )


def wake(server: Server, where: Statement) -> Statement:
    """Let the messages of a fence be due now."""
    return Statement(
        f"UPDATE {server.message}{server.use[Index.IDS]} "
        f"SET available_at = {server.now}, due_at = {server.now} WHERE {where.sql}",
        where.params,
    )


def woken(server: Server, name_hash: str) -> Statement:
    """Note that those who waited for an event have been woken."""
    return Statement(f"UPDATE {server.event_value} SET wake_from = NULL WHERE name_hash = %s", (name_hash,))


def left_behind(server: Server, sooner: float, limit: int) -> Statement:
    """Read the events whose emitter has not come to wake those who wait, or would be late ``sooner`` seconds on."""
    return Statement(
        f"SELECT name_hash FROM {server.event_value} WHERE wake_from <= {server.plus(server.now, '%s')} "
        "ORDER BY wake_from LIMIT %s",
        (sooner, limit),
    )


def expired(server: Server, limit: int, *, lock: bool = True) -> Statement:
    """Lock events that were kept long enough, skipping those that others have locked; or only read them."""
    return Statement(
        f"SELECT name_hash FROM {server.event_value} WHERE expires_at <= {server.now} "
        f"ORDER BY expires_at LIMIT %s{server.skip_locked if lock else ''}",
        (limit,),
    )


def delete(server: Server, hashes: Sequence[str]) -> Statement:
    """Delete events that the same transaction has locked."""
    return server.delete_each(server.event_value, ("name_hash",), [(each,) for each in hashes])
