"""A replica of a private server, which follows it, and can be held back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.servers.directory import own_directory
from tests.servers.mariadb import MariaDB
from tests.servers.mysql import MySQL
from tests.servers.postgres import Postgres
from tests.servers.private import PrivateServer, needed_program


class PostgresReplica(Postgres):
    """A hot standby, begun with a copy of the primary."""

    name = "postgres-replica"
    primary: PrivateServer

    def set_up_command(self) -> list[str]:
        program = needed_program("pg_basebackup", package="postgresql")
        return [
            program,
            f"--pgdata={self.data}",
            "--host=127.0.0.1",
            f"--port={self.primary.port}",
            "--username=postgres",
            "--write-recovery-conf",
            "--checkpoint=fast",
        ]

    def follow(self) -> None:
        """It does, by the configuration that the copy has."""

    def hold(self) -> None:
        """Apply nothing more for now."""
        self._run("SELECT pg_wal_replay_pause()")

    def go_on(self) -> None:
        self._run("SELECT pg_wal_replay_resume()")

    def _run(self, sql: str) -> None:
        import psycopg

        with psycopg.connect(f"host=127.0.0.1 port={self.port} user=postgres dbname=postgres", autocommit=True) as own:
            own.execute(sql)


class MariaDBReplica(MariaDB):
    """Begun empty: it applies the primary's binary log from its beginning. How far it is, is in its tables (GTID), so
    that a crash doubles nothing."""

    name = "mariadb-replica"
    primary: PrivateServer

    def command(self) -> list[str]:
        return [word for word in super().command() if word != "--server-id=1"] + ["--server-id=2", "--read-only"]

    def follow(self) -> None:
        """Follow the primary; a restart goes on by itself."""
        self._run(
            f"CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {self.primary.port}, MASTER_USER = 'root', "
            "MASTER_PASSWORD = '', MASTER_CONNECT_RETRY = 1, MASTER_USE_GTID = slave_pos"
        )
        self._run("START SLAVE")

    def hold(self) -> None:
        """Apply nothing more for now."""
        self._run("STOP SLAVE SQL_THREAD")

    def go_on(self) -> None:
        self._run("START SLAVE SQL_THREAD")

    def _run(self, sql: str) -> None:
        _run_on_mysql(self.port, sql)


class MySQLReplica(MySQL):
    """Begun empty, as that of MariaDB; how far it is, is in its tables too."""

    name = "mysql-replica"
    primary: PrivateServer

    def command(self) -> list[str]:
        return [*super().command(), "--server-id=2", "--read-only", "--relay-log=relay", "--relay-log-recovery"]

    def follow(self) -> None:
        """Follow the primary; a restart goes on by itself."""
        self._run(
            f"CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1', SOURCE_PORT = {self.primary.port}, "
            "SOURCE_USER = 'root', SOURCE_PASSWORD = '', SOURCE_CONNECT_RETRY = 1, "
            "SOURCE_LOG_FILE = 'binlog.000001', SOURCE_LOG_POS = 4"
        )
        self._run("START REPLICA")

    def hold(self) -> None:
        """Apply nothing more for now."""
        self._run("STOP REPLICA SQL_THREAD")

    def go_on(self) -> None:
        self._run("START REPLICA SQL_THREAD")

    def _run(self, sql: str) -> None:
        _run_on_mysql(self.port, sql)


def _run_on_mysql(port: int, sql: str) -> None:
    import MySQLdb

    own: Any = MySQLdb.connect(host="127.0.0.1", port=port, user="root")
    own.cursor().execute(sql)
    own.close()


Replica = PostgresReplica | MariaDBReplica | MySQLReplica
REPLICAS: dict[str, type[Replica]] = {
    "postgres": PostgresReplica,
    "mariadb": MariaDBReplica,
    "mysql": MySQLReplica,
}


@contextmanager
def replica_of(primary: PrivateServer) -> Iterator[Replica]:
    """A replica of a running server; it ends before the server does."""
    made = REPLICAS[primary.name]
    with own_directory(made.name) as home:
        server = made(home)
        server.primary = primary
        try:
            server._run_to_end(server.set_up_command())
            server.start()
            server.follow()
            yield server
        finally:
            server.stop()
