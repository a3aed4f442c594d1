"""PostgreSQL: one statement claims and returns, and a commit can wake the listeners."""

from __future__ import annotations

from django_dbqueue.databases.base import Dialect
from django_dbqueue.databases.history import PostgreSQLHistory
from django_dbqueue.databases.liveness import PostgreSQLLiveness


class PostgreSQLDialect(PostgreSQLLiveness, PostgreSQLHistory, Dialect):
    """``statement_timestamp()`` is stable within a statement (an index can use it) and moves within a transaction."""

    now = "statement_timestamp()"
    session_id = "pg_backend_pid()"
    notifies = True
    order_of_few = "id + 0"

    def plus(self, moment: str, seconds: str) -> str:
        return f"({moment}::timestamptz + make_interval(secs => ({seconds})::double precision))"

    def later_of(self, one: str, other: str) -> str:
        return f"GREATEST({one}::timestamptz, {other})"
