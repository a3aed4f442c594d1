"""A session with a database, without Django: what the ledger runs in, on Spark's own connections and on Django's."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol, TypeVar

from django_dbqueue.databases.server import Server
from django_dbqueue.databases.statement import Row, Statement

Result = TypeVar("Result")


class Session(Protocol):
    """A database session in autocommit, whose transactions are READ COMMITTED."""

    @property
    def server(self) -> Server: ...

    def fetch(self, statement: Statement) -> list[Row]:
        """Run a statement that returns rows."""
        ...

    def run(self, statement: Statement) -> int:
        """Run a statement and return how many rows it matched."""
        ...

    def transaction(self) -> AbstractContextManager[None]:
        """Begin, and commit or roll back."""
        ...

    def insert_or_keep(self, statement: Statement) -> int | None:
        """Insert one row, and return its id.

        If its key is taken by now, return the id of the row that has it, even if the open transaction's snapshot
        doesn't show that row; or None, if the server doesn't say it.
        """
        ...

    def outermost(self, work: Callable[[], Result]) -> Result:
        """Run ``work``, retrying while errors are transient."""
        ...


class ClaimingSession(Session, Protocol):
    """What a claim asks of its session besides."""

    @property
    def connection_id(self) -> int:
        """The session's id on its server, which the driver knows without asking."""
        ...

    def fetch_messages(self, statement: Statement) -> list[Row]:
        """Run a statement that returns many messages, whose timestamps stay text until they are read."""
        ...
