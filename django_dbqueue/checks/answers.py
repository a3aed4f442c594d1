"""Querying a server, and the one finding that all of them share."""

from __future__ import annotations

from django.core import checks
from django.db.backends.base.base import BaseDatabaseWrapper

from django_dbqueue.databases import Statement


def answers(connection: BaseDatabaseWrapper, question: Statement) -> dict[str, str]:
    """Return the (name, value) rows of an answer, names in lower case."""
    with connection.cursor() as cursor:
        cursor.execute(question.sql, question.params or None)
        return {str(name).lower(): str(value) for name, value in cursor.fetchall()}


def check_isolation(alias: str, level: str) -> list[checks.CheckMessage]:
    """Warn of a transaction isolation other than READ COMMITTED, given in any spelling."""
    words = level.upper().replace("-", " ").replace("_", " ")
    if words == "READ COMMITTED":
        return []
    return [
        checks.Warning(
            f"Transactions in the database {alias!r} are {words}: those that enqueue or settle wait for each other, "
            "deadlock or fail to serialise more often. If the transaction is yours, you have to retry it.",
            hint="Set 'isolation_level' in OPTIONS to READ COMMITTED, or keep transactions that enqueue short and "
            "retry them.",
            id="dbqueue.W011",
        )
    ]
