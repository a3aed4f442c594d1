"""What the lifecycle needs of a message: the model is a layer above it."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, Protocol

from django_dbqueue.databases.statement import Change, Claim


class HeldMessage(Protocol):
    """A message as its holder, or an operator, has it in hand."""

    id: int
    queue: str
    key: str | None
    status: str
    priority: int
    body: str
    content_type: str
    headers_text: str | None
    read_count: int
    max_reads: int | None
    lease_seconds: float | None
    lane: int | None
    flow: int | None
    due_at: datetime
    claim_token: int | None
    available_at: datetime | None
    held_token: int | None
    outcome: Literal["created", "updated", "ignored"] | None
    lease_lost: bool
    settled: bool
    suspended: float | None
    in_batch: bool
    release_pause: float

    @property
    def pk(self) -> int: ...

    @property
    def claim(self) -> Claim:
        """What this object holds, or held."""
        ...

    @property
    def settlements_pending(self) -> int: ...

    def refuse_if_gone(self, verb: str) -> None:
        """Raise LeaseLost if its worker has found that this claim no longer holds it."""
        ...

    def forget(self, change: Change, *, settled: bool) -> None:
        """Drop what a change by this object moved; it is its settlement, once committed, if that is what it was."""
        ...
