"""SQL terms that differ between servers, and the table's columns, defined in one place."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cache
from typing import Any, Final, NamedTuple

from django_dbqueue.statuses import NEW

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
    "created_at",
    "claimed_at",
    "finished_at",
    "error",
)
CLAIMED_COLUMNS: Final = (
    "id",
    "key",
    "key_hash",
    "live",
    "available_at",
    "due_at",
    "read_count",
    "max_reads",
    "crashes",
    "lease_seconds",
    "body",
    "content_type",
    "headers",
    "created_at",
    "error",
)
"""Columns that a claim must read; the others it asked for, or writes itself."""
MOMENTS: Final = frozenset({"available_at", "due_at", "created_at", "claimed_at", "finished_at"})
ARCHIVED_COLUMNS: Final = (
    "queue",
    "key",
    "claim_token",
    "due_at",
    "priority",
    "read_count",
    "max_reads",
    "crashes",
    "body",
    "content_type",
    "headers",
    "created_at",
    "claimed_at",
    "finished_at",
    "error",
)
"""Columns that a message and its history have in common; the history adds message_id, outcome, archived_at."""

SPENT: Final = "(max_reads > 0 AND read_count >= max_reads)"
CLAIM_INDEX: Final = "dbqueue_claim"
SPENT_BEFORE: Final = (
    "ReadsSpent: all reads were charged before this claim (the row was changed by hand); it was not delivered."
)
LIVE_KEY: Final = "dbqueue_live_key"
DEAD: Final = f"(status = '{NEW}' AND available_at IS NULL)"
SAID_LEASE: Final = "NULLIF(lease_seconds, 0)"
"""A lease of 0, which only SQL can write, means none: the lease would expire before the message starts."""


@cache
def _listed(names: tuple[str, ...], quote: str, prefix: str) -> str:
    return ", ".join(f"{prefix}{quote}{name}{quote}" for name in names)


class Statement(NamedTuple):
    """SQL with %s placeholders, and its parameters."""

    sql: str
    params: tuple[Any, ...]


class InOrder(Statement):
    """The first rows of a range in index order, an order to which ``Words.keep_order`` holds the server."""


class Claim(NamedTuple):
    """What a holder holds: a message, and the token it was taken with."""

    id: int
    token: int | None


class Event(NamedTuple):
    """What a move records in the life of each message, besides its new state."""

    kind: str
    text: str | None = None
    """The error, the evidence or the reason."""
    actor: str | None = None
    """The person who did it, if any."""
    may_die: bool = False
    """Whether it is a death instead, if the reads are spent."""
    failures: tuple[tuple[str, int], ...] = ()
    """By queue, the kind of failure that it is."""


class Change(NamedTuple):
    """The SET clause of a move, with its parameters, or the removal of the row; and the event that it is, if any."""

    sql: str
    params: tuple[Any, ...]
    removes: bool = False
    event: Event | None = None


class Words(ABC):
    """The terms in which servers differ, and the fragments that all statements are built from."""

    message = "django_dbqueue_message"
    archived = "django_dbqueue_archivedmessage"
    mutex = "django_dbqueue_mutex"
    worker = "django_dbqueue_worker"
    quote = '"'
    now = ""
    session_id = ""
    """SQL for the id of the database session, or '' where the caller passes a number."""
    use_claim_index = ""
    use_primary_key = ""
    """Keeps rows named by id from being found by a scan, which would wait for everybody's locks."""
    use_live_key = ""
    """The same for rows named by key."""
    by_no_index = ""
    """Placed before a column: it is compared, but not looked up in an index."""
    order_of_dead = "available_at, id"
    """The claim index's order where ``available_at`` is NULL, in the form the planner recognises."""
    keep_order = ""
    """Makes rows come in index order for the transaction, however few the server believes there are."""
    forget_order = ""
    """Undoes that."""
    skip_locked = " FOR UPDATE SKIP LOCKED"
    lock_row = " FOR UPDATE"
    updates_return_rows = True
    """Whether UPDATE … RETURNING exists, so that one statement claims or settles and reports which rows."""
    ignore_duplicate = " ON CONFLICT (key_hash, live) DO NOTHING"
    """Ends an INSERT so that a taken key writes nothing; '' if the error is caught instead."""
    keep_standing = " ON CONFLICT (key_hash, live) DO NOTHING"
    """The same without any error, row by row: a row whose key is taken is left out, and not counted."""
    ignore_same_name = " ON CONFLICT (name) DO NOTHING"
    """The same for a mutex."""
    notifies = False
    sorted_beyond_null = False
    """Whether the server sorts entries whose third column IS NULL by the fourth; else both must be named."""

    def clock(self) -> Statement:
        """Read the server's clock."""
        return Statement(f"SELECT {self.now}", ())

    @abstractmethod
    def plus(self, moment: str, seconds: str) -> str:
        """Return SQL for a moment plus a number of seconds (both SQL)."""

    def after(self, mark: tuple[Any, int] | None) -> tuple[str, tuple[Any, ...]]:
        """Return SQL for 'due, and after the mark' as a bounded range of the claim index."""
        if mark is None:
            return f"available_at <= {self.now}", ()
        return f"(available_at, id) > (%s, %s) AND available_at <= {self.now}", mark

    def columns(self, names: Sequence[str], prefix: str = "") -> str:
        """Return the names as a quoted column list."""
        return _listed(tuple(names), self.quote, prefix)

    def size_of(self, text: str) -> str:
        """Return SQL for the bytes of a text, without reading it if the server can."""
        return f"OCTET_LENGTH({text})"

    @staticmethod
    def holes(count: int) -> str:
        """Return that many placeholders."""
        return ", ".join(["%s"] * count)

    def id_in(self, ids: Sequence[int]) -> Statement:
        """Return the condition that a row has one of these ids."""
        return Statement(f"id IN ({self.holes(len(ids))})", tuple(ids))

    def due_from_now(self, delay: float, at: Any) -> tuple[str, tuple[Any, ...]]:
        """Return SQL for when a message is due: never in the past, since the claim's low-water mark relies on it."""
        if at is not None:
            return self.later_of("%s", self.now), (at,)
        if delay:
            return self.plus(self.now, "%s"), (delay,)
        return self.now, ()

    def joined(self, *texts: str) -> str:
        """Return SQL for the concatenation of texts."""
        return f"CONCAT({', '.join(texts)})"

    def as_text(self, moment: str) -> str:
        """Return SQL for a moment as ISO 8601 text, where the driver's own form is different and expensive."""
        return moment

    def later_of(self, one: str, other: str) -> str:
        """Return SQL for the later of two moments."""
        return f"GREATEST({one}, {other})"
