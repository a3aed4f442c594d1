"""What only a server with sessions can answer: its list of them, and the named locks they hold. Not for SQLite.

A server is identified together with its start, because session ids start over with it: what was seen of a session on
one server, or before a restart, says nothing on another, or after it. Crash recovery counts as such a start.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Final

from django_dbqueue.databases.statement import Statement, holes

MYSQL_PROCESS_LIST: Final = "/*M!100000 information_schema.PROCESSLIST */ /*!80022 performance_schema.processlist */"
"""MySQL's list in information_schema fails with 3854 while any session's statement has a character of four bytes."""


class SessionsSQL(ABC):
    """Statements that take a named lock, ask who holds it, and which sessions exist."""

    id: ClassVar[str]
    """SQL for the session's own id."""
    server: ClassVar[str]
    """SQL for the answering server and its start."""

    def me(self) -> Statement:
        """Read the session's own id and its server."""
        return Statement(f"SELECT {self.id}, {self.server}", ())

    @abstractmethod
    def take_lock(self, *numbers: int) -> Statement:
        """Take the first of these locks that is free, for the length of the session; returns its place in the list.

        The first one's place is 1; NULL: none was free. See ``lock_number``.
        """

    @abstractmethod
    def free_lock(self, number: int) -> Statement:
        """Let the next one in at once: a server takes its time to end a session."""

    @abstractmethod
    def lock_holder(self, number: int) -> Statement:
        """Read the server, the id of the session that holds the lock, and whether that is our own; or NULLs."""

    @abstractmethod
    def account_of(self, conn_id: int) -> Statement:
        """Read a session's account and host; no row, or NULL, where they may not be seen."""

    @abstractmethod
    def is_held(self, number: int, conn_id: int) -> Statement:
        """Read whether the lock is still held, as cheaply as possible; asked by a session other than the holder's."""

    @abstractmethod
    def free_locks(self, numbers: Sequence[int]) -> Statement:
        """Read the server, and which of these locks are free."""

    @abstractmethod
    def existing(self, ids: Sequence[int]) -> Statement:
        """Read the server, and which of these sessions it has; denied if not all can be seen."""

    @abstractmethod
    def end_session(self, conn_id: int) -> Statement:
        """End another session, as an operator would (``queue_torture``); needs no privilege for one's own account's."""


class MySQLSessionsSQL(SessionsSQL):
    """GET_LOCK needs no privilege; its names are global to the server, so the numbers must be random."""

    id = "CONNECTION_ID()"
    # Uptime is derived from the same clock reading as UNIX_TIMESTAMP(), so the difference never varies. The server's
    # own id (not every MariaDB has one) is included because another server that took over the address may have started
    # at the same time
    server = (
        "CONCAT(/*M!100000 COALESCE((SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_VARIABLES "
        "WHERE VARIABLE_NAME = 'server_uid'), '') */ /*!80000 @@server_uuid */, ' at ', "
        "@@hostname, ':', @@port, ':', @@server_id, ' since ', UNIX_TIMESTAMP() - (SELECT VARIABLE_VALUE FROM "
        "/*M!100000 information_schema.GLOBAL_STATUS */ /*!80000 performance_schema.global_status */ "
        "WHERE VARIABLE_NAME = 'Uptime'))"
    )

    def take_lock(self, *numbers: int) -> Statement:
        return _first_that(numbers, "GET_LOCK(CONCAT('dbqueue:', %s), 0) = 1")

    def free_lock(self, number: int) -> Statement:
        return Statement("SELECT RELEASE_LOCK(CONCAT('dbqueue:', %s))", (number,))

    def lock_holder(self, number: int) -> Statement:
        return Statement(
            f"SELECT {self.server}, held.id, held.id = {self.id} "
            "FROM (SELECT IS_USED_LOCK(CONCAT('dbqueue:', %s)) AS id) AS held",
            (number,),
        )

    def account_of(self, conn_id: int) -> Statement:
        return Statement(f"SELECT CONCAT(user, '@', host) FROM {MYSQL_PROCESS_LIST} WHERE id = %s", (conn_id,))

    def is_held(self, number: int, conn_id: int) -> Statement:
        return Statement("SELECT COALESCE(IS_USED_LOCK(CONCAT('dbqueue:', %s)) = %s, 0)", (number, conn_id))

    def free_locks(self, numbers: Sequence[int]) -> Statement:
        each = " UNION ALL ".join(["SELECT %s AS number"] * len(numbers))
        return Statement(
            f"SELECT {self.server}, number FROM ({each}) AS named WHERE IS_FREE_LOCK(CONCAT('dbqueue:', number)) = 1",
            tuple(numbers),
        )

    def existing(self, ids: Sequence[int]) -> Statement:
        # Without the privilege PROCESS, the list has only one's own account. INNODB_CMP needs the same privilege, and
        # raises an error; it is queried in the same statement, so that no pooler can let another session answer.
        return Statement(
            f"SELECT {self.server}, id FROM {MYSQL_PROCESS_LIST} "
            f"WHERE (id = CONNECTION_ID() OR id IN ({holes(len(ids))})) "
            "AND EXISTS (SELECT 1 FROM information_schema.INNODB_CMP)",
            tuple(ids),
        )

    def end_session(self, conn_id: int) -> Statement:
        return Statement("KILL %s", (conn_id,))


class PostgreSQLSessionsSQL(SessionsSQL):
    """Advisory locks are local to the database; everybody sees all of pg_locks, and all session ids."""

    id = "pg_backend_pid()"
    # When one backend crashes, the postmaster ends all sessions but itself keeps running. The cumulative statistics
    # then start over, all at once; an administrator may reset some of them, so the oldest of three counts.
    server = (
        "'started ' || EXTRACT(EPOCH FROM pg_postmaster_start_time())::text || ' unharmed since ' || COALESCE(EXTRACT("
        "EPOCH FROM LEAST((SELECT stats_reset FROM pg_stat_archiver), (SELECT stats_reset FROM pg_stat_bgwriter), "
        "(SELECT stats_reset FROM pg_stat_wal)))::text, '?')"
    )
    _held = (
        "SELECT pid, (classid::bigint << 32) | objid::bigint AS number FROM pg_locks WHERE locktype = 'advisory' "
        "AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) AND objsubid = 1 AND granted"
    )

    def take_lock(self, *numbers: int) -> Statement:
        return _first_that(numbers, "pg_try_advisory_lock(%s)")

    def free_lock(self, number: int) -> Statement:
        return Statement("SELECT pg_advisory_unlock(%s)", (number,))

    def lock_holder(self, number: int) -> Statement:
        return Statement(
            f"SELECT {self.server}, MAX(pid), MAX(pid) = {self.id} FROM ({self._held}) AS held WHERE number = %s",
            (number,),
        )

    def account_of(self, conn_id: int) -> Statement:
        return Statement(
            "SELECT usename || COALESCE('@' || host(client_addr), '') FROM pg_stat_activity WHERE pid = %s", (conn_id,)
        )

    def is_held(self, number: int, conn_id: int) -> Statement:  # noqa: ARG002 - the number is nobody else's
        # pg_locks reads all locks of the server; being able to share the lock, for a moment, shows that nobody holds it
        return Statement("SELECT NOT pg_try_advisory_xact_lock_shared(%s)", (number,))

    def free_locks(self, numbers: Sequence[int]) -> Statement:
        return Statement(
            f"SELECT {self.server}, number FROM UNNEST(%s::bigint[]) AS number "
            f"WHERE number NOT IN (SELECT number FROM ({self._held}) held)",
            (list(numbers),),
        )

    def existing(self, ids: Sequence[int]) -> Statement:
        return Statement(
            f"SELECT {self.server}, pid FROM pg_stat_activity WHERE pid = pg_backend_pid() OR pid = ANY(%s)",
            (list(ids),),
        )

    def end_session(self, conn_id: int) -> Statement:
        return Statement("SELECT pg_terminate_backend(%s)", (conn_id,))


def _first_that(numbers: Sequence[int], condition: str) -> Statement:
    whens = " ".join(f"WHEN {condition} THEN {place}" for place in range(1, len(numbers) + 1))
    return Statement(f"SELECT CASE {whens} END", tuple(numbers))


def lock_number(kind: str, database: str, name: str) -> int:
    """Return the number of a lock that is known by a name; a MySQL server's databases share the numbers of locks."""
    return int.from_bytes(hashlib.sha256(f"{kind}\0{database}\0{name}".encode()).digest()[:8]) >> 1
