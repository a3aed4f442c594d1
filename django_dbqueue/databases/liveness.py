"""Who lives: named locks that sessions hold, the server's list of sessions, and the rows that workers beat.

A server is named together with its start, because the ids of sessions begin anew with it: what was seen of a session
on one server, or before a restart, says nothing on another, or after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from django_dbqueue.databases.words import Statement, Words

MYSQL_PROCESS_LIST: Final = "/*M!100000 information_schema.PROCESSLIST */ /*!80022 performance_schema.processlist */"
"""MySQL's list in information_schema fails with 3854 while any session's statement has a character of four bytes."""


class Liveness(Words):
    """Take a named lock, ask who holds it, and find the workers whose beat is late. SQLite has no sessions."""

    server = ""
    """SQL for the server that answers, and since when it runs."""
    blind_error: int | None = None
    """The error by which a server refuses to show the sessions of all accounts, if it may."""

    def me(self) -> Statement:
        """Read the session's id and its server."""
        return Statement(f"SELECT {self.session_id}, {self.server}", ())

    def take_lock(self, number: int) -> Statement:
        """Take the named lock of this number for as long as the session lasts; gives 1 (or true) if it was free."""
        raise NotImplementedError  # pragma: no cover - every dialect with sessions says it

    def lock_holder(self, number: int) -> Statement:
        """Read the server, and the id of the session that holds the lock, or NULL."""
        raise NotImplementedError  # pragma: no cover

    def is_held(self, number: int, conn_id: int) -> Statement:
        """Tell whether the lock is still held, as cheaply as can be; asked by another session than the holder's."""
        raise NotImplementedError  # pragma: no cover

    def free_locks(self, numbers: Sequence[int]) -> Statement:
        """Read the server, and which of these locks nobody holds."""
        raise NotImplementedError  # pragma: no cover

    def sessions(self, ids: Sequence[int]) -> Statement:
        """Read the server, and which of these sessions it has; refused (``blind_error``) to who can't see them all."""
        raise NotImplementedError  # pragma: no cover

    # -- the workers' rows --------------------------------------------------------------------------------

    def late_workers(self, server: str, limit: int) -> Statement:
        """Read those of this server whose next beat is late, and whether three were missed; late for longest first."""
        return Statement(
            f"SELECT id, beat_at, conn_id, session_lock, server, host, pid, queues, {self._overdue} "
            f"FROM {self.worker} WHERE server = %s AND late_at < {self.now} ORDER BY late_at LIMIT %s",
            (server, limit),
        )

    def lock_worker(self, worker_id: int, beat_at: Any, server: str) -> Statement:
        """Lock the row of a worker that has not beaten since then; who is about to beat goes first."""
        return Statement(
            f"SELECT id FROM {self.worker} WHERE id = %s AND beat_at = %s AND server = %s{self.skip_locked}",
            (worker_id, beat_at, server),
        )

    def silent_workers(self, seconds: float, limit: int) -> Statement:
        """Read those that have not beaten for so long, wherever they are."""
        return Statement(
            f"SELECT id, beat_at, server FROM {self.worker} WHERE beat_at < {self.plus(self.now, '%s')} LIMIT %s",
            (-seconds, limit),
        )

    def delete_worker(self, worker_id: int) -> Statement:
        """Delete a worker's row."""
        return Statement(f"DELETE FROM {self.worker} WHERE id = %s", (worker_id,))

    def elsewhere(self, server: str, *, lately: float, settles: float) -> Statement:
        """Count workers that beat lately and can't be judged here: without a proven session, or on another server.

        Those that began less than ``settles`` seconds ago may be about to prove theirs.
        """
        return Statement(
            f"SELECT SUM(CASE WHEN server = '' THEN 1 ELSE 0 END), SUM(CASE WHEN server <> '' THEN 1 ELSE 0 END) "
            f"FROM {self.worker} WHERE server <> %s AND beat_at > {self.plus(self.now, '%s')} "
            f"AND started_at < {self.plus(self.now, '%s')}",
            (server, -lately, -settles),
        )

    @property
    def _overdue(self) -> str:
        return f"({self.plus('beat_at', '3 * beat_every')} < {self.now})"


class MySQLLiveness(Liveness):
    """GET_LOCK needs no privilege; its names are the whole server's, so that the numbers must be random."""

    # Uptime is counted from the same clock reading as UNIX_TIMESTAMP(), so that the difference never varies
    server = (
        "CONCAT(@@hostname, ':', @@port, ':', @@server_id, ' since ', UNIX_TIMESTAMP() - (SELECT VARIABLE_VALUE FROM "
        "/*M!100000 information_schema.GLOBAL_STATUS */ /*!80000 performance_schema.global_status */ "
        "WHERE VARIABLE_NAME = 'Uptime'))"
    )
    blind_error = 1227

    def take_lock(self, number: int) -> Statement:
        return Statement("SELECT GET_LOCK(CONCAT('dbqueue:', %s), 0)", (number,))

    def lock_holder(self, number: int) -> Statement:
        return Statement(f"SELECT {self.server}, IS_USED_LOCK(CONCAT('dbqueue:', %s))", (number,))

    def is_held(self, number: int, conn_id: int) -> Statement:
        return Statement("SELECT COALESCE(IS_USED_LOCK(CONCAT('dbqueue:', %s)) = %s, 0)", (number, conn_id))

    def free_locks(self, numbers: Sequence[int]) -> Statement:
        each = " UNION ALL ".join(["SELECT %s AS number"] * len(numbers))
        return Statement(
            f"SELECT {self.server}, number FROM ({each}) AS named WHERE IS_FREE_LOCK(CONCAT('dbqueue:', number)) = 1",
            tuple(numbers),
        )

    def sessions(self, ids: Sequence[int]) -> Statement:
        # Without the privilege PROCESS the list has one's own account only. INNODB_CMP needs the same privilege, and
        # refuses aloud; it is asked in the same statement, so that no pooler can let another session answer.
        return Statement(
            f"SELECT {self.server}, id FROM {MYSQL_PROCESS_LIST} "
            f"WHERE (id = CONNECTION_ID() OR id IN ({self.holes(len(ids))})) "
            "AND EXISTS (SELECT 1 FROM information_schema.INNODB_CMP)",
            tuple(ids),
        )


class PostgreSQLLiveness(Liveness):
    """Advisory locks are the database's own; everybody sees all of pg_locks, and all ids of sessions."""

    server = "'started ' || EXTRACT(EPOCH FROM pg_postmaster_start_time())::text"
    _held = (
        "SELECT pid, (classid::bigint << 32) | objid::bigint AS number FROM pg_locks WHERE locktype = 'advisory' "
        "AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) AND objsubid = 1 AND granted"
    )

    def take_lock(self, number: int) -> Statement:
        return Statement("SELECT pg_try_advisory_lock(%s)", (number,))

    def lock_holder(self, number: int) -> Statement:
        return Statement(f"SELECT {self.server}, (SELECT MAX(pid) FROM ({self._held}) h WHERE number = %s)", (number,))

    def is_held(self, number: int, conn_id: int) -> Statement:  # noqa: ARG002 - the number is nobody else's
        # pg_locks reads all locks of the server; who can share the lock, for a moment, knows that nobody holds it
        return Statement("SELECT NOT pg_try_advisory_xact_lock_shared(%s)", (number,))

    def free_locks(self, numbers: Sequence[int]) -> Statement:
        return Statement(
            f"SELECT {self.server}, number FROM UNNEST(%s::bigint[]) AS number "
            f"WHERE number NOT IN (SELECT number FROM ({self._held}) held)",
            (list(numbers),),
        )

    def sessions(self, ids: Sequence[int]) -> Statement:
        return Statement(
            f"SELECT {self.server}, pid FROM pg_stat_activity WHERE pid = pg_backend_pid() OR pid = ANY(%s)",
            (list(ids),),
        )
