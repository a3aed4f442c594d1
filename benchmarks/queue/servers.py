"""Private servers with room for millions of rows, as durable as the promises need them; on disk or in memory."""

from __future__ import annotations

import os
import secrets
import tempfile
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from benchmarks.queue.sessions import connect, execute
from tests.servers.directory import own_directory
from tests.servers.mariadb import MariaDB
from tests.servers.mysql import MySQL, mysql_url
from tests.servers.postgres import Postgres
from tests.servers.private import ServerError

if TYPE_CHECKING:
    from collections.abc import Iterator

DATABASES: Final = ("mariadb", "mysql", "postgres", "sqlite")
_MEMORY: Final = Path("/dev/shm")
_MYSQLD: Final = "DBQUEUE_BENCH_MYSQLD"
"""Names the program of a real MySQL, where the `mysqld` on the PATH is none."""
_DURABLE: Final = {
    "mariadb": {"innodb_flush_log_at_trx_commit": "1", "log_bin": "1", "sync_binlog": "1"},
    "mysql": {"innodb_flush_log_at_trx_commit": "1", "log_bin": "1", "sync_binlog": "1"},
    "postgres": {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"},
}


class RoomyMariaDB(MariaDB):
    def command(self) -> list[str]:
        return [*super().command(), "--innodb-buffer-pool-size=4G", "--innodb-log-file-size=1G"]


class RoomyMySQL(MySQL):
    def command(self) -> list[str]:
        return [*super().command(), "--innodb-buffer-pool-size=4G", "--innodb-redo-log-capacity=1G"]

    @staticmethod
    def _mysqld() -> str:
        return os.environ.get(_MYSQLD) or MySQL._mysqld()


class RoomyPostgres(Postgres):
    def command(self) -> list[str]:
        roomy = ("shared_buffers=1GB", "max_wal_size=1GB")
        counting = ("shared_preload_libraries=pg_stat_statements", "pg_stat_statements.track=none")  # until it is asked
        return [*super().command(), *(word for each in (*roomy, *counting) for word in ("-c", each))]


def parent(*, tmpfs: bool) -> Path:
    """Where data lies: in memory, or on the disk of temporary files."""
    return _MEMORY if tmpfs else Path(tempfile.gettempdir())


@contextmanager
def database(kind: str, *, tmpfs: bool) -> Iterator[str]:
    """The URL of an empty database, gone at the end; ServerError where commits would not be safe in it."""
    place = parent(tmpfs=tmpfs)
    if kind == "sqlite":
        with own_directory("sqlite", place) as home:
            yield f"sqlite:///{home}/bench.sqlite3"
    else:
        with _server(kind, place) as server, _own_database(kind, server) as url:
            _check_durable(kind, server)
            yield url


@contextmanager
def _server(kind: str, place: Path) -> Iterator[str]:
    if kind == "mysql" and not (os.environ.get(_MYSQLD) or MySQL.is_installed()):
        with mysql_url() as url:  # the one that serves the tests too
            yield url
        return
    program = {"mariadb": RoomyMariaDB, "mysql": RoomyMySQL, "postgres": RoomyPostgres}[kind]
    with program.running(place) as server:
        yield server.url


@contextmanager
def _own_database(kind: str, server: str) -> Iterator[str]:
    name = f"bench_dbqueue_{secrets.token_hex(4)}"
    characters = "" if kind == "postgres" else " CHARACTER SET utf8mb4"
    with closing(connect(server)) as session:
        execute(session, f"CREATE DATABASE {name}{characters}")
        try:
            yield urlsplit(server)._replace(path=f"/{name}").geturl()
        finally:
            execute(session, f"DROP DATABASE {name}{' WITH (FORCE)' if kind == 'postgres' else ''}")


def _check_durable(kind: str, server: str) -> None:
    ask = "SHOW {}" if kind == "postgres" else "SELECT @@GLOBAL.{}"
    with closing(connect(server)) as session:
        for name, wanted in _DURABLE[kind].items():
            found = str(execute(session, ask.format(name))[0][0])
            if found != wanted:
                raise ServerError(f"{kind} is not durable: {name} is {found}, not {wanted}")
