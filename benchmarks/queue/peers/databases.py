"""A database of its own for each peer, empty, on the server of the contest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, unquote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Sequence


def recreated(server: str, name: str) -> str:
    """The URL of the database `name`, which is new and empty. Redis has none: its peers empty all of it."""
    if urlsplit(server).scheme == "redis":
        return server
    drop(server, name)
    _run(server, [f"CREATE DATABASE {name}" + ("" if _is_postgres(server) else " CHARACTER SET utf8mb4")])
    return urlsplit(server)._replace(path=f"/{name}").geturl()


def drop(server: str, name: str) -> None:
    if urlsplit(server).scheme != "redis":
        _run(server, [f"DROP DATABASE IF EXISTS {name}" + (" WITH (FORCE)" if _is_postgres(server) else "")])


def tidied(database: str) -> None:
    """What the server's own upkeep would have done by the time that so many rows had come one by one."""
    if _is_postgres(database):
        _run(database, ["VACUUM ANALYZE"])


def _is_postgres(url: str) -> bool:
    return urlsplit(url).scheme == "postgres"


def _run(url: str, statements: Sequence[str]) -> None:
    if _is_postgres(url):
        import psycopg

        with psycopg.connect(url.replace("postgres:", "postgresql:", 1), autocommit=True) as connection:
            for each in statements:
                connection.execute(each)
        return
    import MySQLdb

    connection = MySQLdb.connect(**_mysql_options(urlsplit(url)))
    try:
        for each in statements:
            connection.cursor().execute(each)
    finally:
        connection.close()


def _mysql_options(parts: SplitResult) -> dict[str, Any]:
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    return {"host": parts.hostname, "port": parts.port or 3306, "user": user, "password": password}
