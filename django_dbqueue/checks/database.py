"""The queue's server, queried through the queue's own connection: one error if it can't be queried."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from django.apps import apps
from django.core import checks
from django.db import Error as DatabaseError
from django.db import connections, router
from django.db.backends.base.base import BaseDatabaseWrapper

from django_dbqueue.checks.answers import examined_by
from django_dbqueue.checks.settings_checks import queue_alias, unknown_alias
from django_dbqueue.checks.text_columns import check_columns
from django_dbqueue.checks.unapplied import unapplied_migrations
from django_dbqueue.checks.wrong_servers import messages
from django_dbqueue.databases import server_of
from django_dbqueue.databases.facts import Examined, Judgement
from django_dbqueue.databases.own_tables import Tables
from django_dbqueue.exceptions import UnsupportedDatabase
from django_dbqueue.routines import installer_sql
from django_dbqueue.sessions.advice import advice

TABLES: Final = (Tables.message, Tables.archived, Tables.mutex)
"""Those whose rows must be in transactions for a worker to start."""


def check_databases(databases: Sequence[str] | None = None, **_: object) -> list[checks.CheckMessage]:
    """Check the database that the queue lives in, by ``DATABASE`` or by a router, if it is one of these."""
    home = queue_alias() or router.db_for_write(apps.get_model("django_dbqueue", "Message"))
    if home not in (databases or ()):
        return []
    found = check_alias(home)
    is_ill = any(message.is_serious() for message in found)
    return found if is_ill else [*found, *check_migrations(connections[home])]


def check_migrations(connection: BaseDatabaseWrapper) -> Iterator[checks.CheckMessage]:
    """Check that what was squashed is applied whole: half of it can't be migrated. Django checks before it migrates."""
    has_tables = Tables.message in connection.introspection.table_names()
    missing = unapplied_migrations(connection, strict=not has_tables)
    if missing is not None and missing.needs_first is not None:
        yield checks.Error(
            f"The database {connection.alias!r} lacks migrations of django_dbqueue ({', '.join(missing.names)}), and "
            f"has only some of those that {missing.names[0]} replaces: it can't be applied there.",
            hint=f"Run: {missing.cure(connection.alias)}",
            id="dbqueue.E019",
        )


def check_alias(alias: str) -> list[checks.CheckMessage]:
    """Check one database, whether the settings name it or not."""
    if alias not in connections.settings:
        return [unknown_alias(alias, "The call")]
    return check_connection(connections[alias])


def check_connection(connection: BaseDatabaseWrapper) -> list[checks.CheckMessage]:
    """Check the server at the other end of a connection."""
    alias = connection.alias
    try:
        server_of(connection)
    except UnsupportedDatabase as error:
        return [checks.Error(f"The queue can't use the database {alias!r}.", hint=str(error), id="dbqueue.E011")]
    try:
        connection.ensure_connection()
        return [*check_autocommit(connection), *_check_server(connection)]
    except DatabaseError as error:
        return [
            checks.Error(
                f"The database {alias!r} could not be checked: {_first_line(error)}",
                hint=advice(connection, error),
                id="dbqueue.E010",
            )
        ]


def check_autocommit(connection: BaseDatabaseWrapper) -> Iterator[checks.CheckMessage]:
    """Refuse connections that start with autocommit off: what the queue does by itself would never be committed."""
    if not connection.settings_dict["AUTOCOMMIT"]:
        yield checks.Error(
            f"The database {connection.alias!r} has AUTOCOMMIT off: nothing that a worker or a command does would be "
            "committed, and each message would run again and again.",
            hint=f"Leave AUTOCOMMIT out of DATABASES[{connection.alias!r}], or give the queue an alias of its own "
            "without it (DBQUEUE['DATABASE']).",
            id="dbqueue.E016",
        )


def _check_server(connection: BaseDatabaseWrapper) -> list[checks.CheckMessage]:
    server, found = server_of(connection), list[checks.CheckMessage]()
    of = Examined(**examined_by(connection, TABLES))
    for name, judge in server.facts.judges.items():
        found += messages(of.alias, judge(of))
        if found and name == "driver":  # the others may not understand its answers
            return found
    if "collations" in server.facts.questions:
        found += check_columns(connection)
    if server.has_schemas:
        found += messages(of.alias, _routines(of))
    return found


def check_schema(connection: BaseDatabaseWrapper) -> list[checks.CheckMessage]:
    """Warn of a schema on the path where others may create objects that then run with our rights."""
    judges = server_of(connection).facts.judges
    if "schema" not in judges:
        return []
    return list(messages(connection.alias, judges["schema"](Examined(**examined_by(connection, TABLES)))))


def _routines(of: Examined) -> Iterator[Judgement]:
    """Judge stored routines: they stay as they were created, whatever version of the package is running now."""
    if found := of.ask(installer_sql.unsafe_on_postgresql()):
        yield Judgement("old routines", {"count": len(found), "first": found[0][0]})


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
