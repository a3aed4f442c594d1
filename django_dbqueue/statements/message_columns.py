"""The columns of a message, each list of them once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from django_dbqueue.envelope import Sealed

MESSAGE_COLUMNS: Final = (
    "id",
    "queue",
    "key",
    "key_hash",
    "live",
    "status",
    "conn_id",
    "worker_id",
    "claim_token",
    "available_at",
    "due_at",
    "priority",
    "read_count",
    "max_reads",
    "crashes",
    "lease_seconds",
    "body",
    "content_type",
    "headers",
    "lane",
    "group_name",
    "flow",
    "created_at",
    "claimed_at",
    "finished_at",
    "error",
)
MOMENTS: Final = frozenset({"available_at", "due_at", "created_at", "claimed_at", "finished_at"})
_OF_A_CLAIM: Final = frozenset(
    {"queue", "status", "conn_id", "worker_id", "claim_token", "priority", "claimed_at", "finished_at"}
)
CLAIMED_COLUMNS: Final = tuple(name for name in MESSAGE_COLUMNS if name not in _OF_A_CLAIM)
"""Columns that a claim must read; the others it asked for, or writes itself."""
RETURNED_COLUMNS: Final = (*CLAIMED_COLUMNS, "conn_id", "claimed_at")
"""The same where one statement takes the rows and returns what it wrote into them."""
UNARCHIVED_COLUMNS: Final = (
    "key_hash",
    "live",
    "status",
    "conn_id",
    "worker_id",
    "available_at",
    "lease_seconds",
    "lane",
)
ARCHIVED_COLUMNS: Final = tuple(name for name in MESSAGE_COLUMNS if name not in ("id", *UNARCHIVED_COLUMNS))
"""Columns that a message and its history have in common; the history adds message_id, outcome, archived_at."""
SENT_COLUMNS: Final = Sealed._fields[: Sealed._fields.index("delay")]
"""Columns that a sender sets: a sealed envelope begins with their values."""
CONTENT_COLUMNS: Final = SENT_COLUMNS[SENT_COLUMNS.index("body") :]
"""Those of them that an update replaces: all but the queue and the key."""


def columns_of(rows: Sequence[Sequence[object]]) -> dict[str, Sequence[object]]:
    """Return what an INSERT of many envelopes sets, by column; each row begins with the values of SENT_COLUMNS."""
    return dict(zip(SENT_COLUMNS, zip(*rows, strict=True), strict=False))
