"""Words of SQL that differ between servers, and what stands in the table, said once."""

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
"""Columns that whoever takes a row must read; the others he asked for, or writes himself."""
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
"""A lease of nothing, which only SQL can write, says none: the message would be over its lease before it has begun."""


@cache
def _listed(names: tuple[str, ...], quote: str, prefix: str) -> str:
    return ", ".join(f"{prefix}{quote}{name}{quote}" for name in names)


class Statement(NamedTuple):
    """SQL with %s placeholders, and its parameters."""

    sql: str
    params: tuple[Any, ...]


class InOrder(Statement):
    """The first rows of a range in the order of an index, to which ``Words.keep_order`` holds the server."""


class Claim(NamedTuple):
    """What a holder holds: a message, and the token it took it by."""

    id: int
    token: int | None


class Event(NamedTuple):
    """What a move leaves in the life of each message, besides where the message then stands."""

    kind: str
    text: str | None = None
    """The error, the evidence or the reason."""
    actor: str | None = None
    """Which person did it, where one did."""
    may_die: bool = False
    """Whether it is a death instead, where the reads are spent."""
    failures: tuple[tuple[str, int], ...] = ()
    """By queue, the kind of failure that it is."""


class Change(NamedTuple):
    """The SET clause of a move, with its parameters; or the removal of the row; and the event that it is, if any."""

    sql: str
    params: tuple[Any, ...]
    removes: bool = False
    event: Event | None = None


class Words(ABC):
    """The words that servers say differently, and the fragments that all statements are made of."""

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
    """Keeps rows that are named by id from being found by a scan, which would wait for everybody's locks."""
    use_live_key = ""
    """The same for rows that are named by key."""
    by_no_index = ""
    """Before a column: it is compared, but not looked for in an index."""
    order_of_dead = "available_at, id"
    """The claim index's order where ``available_at`` is NULL, as the planner wants to hear it."""
    keep_order = ""
    """Says, for the transaction, that rows come in an index's order, however few the server believes there are."""
    forget_order = ""
    """Takes it back."""
    skip_locked = " FOR UPDATE SKIP LOCKED"
    lock_row = " FOR UPDATE"
    updates_return_rows = True
    """UPDATE … RETURNING exists, so that one statement claims or settles and tells which rows."""
    ignore_duplicate = " ON CONFLICT (key_hash, live) DO NOTHING"
    """Ends an INSERT so that a taken key writes nothing; '' where the error is caught instead."""
    keep_standing = " ON CONFLICT (key_hash, live) DO NOTHING"
    """The same without an error anywhere, row by row: a row whose key is taken is left out, and not counted."""
    ignore_same_name = " ON CONFLICT (name) DO NOTHING"
    """The same for a mutex."""
    notifies = False
    sorted_beyond_null = False
    """Knows that of entries whose third column IS NULL an index is sorted by the fourth; else both must be named."""

    def clock(self) -> Statement:
        """Ask what the server's clock says."""
        return Statement(f"SELECT {self.now}", ())

    @abstractmethod
    def plus(self, moment: str, seconds: str) -> str:
        """SQL for a moment plus a number of seconds (both SQL)."""

    def after(self, mark: tuple[Any, int] | None) -> tuple[str, tuple[Any, ...]]:
        """SQL for 'due, and behind the mark' as a bounded range of the claim index."""
        if mark is None:
            return f"available_at <= {self.now}", ()
        return f"(available_at, id) > (%s, %s) AND available_at <= {self.now}", mark

    def columns(self, names: Sequence[str], prefix: str = "") -> str:
        """The names as quoted column list."""
        return _listed(tuple(names), self.quote, prefix)

    def size_of(self, text: str) -> str:
        """SQL for the bytes of a text, without reading it where the server can."""
        return f"OCTET_LENGTH({text})"

    @staticmethod
    def holes(count: int) -> str:
        """That many placeholders."""
        return ", ".join(["%s"] * count)

    def id_in(self, ids: Sequence[int]) -> Statement:
        """One of these ids."""
        return Statement(f"id IN ({self.holes(len(ids))})", tuple(ids))

    def due_from_now(self, delay: float, at: Any) -> tuple[str, tuple[Any, ...]]:
        """SQL for when a message is due: never in the past, since the claim's low-water mark relies on it."""
        if at is not None:
            return self.later_of("%s", self.now), (at,)
        if delay:
            return self.plus(self.now, "%s"), (delay,)
        return self.now, ()

    def joined(self, *texts: str) -> str:
        """SQL for texts one after the other."""
        return f"CONCAT({', '.join(texts)})"

    def as_text(self, moment: str) -> str:
        """SQL for a moment as ISO 8601 text, where that is not how the driver gives it and its own way is dear."""
        return moment

    def later_of(self, one: str, other: str) -> str:
        """SQL for the later of two moments."""
        return f"GREATEST({one}, {other})"
