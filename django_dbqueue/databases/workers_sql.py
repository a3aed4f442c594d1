"""Which workers are alive: the rows that they beat, and which of them are late."""

from __future__ import annotations

from django_dbqueue.databases.server import Subject
from django_dbqueue.databases.statements import Statement


class WorkersSQL(Subject):
    """Statements about workers whose beat is late; ``Sessions`` asks whether their sessions exist."""

    def late_workers(self, server: str, limit: int) -> Statement:
        """Read those of this server whose next beat is late, and whether three were missed; the latest first."""
        return Statement(
            f"SELECT id, beat_at, conn_id, session_lock, server, host, pid, queues, {self._overdue} "
            f"FROM {self.sql.worker} WHERE server = %s AND late_at < {self.sql.now} ORDER BY late_at LIMIT %s",
            (server, limit),
        )

    def lock_worker(self, worker_id: int, beat_at: object, server: str) -> Statement:
        """Lock the row of a worker that has sent no heartbeat since then; a worker about to beat goes first."""
        return Statement(
            f"SELECT id FROM {self.sql.worker} WHERE id = %s AND beat_at = %s AND server = %s{self.sql.skip_locked}",
            (worker_id, beat_at, server),
        )

    def silent_workers(self, seconds: float, limit: int) -> Statement:
        """Read those that have sent no heartbeat for ``seconds``, wherever they are."""
        return Statement(
            f"SELECT id, beat_at, server FROM {self.sql.worker} WHERE beat_at < {self.sql.plus(self.sql.now, '%s')} "
            "LIMIT %s",
            (-seconds, limit),
        )

    def delete_worker(self, worker_id: int) -> Statement:
        """Delete a worker's row."""
        return Statement(f"DELETE FROM {self.sql.worker} WHERE id = %s", (worker_id,))

    def elsewhere(self, server: str, *, lately: float, settles: float) -> Statement:
        """Count workers that beat lately and can't be judged here: without a proven session, or on another server.

        Those that started less than ``settles`` seconds ago may be about to prove theirs.
        """
        return Statement(
            f"SELECT SUM(CASE WHEN server = '' THEN 1 ELSE 0 END), SUM(CASE WHEN server <> '' THEN 1 ELSE 0 END) "
            f"FROM {self.sql.worker} WHERE server <> %s AND beat_at > {self.sql.plus(self.sql.now, '%s')} "
            f"AND started_at < {self.sql.plus(self.sql.now, '%s')}",
            (server, -lately, -settles),
        )

    @property
    def _overdue(self) -> str:
        return f"({self.sql.plus('beat_at', '3 * beat_every')} < {self.sql.now})"
