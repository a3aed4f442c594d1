"""Claims of consuming streams, as Django's side sees them: which are overdue, and which to requeue.

The ledger's own code runs here too, on Django's connection.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, TypeVar

from django.db import connections

from django_dbqueue import signals
from django_dbqueue.databases import Dialect, Statement, dialect_of
from django_dbqueue.ledger.freeing import LEASE_OVER, Given, free_expired
from django_dbqueue.lifecycle.statements import MAX_IDS, MessageType, fetch, run, short_transaction
from django_dbqueue.retry import outermost

Result = TypeVar("Result")

PARKED: Final = datetime(9999, 12, 31, tzinfo=UTC)
"""``available_at`` of what a consuming stream holds: the lease that counts is its claim's, in the ledger."""
AT_ONCE: Final = 5_000
"""Messages that one pass releases; the next pass continues."""


@dataclass(frozen=True, slots=True)
class OnDjango:
    """An adapter that lets the ledger query one of Django's connections."""

    using: str

    @property
    def dialect(self) -> Dialect:
        return dialect_of(connections[self.using])

    def fetch(self, statement: Statement) -> list[tuple[Any, ...]]:
        return fetch(self.using, statement)

    def run(self, statement: Statement) -> int:
        return run(self.using, statement)

    def transaction(self) -> AbstractContextManager[None]:
        return short_transaction(self.using)

    def outermost(self, work: Callable[[], Result]) -> Result:
        return outermost(connections[self.using], work)


def requeue_expired(model: MessageType, using: str) -> int:
    """Release, charged and as a crash, what streams with ``on_expired=requeue`` let expire; return how many."""
    return free_expired(OnDjango(using), partial(_tell, model), limit=AT_ONCE)


def overdue_tokens(using: str) -> list[int]:
    """Return the tokens of stream claims whose lease has expired: what they hold is stuck."""
    return [int(row[0]) for row in fetch(using, dialect_of(connections[using]).overdue_tokens(MAX_IDS))]


def _tell(model: MessageType, given: Given) -> None:
    evidence = f"the lease of claim {given.number} of stream {given.stream} has expired"
    signals.message_rescued.send(
        model, queue=given.queue, message_ids=[row[0] for row in given.rows], evidence=evidence
    )
    error = LEASE_OVER.format(number=given.number, stream=given.stream)
    for message_id, reads, allowed in given.rows:
        if 0 < (allowed or 0) <= reads:
            signals.message_died.send(model, queue=given.queue, message_id=message_id, error=error)
