"""What a source of messages says: which table it reads, which rows wait, and what message each of them becomes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Final, NamedTuple

from django.db import models
from django.db.models import Q

from django_dbqueue.envelope import Envelope

IMPORTED_FROM: Final = "dbqueue.imported_from"
"""Header of a message that was taken over: the source's name, a space, and the row's primary key."""

UNREADABLE: Final = object()


class NotImportable(Exception):
    """A row that can't become a message, and so stays where it is. The text says why, without its arguments."""


class StoredJSON(models.JSONField):
    """JSON of a source. What the database takes and Python doesn't is UNREADABLE: one such row is to stop no others."""

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> Any:
        """Return the value, or UNREADABLE."""
        try:
            return super().from_db_value(value, expression, connection)
        except (ValueError, RecursionError):
            return UNREADABLE


class Addressed(NamedTuple):
    """A message, and its queue."""

    queue: str
    envelope: Envelope


class SourceCounts(NamedTuple):
    """How many rows of a source wait, run, and have ended."""

    waiting: int
    running: int
    ended: int


class ImportSource(ABC):
    """Another queue, in a table of the database in which this one lives."""

    name: ClassVar[str]
    """What ``queue_import`` calls it."""
    model: ClassVar[type[models.Model]]
    """Its table, with the columns that are read."""
    dependents: ClassVar[tuple[type[models.Model], ...]] = ()
    """Other tables of its package that are changed when rows are taken over."""
    order: ClassVar[tuple[str, ...]]
    """The order in which rows were enqueued, as far as the table tells."""

    @abstractmethod
    def waiting(self, using: str) -> Q:
        """Return what selects the rows that nobody has begun, now."""

    @abstractmethod
    def counts(self, using: str) -> SourceCounts:
        """Count the rows by what becomes of them."""

    @abstractmethod
    def read(self, row: Any) -> Addressed:
        """Return the message that a row becomes. Raises NotImportable, or InvalidMessage."""

    def forget(self, using: str, keys: Sequence[Any]) -> None:  # noqa: B027 - most have no such tables
        """Make the dependent tables forget these rows, which the same transaction deletes next."""

    def origin(self, row: models.Model) -> str:
        """Return what the header of the message says of the row."""
        return f"{self.name} {row.pk}"
