"""Whether a source's table is where the queue lives, has the columns that are read, and knows transactions."""

from __future__ import annotations

from django.db import Error, connections, models
from django.utils.translation import gettext as _

from django_dbqueue.databases.statement import Statement
from django_dbqueue.exceptions import DBQueueError
from django_dbqueue.sessions.django_session import session_of


class TableMissing(DBQueueError):
    """A table can't be read as a source. The text says why, and what to do."""


def check_tables(name: str, tables: list[type[models.Model]], using: str) -> None:
    """Raise TableMissing unless these tables of a source are as its package makes them."""
    for model in tables:
        table = model._meta.db_table
        found = _columns(table, using)
        if not found:
            raise TableMissing(_missing(name, table, using))
        absent = sorted({str(field.column) for field in model._meta.concrete_fields} - found)
        if absent:
            raise TableMissing(
                _(
                    "The table %(table)s in database %(alias)r is not that of the %(source)s that is known here: it "
                    "has no column %(columns)s. Migrate it to the newest version of %(source)s first."
                )
                % {"table": table, "alias": using, "source": name, "columns": ", ".join(absent)}
            )


def check_transactions(table: str, using: str) -> None:
    """Raise TableMissing if the table's engine can't delete a row in one commit with the message."""
    session = session_of(using)
    if not session.server.engines:
        return
    [(_table, engine)] = session.fetch(Statement(session.server.engines.format("%s"), (table,)))
    if engine.lower() != "innodb":
        raise TableMissing(
            _(
                "The table %(table)s uses %(engine)s, which has no transactions, so a row could be taken over twice: "
                "run ALTER TABLE %(table)s ENGINE=InnoDB first."
            )
            % {"table": table, "engine": engine}
        )


def _columns(table: str, using: str) -> set[str]:
    """Return the names of the table's columns; none if it isn't there."""
    connection = connections[using]
    with connection.cursor() as cursor:
        if table not in connection.introspection.table_names(cursor):
            return set()
        return {column.name for column in connection.introspection.get_table_description(cursor, table)}


def _missing(name: str, table: str, using: str) -> str:
    for other in connections:
        if other != using and _is_in(table, other):
            return _(
                "The table %(table)s of %(source)s is in database %(other)r, but the queue lives in %(alias)r: a row "
                "is taken over exactly once only if its deletion and the message are one commit, so nothing was "
                "changed. Let %(source)s finish what waits there, or copy the table into %(alias)r first."
            ) % {"table": table, "source": name, "other": other, "alias": using}
    return _(
        "Database %(alias)r has no table %(table)s, so there is nothing of %(source)s to take over. If its tables are "
        "elsewhere, name that database with --database."
    ) % {"alias": using, "table": table, "source": name}


def _is_in(table: str, alias: str) -> bool:
    try:
        return bool(_columns(table, alias))
    except Error:  # not reachable, which is of no interest here
        return False
