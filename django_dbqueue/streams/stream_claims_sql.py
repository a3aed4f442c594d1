"""The claims of streams in the ledger: which messages each one holds, and until when."""

from __future__ import annotations

from django_dbqueue.databases.server import Server
from django_dbqueue.databases.statement import Statement
from django_dbqueue.states.stream_claim_states import ACKED, FREED, FREEING, OPEN


def add(
    server: Server,
    stream: str,
    number: int,
    *,
    queue: str,
    token: int,
    ids: str,
    messages: int,
    attempts: int,
    lease: float,
) -> Statement:
    """Enter an open claim into the ledger."""
    return Statement(
        f"INSERT INTO {server.stream_claim} (stream, number, queue, claim_token, state, ids, messages, attempts, "
        f"lease_until, claimed_at) VALUES (%s, %s, %s, %s, '{OPEN}', %s, %s, %s, "
        f"{server.plus(server.now, '%s')}, {server.now})",
        (stream, number, queue, token, ids, messages, attempts, lease),
    )


def change(server: Server, stream: str, number: int, *, ids: str, messages: int, attempts: int) -> Statement:
    """Set what a claim holds."""
    return Statement(
        f"UPDATE {server.stream_claim} SET ids = %s, messages = %s, attempts = %s WHERE stream = %s AND number = %s",
        (ids, messages, attempts, stream, number),
    )


def read_by(server: Server, stream: str, number: int, run: int) -> Statement:
    """Record which run reads a claim."""
    return Statement(
        f"UPDATE {server.stream_claim} SET run = %s WHERE stream = %s AND number = %s", (run, stream, number)
    )


def lock(server: Server, stream: str, number: int) -> Statement:
    """Lock a claim and read it: queue, token, state, ids, messages, attempts, run, whether its lease is expired."""
    return Statement(
        f"SELECT queue, claim_token, state, ids, messages, attempts, run, lease_until <= {server.now} "
        f"FROM {server.stream_claim} WHERE stream = %s AND number = %s{server.lock_row}",
        (stream, number),
    )


def between(server: Server, stream: str, above: int, upto: int) -> Statement:
    """Read the claims of an interval of offsets: number, token, state, ids."""
    return Statement(
        f"SELECT number, claim_token, state, ids FROM {server.stream_claim} "
        "WHERE stream = %s AND number > %s AND number <= %s ORDER BY number",
        (stream, above, upto),
    )


def unfinished(server: Server, stream: str, *, above: int = -1, upto: int = 2**63 - 1, limit: int = 1_000) -> Statement:
    """Read the numbers of unfinished claims, and their states, in order."""
    return Statement(
        f"SELECT number, state FROM {server.stream_claim} WHERE stream = %s AND number > %s AND number <= %s "
        f"AND state IN ('{OPEN}', '{FREEING}') ORDER BY number LIMIT %s",
        (stream, above, upto, limit),
    )


def extend(server: Server, stream: str, lease: float) -> Statement:
    """Set the leases of the open claims to end in ``lease`` seconds."""
    return Statement(
        f"UPDATE {server.stream_claim} SET lease_until = {server.plus(server.now, '%s')} "
        f"WHERE stream = %s AND state = '{OPEN}'",
        (lease, stream),
    )


def end(server: Server, stream: str, number: int, state: str) -> Statement:
    """Record the outcome of a claim."""
    ended = "NULL" if state == FREEING else server.now
    return Statement(
        f"UPDATE {server.stream_claim} SET state = %s, ended_at = {ended} WHERE stream = %s AND number = %s",
        (state, stream, number),
    )


def forget(server: Server, stream: str, below: int) -> Statement:
    """Delete ended claims with lower numbers."""
    return Statement(
        f"DELETE FROM {server.stream_claim} WHERE stream = %s AND number < %s AND state IN ('{ACKED}', '{FREED}')",
        (stream, below),
    )


def given_up(server: Server, limit: int) -> Statement:
    """Read the stream and number of claims to release: expired with on_expired=requeue, or release begun."""
    return Statement(
        f"SELECT c.stream, c.number, c.state FROM {server.stream_claim} c JOIN {server.stream} s "
        f"ON s.name = c.stream WHERE c.state = '{FREEING}' OR (c.state = '{OPEN}' "
        f"AND c.lease_until <= {server.now} AND s.on_expired = 'requeue') LIMIT %s",
        (limit,),
    )
