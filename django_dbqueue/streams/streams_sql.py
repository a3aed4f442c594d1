"""The ledger of consuming streams: who runs one, and which messages each of its numbered claims holds.

A stream's messages are ``run`` under its claim's token, and parked: their ``available_at`` is a moment that never
comes, so no rescue by lease finds them, and their ``worker_id`` is NULL, so no guardian does. The lease that counts is
the claim's, in the ledger.
"""

from __future__ import annotations

from django_dbqueue.databases.server import Server
from django_dbqueue.databases.statement import Statement
from django_dbqueue.states.stream_claim_states import FREEING, OPEN


def database_name(server: Server) -> Statement:
    """Read the name of the database, where it matters for locks."""
    return Statement(f"SELECT {server.database}", ())


def create(server: Server, name: str, queue: str, on_expired: str, lease: float) -> Statement:
    """Create a stream's row, unless it exists."""
    return Statement(
        f"INSERT INTO {server.stream} (name, queue, on_expired, lease_seconds, runner, last_number, begun_at, "
        f"beat_at) VALUES (%s, %s, %s, %s, '', 0, {server.now}, {server.now})"
        f"{server.or_nothing(server.stream, 'name')}",
        (name, queue, on_expired, lease),
    )


def read(server: Server, name: str, gone_after: float, *, lock: bool) -> Statement:
    """Read who runs a stream: queue, run, runner, session, last number, start, last beat, if that is recent."""
    return Statement(
        "SELECT queue, run, runner, conn_id, last_number, begun_at, beat_at, "
        f"beat_at > {server.plus(server.now, '%s')} FROM {server.stream} "
        f"WHERE name = %s{server.lock_row if lock else ''}",
        (-gone_after, name),
    )


def lock(server: Server, name: str, *, wait: bool = True) -> Statement:
    """Lock a stream's row and read its run and its last claim's number: the fence of the stream's runner."""
    lock = server.lock_row if wait else server.skip_locked
    return Statement(f"SELECT run, last_number FROM {server.stream} WHERE name = %s{lock}", (name,))


def own(
    server: Server, name: str, *, run: int, runner: str, session: int | None, on_expired: str, lease: float
) -> Statement:
    """Begin a run: from now on, a statement that names another run changes nothing."""
    owner, params = (server.session_id, ()) if server.session_id else ("%s", (session,))
    return Statement(
        f"UPDATE {server.stream} SET run = %s, runner = %s, conn_id = {owner}, on_expired = %s, "
        f"lease_seconds = %s, begun_at = {server.now}, beat_at = {server.now} WHERE name = %s",
        (run, runner, *params, on_expired, lease, name),
    )


def disown(server: Server, name: str) -> Statement:
    """End the current run, if any."""
    return Statement(f"UPDATE {server.stream} SET run = NULL, conn_id = NULL, runner = '' WHERE name = %s", (name,))


def follow_session(server: Server, name: str, session: int | None) -> Statement:
    """Record the session of a run that has reconnected."""
    owner, params = (server.session_id, ()) if server.session_id else ("%s", (session,))
    return Statement(f"UPDATE {server.stream} SET conn_id = {owner} WHERE name = %s", (*params, name))


def beat(server: Server, name: str) -> Statement:
    """Record that the run is alive."""
    return Statement(f"UPDATE {server.stream} SET beat_at = {server.now} WHERE name = %s", (name,))


def delete(server: Server, name: str) -> Statement:
    """Delete a stream; its claims are deleted first."""
    return Statement(f"DELETE FROM {server.stream} WHERE name = %s", (name,))


def all_streams(server: Server) -> Statement:
    """Read every stream, with what its unfinished claims hold, and whether any of their leases has expired."""
    held = f"c.state IN ('{OPEN}', '{FREEING}')"
    return Statement(
        "SELECT s.name, s.queue, s.on_expired, s.runner, s.conn_id, s.last_number, s.beat_at, "
        f"SUM(CASE WHEN {held} THEN 1 ELSE 0 END), SUM(CASE WHEN {held} THEN c.messages ELSE 0 END), "
        f"SUM(CASE WHEN {held} AND c.lease_until <= {server.now} THEN 1 ELSE 0 END) "
        f"FROM {server.stream} s LEFT JOIN {server.stream_claim} c ON c.stream = s.name "
        "GROUP BY s.name, s.queue, s.on_expired, s.runner, s.conn_id, s.last_number, s.beat_at ORDER BY s.name",
        (),
    )


def is_paused(server: Server, queue: str) -> Statement:
    """Return a row if the queue is paused now."""
    return Statement(f"SELECT 1 FROM {server.queue} WHERE name = %s AND {server.is_paused}", (queue,))


def number(server: Server, name: str, number: int) -> Statement:
    """Record the number of the last claim."""
    return Statement(f"UPDATE {server.stream} SET last_number = %s WHERE name = %s", (number, name))
