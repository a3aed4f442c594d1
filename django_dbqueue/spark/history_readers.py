"""Who follows the history, and how far: nothing past the slowest reader is purged.

A reader's position is the last archive id that it is done with. Registering, setting back and purging all take one
mutex; so a reader that starts at an id holds all rows after it, or is told that they are gone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Final, TypeVar

from django_dbqueue.exceptions import HistoryGone, InvalidPipeline
from django_dbqueue.history import age_sql, history_sql
from django_dbqueue.history.history_sql import LAKE, READERS
from django_dbqueue.lifecycle import archive_sql
from django_dbqueue.spark.connection import Connection, to_utc
from django_dbqueue.statements import scan_sql
from django_dbqueue.streams import stream_progress_sql
from django_dbqueue.streams.stream_progress_sql import READER

Result = TypeVar("Result")

EARLIEST: Final = "earliest"
LATEST: Final = "latest"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}\Z")


@dataclass(frozen=True, slots=True)
class Reader:
    """A reader's current state; ``behind`` is how many ids it is from the newest row."""

    name: str
    position: int
    behind: int
    begun_at: datetime
    seen_at: datetime


def check_name(name: str) -> str:
    """Return a name that a stream may read under; InvalidPipeline says what it may be."""
    if _NAME.match(name) is None or name.startswith(LAKE):
        raise InvalidPipeline(
            f"The reader's name {name!r} must be 1 to 64 of A-Z a-z 0-9 _ . : -, begin with a letter or a digit, and "
            f"not with {LAKE!r}, which is reserved for lakes."
        )
    return name


def readers(connection: Connection) -> list[Reader]:
    """Return all of them, the slowest first."""
    newest = newest_id(connection)
    return [
        Reader(name, position, max(0, newest - position), to_utc(begun), to_utc(seen))
        for name, position, begun, seen in connection.fetch(history_sql.readers(connection.server))
    ]


def forget(connection: Connection, name: str) -> bool:
    """Forget a reader that will not come back; False if there is none with this name."""

    def work() -> bool:
        connection.run(stream_progress_sql.delete(connection.server, READER + name))
        return connection.run(history_sql.delete_reader(connection.server, name)) > 0

    return under_mutex(connection, work)


def begin(connection: Connection, name: str, at: str) -> int:
    """Register a reader at the first existing row, or after the last one; return the position.

    A reader registered at an earlier row holds the rows from there on until it advances.
    """

    def work() -> int:
        [(lowest, highest)] = connection.fetch(scan_sql.ends(connection.server.archived))
        gone = gone_to(connection)
        ends = (gone, gone) if lowest is None else (int(lowest) - 1, int(highest))
        start = max(ends[0] if at == EARLIEST else ends[1], purged_to(connection))  # what was purged may still be there
        _hold(connection, name, start)
        return start

    return under_mutex(connection, work)


def resume(connection: Connection, name: str, position: int) -> None:
    """Register a reader that continues after a row; HistoryGone if rows after it were purged meanwhile."""

    def work() -> None:
        require_kept(connection, name, position)
        _hold(connection, name, position)

    under_mutex(connection, work)


def join(connection: Connection, name: str, position: int) -> int:
    """Register a lake, which takes what is there after a row, or after all that was purged; return the position."""

    def work() -> int:
        start = max(position, purged_to(connection))
        _hold(connection, name, start)
        return start

    return under_mutex(connection, work)


def advance(connection: Connection, name: str, position: int) -> None:
    """Record that a reader is done with all rows up to this one; InvalidPipeline if it was forgotten."""
    moved = connection.run(history_sql.advance_reader(connection.server, name, position))
    if not moved and not connection.fetch(history_sql.reader_position(connection.server, name)):
        raise InvalidPipeline(
            f"The reader {name!r} was forgotten while it ran, so export may have purged rows that it had not read "
            "yet. Start the query again: it reports whether it can continue from its checkpoint."
        )


def require_kept(connection: Connection, name: str, position: int) -> None:
    """Raise HistoryGone if rows after this one were purged."""
    purged, aged = purged_to(connection), aged_to(connection)
    if purged > position and purged > aged:
        raise HistoryGone(
            f"The reader {name!r} should continue after archive id {position:,}, but rows up to {purged:,} were "
            "purged: it was forgotten in the meantime, or two queries use this name. The rows that it missed are in "
            "the lake. Read them there, and start with a new checkpoint and reader name."
        )
    if purged > position or (aged > position and not _is_held(connection, name, position)):
        raise HistoryGone(
            f"The reader {name!r} should continue after archive id {position:,}, but of the rows up to {aged:,} some "
            "were deleted, older than the history_retention of their queue: it was forgotten in the meantime, or two "
            "queries use this name. A lake has those that were exported. Start with a new checkpoint and reader name, "
            "at what is still there."
        )


def purged_to(connection: Connection) -> int:
    """Return the last id that was purged, or 0."""
    return int(connection.fetch(history_sql.purged_to(connection.server))[0][0] or 0)


def aged_to(connection: Connection) -> int:
    """Return the highest id that was deleted by age, or 0."""
    rows = connection.fetch(age_sql.gone_to(connection.server))
    return int(rows[0][0]) if rows else 0


def gone_to(connection: Connection) -> int:
    """Return the highest id that is gone, whatever for, or 0."""
    return max(purged_to(connection), aged_to(connection))


def newest_id(connection: Connection) -> int:
    """Return the id after which the next rows will be."""
    [(_, highest)] = connection.fetch(scan_sql.ends(connection.server.archived))
    return int(highest) if highest is not None else gone_to(connection)


def under_mutex(connection: Connection, work: Callable[[], Result]) -> Result:
    """Run a transaction while no other reader begins and no purge runs; retry while errors are transient."""
    return connection.outermost(lambda: _alone(connection, work))


def _alone(connection: Connection, work: Callable[[], Result]) -> Result:
    while True:
        with _mutex(connection) as locked:
            if locked:
                return work()
        connection.run(archive_sql.create_mutex(connection.server, READERS))


@contextmanager
def _mutex(connection: Connection) -> Iterator[bool]:
    with connection.transaction():
        yield bool(connection.fetch(archive_sql.lock_mutex(connection.server, READERS, wait=True)))


def _is_held(connection: Connection, name: str, position: int) -> bool:
    """Return whether a reader's own place has kept the rows after a position ever since it came there."""
    known = connection.fetch(history_sql.reader_position(connection.server, name))
    return bool(known) and int(known[0][0]) <= position


def _hold(connection: Connection, name: str, position: int) -> None:
    if connection.fetch(history_sql.reader_position(connection.server, name)):
        connection.run(history_sql.hold_reader(connection.server, name, position))
    else:
        connection.run(history_sql.insert_reader(connection.server, name, position))
