"""What differs by the server: its SQL, its driver for Java, and its driver for Python."""

from __future__ import annotations

from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

from django.db import connections

if TYPE_CHECKING:
    from collections.abc import Iterator


class MySQL:
    """MySQL and MariaDB, by the driver of MariaDB."""

    driver = "org.mariadb.jdbc.Driver"
    quoted = "`{}`"
    text = "CHAR"
    like = "CREATE TABLE {new} LIKE {old}"
    analyze = "ANALYZE TABLE {}"
    truncate = "TRUNCATE TABLE {}"
    now = "UTC_TIMESTAMP(6)"
    conn_id = "CONNECTION_ID()"
    claim_index = " FORCE INDEX (dbqueue_claim)"
    rewritten: ClassVar = {"rewriteBatchedStatements": "true"}
    """How its driver is told to send many rows in one statement."""

    def __init__(self, alias: str) -> None:
        self.alias = alias
        self.config = connections[alias].settings_dict

    def jdbc_url(self, parameters: dict[str, str]) -> str:
        """The MariaDB driver is told jdbc:mysql://, else it quotes columns so that the server reads them as text."""
        pairs = {"useSSL": "false", "allowPublicKeyRetrieval": "true", "permitMysqlScheme": "", **parameters}
        query = "&".join(f"{name}={value}" if value else name for name, value in pairs.items())
        return f"jdbc:mysql://{self.config['HOST']}:{self.config['PORT'] or 3306}/{self.config['NAME']}?{query}"

    @contextmanager
    def session(self, *, autocommit: bool = True) -> Iterator[Any]:
        """A session of the driver's own, ended whatever happens: an open one keeps its tables from being dropped."""
        import MySQLdb

        params = connections[self.alias].get_connection_params()
        with closing(MySQLdb.connect(**params, autocommit=autocommit)) as session:
            session.query("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
            yield session

    def streaming(self, session: Any) -> Any:
        """A cursor that leaves the rows at the server."""
        from MySQLdb.cursors import SSCursor

        return session.cursor(SSCursor)

    def insert_many(self, session: Any, statement: str, holes: str, rows: list[tuple[Any, ...]]) -> None:
        # One INSERT of many rows is made only where the values are nothing but placeholders
        session.cursor().executemany(f"{statement} VALUES {holes}", rows)


class Postgres(MySQL):
    """PostgreSQL."""

    driver = "org.postgresql.Driver"
    quoted = '"{}"'
    text = "text"
    like = "CREATE TABLE {new} (LIKE {old} INCLUDING DEFAULTS)"
    analyze = "VACUUM ANALYZE {}"
    truncate = "TRUNCATE TABLE {} RESTART IDENTITY"
    now = "statement_timestamp()"
    conn_id = "pg_backend_pid()"
    claim_index = ""
    rewritten: ClassVar = {"reWriteBatchedInserts": "true"}

    def jdbc_url(self, parameters: dict[str, str]) -> str:
        query = "&".join(f"{name}={value}" for name, value in parameters.items())
        return f"jdbc:postgresql://{self.config['HOST']}:{self.config['PORT'] or 5432}/{self.config['NAME']}?{query}"

    @contextmanager
    def session(self, *, autocommit: bool = True) -> Iterator[Any]:
        import psycopg

        options = {
            name.lower(): self.config[name] for name in ("HOST", "PORT", "USER", "PASSWORD") if self.config[name]
        }
        with closing(psycopg.connect(**options, dbname=self.config["NAME"], autocommit=autocommit)) as session:
            yield session

    def streaming(self, session: Any) -> Any:
        return session.cursor("read", withhold=True)

    def insert_many(self, session: Any, statement: str, holes: str, rows: list[tuple[Any, ...]]) -> None:
        session.execute(
            f"{statement} VALUES {', '.join([holes] * len(rows))}", [value for row in rows for value in row]
        )


VENDORS = {"mariadb": MySQL, "mysql": MySQL, "postgres": Postgres}
