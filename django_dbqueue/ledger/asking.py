"""What the ledger needs of a connection: Spark's own provides it, and Django's through ``lifecycle.streams``."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar

from django_dbqueue.databases import Change, Dialect, Statement
from django_dbqueue.databases.stream_messages import Among

Result = TypeVar("Result")


class Asking(Protocol):
    """A database session in autocommit, whose transactions are READ COMMITTED."""

    @property
    def dialect(self) -> Dialect: ...

    def fetch(self, statement: Statement) -> list[tuple[Any, ...]]:
        """Run a statement that returns rows."""
        ...

    def run(self, statement: Statement) -> int:
        """Run a statement and return how many rows it matched."""
        ...

    def transaction(self) -> AbstractContextManager[None]:
        """Begin, and commit or roll back."""
        ...

    def outermost(self, work: Callable[[], Result]) -> Result:
        """Run ``work``, retrying while errors are transient."""
        ...


def move_parked(connection: Asking, change: Change, among: Among, token: int) -> int:
    """Move what a claim still holds of these rows, and record it if it is an event; return how many."""
    dialect = connection.dialect
    if change.event is not None:
        connection.run(dialect.events.record(change.event, dialect.stream_messages.held_in_claim(among, token)))
    return connection.run(dialect.stream_messages.move_parked(change, among, token))


def new_number() -> int:
    """Return a random 63-bit number, never 0: a claim's token, or a run."""
    return secrets.randbelow(2**63 - 1) + 1
