"""What a server did, by its own counters: they are exact on a busy machine, where times are not."""

from __future__ import annotations

import time
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from benchmarks.queue.sessions import connect, execute
from benchmarks.scale.polling import polling

if TYPE_CHECKING:
    from collections.abc import Iterator

COUNTED: Final = ("statements", "rows read", "rows written", "pages", "log bytes")
"""Statements without transaction control; rows and index entries that the queue's tables gave; rows inserted, updated
and deleted; pages that were looked into, in memory or not; bytes of the log that a crash is recovered from."""
_PATIENCE: Final = 60
_EVERY: Final = 0.005
_TABLES: Final = "django_dbqueue_%"
_OURS: Final = "SET application_name = 'scale'"


class Counters:
    """Of one database on a server that nobody else uses, asked through a session that is not counted."""

    def __init__(self, url: str) -> None:
        self.url, self.database = url, urlsplit(url).path.strip("/")
        self.session = connect(url)
        self.peak = 0
        """Sessions at once, while ``sessions`` was counting."""

    def __enter__(self) -> Counters:
        return self

    def __exit__(self, *_: object) -> None:
        self.session.close()

    def read(self) -> dict[str, int]:
        """Return all of COUNTED since the server began, once it has done what it does a little later."""
        raise NotImplementedError

    @contextmanager
    def sessions(self) -> Iterator[None]:
        """Count sessions; whatever is to be compared is read within."""
        raise NotImplementedError
        yield

    def _others(self) -> int:
        """Return how many sessions the database has, or is just ending."""
        raise NotImplementedError

    def _wait_for_ends(self) -> None:
        deadline = time.monotonic() + _PATIENCE
        while others := self._others():
            if time.monotonic() > deadline:
                raise AssertionError(f"{others} sessions of {self.database} have not ended: their counts are missing")
            time.sleep(_EVERY)

    def _number(self, sql: str) -> int:
        return int(execute(self.session, sql)[0][0] or 0)


class MariaDBCounters(Counters):
    """MariaDB counts rows by table while it is told to (``userstat``); the rest is the whole server's."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        execute(self.session, "SET GLOBAL userstat = 1")

    def __exit__(self, *_: object) -> None:
        execute(self.session, "SET GLOBAL userstat = 0")
        super().__exit__()

    def read(self) -> dict[str, int]:
        execute(self.session, "SET GLOBAL innodb_max_purge_lag_wait = 0")  # until deleted rows have left their pages
        return {
            "statements": self._statements("global_status") - self._statements("session_status"),
            "rows read": self._rows("rows_read"),
            "rows written": self._rows("rows_changed"),
            "pages": self._status("Innodb_buffer_pool_read_requests"),
            "log bytes": self._status("Innodb_lsn_current"),
        }

    @contextmanager
    def sessions(self) -> Iterator[None]:
        # The highest number begins anew, with this session; and so does what this session has asked, but not its share
        # of the server's sum: what is read before and after a job is read in here
        self._wait_for_ends()
        execute(self.session, "FLUSH STATUS")
        here = self._status("Threads_connected")
        yield
        self.peak = self._status("Max_used_connections") - here

    def _others(self) -> int:
        listed = "SELECT COUNT(*) FROM information_schema.processlist WHERE command <> 'Daemon'"
        own = f"{listed} AND db = '{self.database}' AND id <> CONNECTION_ID()"
        return self._number(own) + self._status("Threads_connected") - self._number(listed)

    def _statements(self, where: str) -> int:
        return self._number(
            f"SELECT SUM(IF(variable_name = 'QUESTIONS', 1, -1) * variable_value) FROM information_schema.{where} "
            "WHERE variable_name IN ('QUESTIONS', 'COM_BEGIN', 'COM_COMMIT', 'COM_ROLLBACK', 'COM_SET_OPTION')"
        )

    def _rows(self, column: str) -> int:
        return self._number(
            f"SELECT SUM({column}) FROM information_schema.table_statistics "
            f"WHERE table_schema = '{self.database}' AND table_name LIKE '{_TABLES}'"
        )

    def _status(self, name: str) -> int:
        return self._number(
            f"SELECT variable_value FROM information_schema.global_status WHERE variable_name = '{name.upper()}'"
        )


class PostgresCounters(Counters):
    """PostgreSQL counts by table and by statement; a session adds its counts at its end."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        execute(self.session, _OURS)
        execute(self.session, "CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
        execute(self.session, f"ALTER DATABASE {self.database} SET pg_stat_statements.track = 'top'")

    def read(self) -> dict[str, int]:
        self._wait_for_ends()
        execute(self.session, "CHECKPOINT")  # after it, the first change of each page is logged as a whole page
        return {
            "statements": self._number(
                "SELECT SUM(calls) FROM pg_stat_statements JOIN pg_database ON oid = dbid WHERE "
                "datname = current_database() AND query !~ '^(BEGIN|START|COMMIT|ROLLBACK|SAVEPOINT|RELEASE|SET)' "
                "AND query NOT LIKE '%pg_stat_%' AND query <> 'CHECKPOINT'"
            ),
            "rows read": self._sum("pg_stat_user_tables", "seq_tup_read")
            + self._sum("pg_stat_user_indexes", "idx_tup_read"),
            "rows written": self._sum("pg_stat_user_tables", "n_tup_ins", "n_tup_upd", "n_tup_del"),
            "pages": self._sum(
                "pg_statio_user_tables", "heap_blks_read", "heap_blks_hit", "idx_blks_read", "idx_blks_hit"
            ),
            "log bytes": self._number("SELECT pg_current_wal_lsn() - '0/0'::pg_lsn"),
        }

    @contextmanager
    def sessions(self) -> Iterator[None]:
        self.peak = 0
        with closing(connect(self.url)) as session:
            execute(session, _OURS)

            def count() -> None:
                self.peak = max(self.peak, int(execute(session, self._OTHERS)[0][0]))

            with polling(count, _EVERY):
                yield

    _OTHERS: Final = (
        "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() "
        "AND backend_type = 'client backend' AND application_name <> 'scale'"
    )

    def _others(self) -> int:
        return self._number(self._OTHERS)

    def _sum(self, view: str, *columns: str) -> int:
        added = " + ".join(f"COALESCE({column}, 0)" for column in columns)
        return self._number(f"SELECT SUM({added}) FROM {view} WHERE relname LIKE '{_TABLES}'")


def counters(url: str) -> Counters:
    """The counters of the database that a URL names."""
    return PostgresCounters(url) if url.startswith("postgres") else MariaDBCounters(url)
