"""What statements are made of: conditions that all servers share, and the types."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Final, Literal, NamedTuple, TypeVar

Item = TypeVar("Item")

MAX_IDS: Final = 900
"""Ids per statement: MariaDB turns lists of a thousand and more into a subquery."""
SPENT_BEFORE: Final = (
    "ReadsSpent: all reads were charged before this claim (the row was changed by hand); it was not delivered."
)
PARKED: Final = "9999-12-31 00:00:00.000000"
"""When a message is due that waits for something else than time; a day before its end, so that any zone can show it."""
OWN_LEASE: Final = "NULLIF(lease_seconds, 0)"
"""A lease of 0, which only SQL can write, means none: the lease would expire before the message starts."""

Params = tuple[Any, ...]
"""What a statement's placeholders stand for."""
Row = tuple[Any, ...]
"""A row as the driver returns it, in the order of the columns asked for; or one to be inserted."""
Mark = tuple[object, int]
"""``available_at`` and id of a row, after which a claimer reads on."""


class Statement(NamedTuple):
    """SQL with %s placeholders, and its parameters."""

    sql: str
    params: Params


class Copy(NamedTuple):
    """A ``COPY … FROM STDIN`` and its rows, PostgreSQL's fastest way in."""

    sql: str
    rows: Sequence[Row]


class InOrder(Statement):
    """The first rows of a range in index order, an order to which ``Server.keep_order`` holds the server."""


class Claim(NamedTuple):
    """What a holder holds: a message, and the token it was taken with."""

    id: int
    token: int | None


class EventRecord(NamedTuple):
    """What a move records in the life of each message, besides its new state."""

    kind: str
    text: str | None = None
    """The error, the evidence or the reason."""
    actor: str | None = None
    """The person who did it, if any."""
    may_die: bool = False
    """Whether it is a death instead, if the reads are spent."""
    uncharges: bool = False
    """Whether the move takes the last charge back: the record doesn't count it either."""
    failures: tuple[tuple[str, int], ...] = ()
    """By queue, the kind of failure that it is."""
    whole: bool = False
    """Whether the record keeps the whole text, with the traceback, and not only its head."""
    exception: str | None = None
    """The dotted path of the exception's class, if it is known; never read out of the text."""


class Kept(NamedTuple):
    """What is kept of a task's return value, in the form of the columns, and for how many seconds."""

    body: str
    content_type: str
    seconds: float
    flow: int | None = None
    """Its message's flow, if it is of one."""
    types: str | None = None


class Change(NamedTuple):
    """The SET clause of a move, with its parameters, or the removal of the row; and the event that it is, if any."""

    sql: str
    params: Params
    removes: bool = False
    event: EventRecord | None = None
    in_lane: Literal["stays", "returns", "done", "dropped", "dies"] = "stays"
    """What becomes of its place in a lane: it stays; it is back in its queue, or dead; it ran and is done; it was
    dropped, wherever it stood; it is dead."""
    delay: float | None = None
    """Seconds after which a failure is due again, if not at its old place."""

    @property
    def gives_back(self) -> bool:
        """Whether it returns what it moves as if it had not been claimed."""
        return self.in_lane == "returns" and (self.event is None or self.event.uncharges)


class LanePlace(NamedTuple):
    """A message in a lane of its queue (``lanes``)."""

    lane: int
    id: int
    queue: str


class Tie(NamedTuple):
    """What ties a message to others: the lane of its group, its flow."""

    id: int
    queue: str
    lane: int | None
    flow: int | None


def new_token() -> int:
    """Return a random 63-bit number, never 0: a claim's token, a worker's id, a stream's run."""
    return secrets.randbelow(2**63 - 1) + 1


def chunks(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Split an iterable into lists of at most ``size`` items."""
    iterator = iter(items)
    while chunk := list(islice(iterator, size)):
        yield chunk


def holes(count: int) -> str:
    """Return that many placeholders."""
    return ", ".join(["%s"] * count)
