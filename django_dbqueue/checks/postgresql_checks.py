"""PostgreSQL: whether a commit is a commit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from django.core import checks
from django.db.backends.base.base import BaseDatabaseWrapper

from django_dbqueue.checks.answers import answers, check_isolation
from django_dbqueue.databases import Statement
from django_dbqueue.databases.own_tables import Tables
from django_dbqueue.databases.server_facts import postgresql_creators, postgresql_settings
from django_dbqueue.databases.statement import Row
from django_dbqueue.routines import installer_sql

SETTINGS: Final = (
    "default_transaction_isolation",
    "fsync",
    "full_page_writes",
    "server_encoding",
    "synchronous_commit",
)


def check(connection: BaseDatabaseWrapper) -> list[checks.CheckMessage]:
    """Check the driver, and the server and the session that a connection leads to."""
    alias = connection.alias
    if unfit := [*check_driver(connection)]:
        return unfit
    said = answers(connection, postgresql_settings(SETTINGS))
    return [
        *check_durability(alias, said),
        *check_isolation(alias, isolation_of(connection, said)),
        *check_characters(alias, said),
        *check_schema(connection),
        *check_routines(connection),
    ]


def check_driver(connection: Any) -> list[checks.CheckMessage]:
    """Check the driver: claims pipeline statements, and workers listen; psycopg 2 can do neither."""
    if hasattr(connection.Database, "ClientCursor"):
        return []
    return [
        checks.Error(
            f"Django reaches the database {connection.alias!r} with psycopg 2, which the queue doesn't support.",
            hint="Install psycopg 3.2 or newer, which Django then uses: pip install 'django-dbqueue[postgres]'.",
            id="dbqueue.E012",
        )
    ]


def isolation_of(connection: Any, said: Mapping[str, str]) -> str:
    """Return the isolation level of the connection's transactions: from its OPTIONS, or from the session."""
    if "isolation_level" in connection.settings_dict.get("OPTIONS", {}):
        return str(connection.isolation_level.name)  # sent with each BEGIN, so the session's setting doesn't matter
    return said.get("default_transaction_isolation", "read committed")


def check_durability(alias: str, said: Mapping[str, str]) -> Iterator[checks.CheckMessage]:
    """Check durability: promise P1 holds only as far as the server keeps what it has committed."""
    weak = [name for name in ("synchronous_commit", "fsync", "full_page_writes") if said.get(name) == "off"]
    if weak:
        yield checks.Warning(
            f"The server of the database {alias!r} confirms a commit before it is safely on disk ({', '.join(weak)} "
            "off): after a crash, enqueued messages can be lost, and acknowledged ones delivered again.",
            hint=f"Set {' and '.join(weak)} to on, or accept the risk and silence this check.",
            id="dbqueue.W010",
        )


def check_characters(alias: str, said: Mapping[str, str]) -> Iterator[checks.CheckMessage]:
    """Check the encoding, which is chosen once, when a database is created."""
    encoding = said.get("server_encoding", "UTF8")
    if encoding != "UTF8":
        yield checks.Warning(
            f"The database {alias!r} has the encoding {encoding}, which can't hold every character: payloads with "
            "other characters fail at enqueue, or are changed.",
            hint="Create a database with ENCODING 'UTF8' and move the queue to it.",
            id="dbqueue.W016",
        )


def check_schema(connection: BaseDatabaseWrapper) -> Iterator[checks.CheckMessage]:
    """Warn of schemas on the path where others may create objects that then run with our rights."""
    if found := _asked(connection, postgresql_creators(Tables.message)):
        schema, who = found[0][0], ", ".join(str(grantee) for _schema, grantee in found)
        yield checks.Warning(
            f"Other accounts may create objects in the schema {schema} of the queue's tables, in the database "
            f"{connection.alias!r}: {who}. A function or an operator that matches better than PostgreSQL's own runs "
            "with the rights of every account that looks up names there, as Django does.",
            hint=f"REVOKE CREATE ON SCHEMA {schema} FROM {who}; or silence this check if they are trusted with "
            "everything that this account may do.",
            id="dbqueue.W018",
        )


def check_routines(connection: BaseDatabaseWrapper) -> Iterator[checks.CheckMessage]:
    """Check stored routines: they stay as they were created, whatever version of the package is running now."""
    if found := _asked(connection, installer_sql.unsafe_on_postgresql()):
        yield checks.Warning(
            f"{len(found)} stored routines in the database {connection.alias!r} are of an older version, which runs "
            "functions of any account that may create functions in their schema with the rights of the routines' "
            f"owner: {found[0][0]} and so on.",
            hint=f"Run: manage.py queue_routines install --database {connection.alias}",
            id="dbqueue.W019",
        )


def _asked(connection: BaseDatabaseWrapper, question: Statement) -> list[Row]:
    with connection.cursor() as cursor:
        cursor.execute(question.sql, question.params)
        return list(cursor.fetchall())
