"""Which workers are alive: the rows that they beat, and which of them are late; ``here`` names this server."""

from __future__ import annotations

from django_dbqueue.databases.server import Server
from django_dbqueue.databases.statement import Statement


def late_workers(server: Server, here: str, limit: int) -> Statement:
    """Read those of this server whose next beat is late, and whether three were missed; the latest first."""
    return Statement(
        f"SELECT id, beat_at, conn_id, session_lock, server, host, pid, queues, {_overdue(server)} "
        f"FROM {server.worker} WHERE server = %s AND late_at < {server.now} ORDER BY late_at LIMIT %s",
        (here, limit),
    )


def lock_worker(server: Server, worker_id: int, beat_at: object, here: str) -> Statement:
    """Lock the row of a worker that has sent no heartbeat since then; a worker about to beat goes first."""
    return Statement(
        f"SELECT id FROM {server.worker} WHERE id = %s AND beat_at = %s AND server = %s{server.skip_locked}",
        (worker_id, beat_at, here),
    )


def silent_workers(server: Server, seconds: float, limit: int) -> Statement:
    """Read those that have sent no heartbeat for ``seconds``, wherever they are."""
    return Statement(
        f"SELECT id, beat_at, server FROM {server.worker} WHERE beat_at < {server.plus(server.now, '%s')} LIMIT %s",
        (-seconds, limit),
    )


def delete_worker(server: Server, worker_id: int) -> Statement:
    """Delete a worker's row."""
    return Statement(f"DELETE FROM {server.worker} WHERE id = %s", (worker_id,))


def elsewhere(server: Server, here: str, *, lately: float, settles: float) -> Statement:
    """Count workers that beat lately and can't be judged here: without a proven session, or on another server.

    Those that started less than ``settles`` seconds ago may be about to prove theirs.
    """
    return Statement(
        f"SELECT SUM(CASE WHEN server = '' THEN 1 ELSE 0 END), SUM(CASE WHEN server <> '' THEN 1 ELSE 0 END) "
        f"FROM {server.worker} WHERE server <> %s AND beat_at > {server.plus(server.now, '%s')} "
        f"AND started_at < {server.plus(server.now, '%s')}",
        (here, -lately, -settles),
    )


def _overdue(server: Server) -> str:
    return f"({server.plus('beat_at', '3 * beat_every')} < {server.now})"
