"""The partitions of the history: which ones stand, which may go, and which have to be made.

A partition is a range of ids, and ids grow with time. It is dropped as a whole once all of its ids were purged
(``history_sql.purged_to``): what is purged is recorded first, so that nobody begins to read there, and a drop that was
prevented is made up for later. A drop waits for the table no longer than a second, and so does everybody behind it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from django_dbqueue.databases import means
from django_dbqueue.databases.partitions_sql import REST, Partitions
from django_dbqueue.databases.session import Session
from django_dbqueue.history import history_sql
from django_dbqueue.statements import scan_sql

SPARE: Final = 2
"""Empty partitions that stand behind the one that is being filled."""
SPLIT_AT_ONCE: Final = 20_000
"""Rows of the rest that a worker moves into a partition of their own, while archivers wait; an operator moves any."""


@dataclass(frozen=True, slots=True)
class Partition:
    """The ids from ``lower`` on (None: from the first one) to before ``upper`` (None: all that come after)."""

    name: str
    lower: int | None
    upper: int | None

    def is_purged(self, purged_to: int, newest: int) -> bool:
        """Return whether all of its ids were purged, and a later partition has had a row.

        That one then knows the table's next id, which a restarted MariaDB or MySQL asks the standing partitions for.
        """
        return self.upper is not None and self.upper <= purged_to + 1 and self.upper <= max(purged_to, newest)


@dataclass(frozen=True, slots=True)
class Upkeep:
    """What is to be done: partitions to drop, and upper bounds to add after ``lower``."""

    drops: tuple[str, ...]
    lower: int
    uppers: tuple[int, ...]
    is_occupied: bool
    """Whether the rest has rows, which the first of the added ones takes."""

    def __bool__(self) -> bool:
        return bool(self.drops or self.uppers)


def existing(session: Session) -> list[Partition] | None:
    """Return the partitions in order; [] if the history is one table, or somebody else's; None if it isn't there."""
    sql = session.server.partitions
    if sql is None:
        return []
    rows = session.fetch(sql.existing())
    if not rows:
        return None
    if not str(rows[-1][0]).endswith(REST):
        return []
    uppers = [None if upper is None else int(upper) for _, upper in rows]
    lowers = [None, *uppers[:-1]]
    return [Partition(str(name), lower, upper) for (name, _), lower, upper in zip(rows, lowers, uppers, strict=True)]


def upkeep(session: Session, partitions: Sequence[Partition], *, most: int | None) -> Upkeep:
    """Return what is to be done now; a rest with more than ``most`` rows is left as it is."""
    server = session.server
    [(_, newest)] = session.fetch(scan_sql.ends(server.archived))
    [(purged,)] = session.fetch(history_sql.purged_to(server))
    newest, purged = int(newest or 0), int(purged or 0)
    drops = tuple(each.name for each in partitions if each.is_purged(purged, newest))
    lower, every = end_and_width(partitions)
    is_occupied = newest >= lower
    if is_occupied and most is not None:
        [(rows,)] = session.fetch(history_sql.count_from(server, lower, most + 1))
        if rows > most:
            return Upkeep(drops, lower, (), is_occupied)
    return Upkeep(drops, lower, next_bounds(lower, every, max(newest, purged)), is_occupied)


def end_and_width(partitions: Sequence[Partition]) -> tuple[int, int]:
    """Return where the rest begins, and how many ids the newest of the other partitions has."""
    newest = [each for each in partitions if each.upper is not None][-1]
    assert newest.upper is not None
    return newest.upper, newest.upper - (newest.lower or 0)


def next_bounds(lower: int, every: int, newest: int) -> tuple[int, ...]:
    """Return the upper bounds after ``lower`` with which ``SPARE`` partitions stand behind the newest id's."""
    spare = (lower - 1 - newest) // every  # below 0 if the rest has it
    first = lower + every * max(1, -spare)
    return tuple(range(first, lower + every * (SPARE - spare) + 1, every))


def keep(session: Session) -> None:
    """Drop what was purged and make what is missing. Not in a transaction.

    Nothing is done, and nothing raised, if somebody else is at it, the table can't be had within a second, or the
    account may not change it: the next turn does it, or another's.
    """
    try:
        change(session, most=SPLIT_AT_ONCE)
    except Exception as error:
        if not is_refused(error):
            raise


def change(session: Session, *, most: int | None) -> Upkeep:
    """Do it, or raise the database's error; return what was done: nothing if somebody else is at it."""
    partitions = existing(session)
    nothing = Upkeep((), 0, (), is_occupied=False)
    if not partitions or not upkeep(session, partitions, most=most):
        return nothing
    with alone(session) as is_alone:
        partitions = existing(session) if is_alone else None
        return _do(session, upkeep(session, partitions, most=most)) if partitions else nothing


def _do(session: Session, wanted: Upkeep) -> Upkeep:
    sql = _sql_of(session)
    if wanted.uppers:
        for statement in sql.add(wanted.lower, wanted.uppers, is_occupied=wanted.is_occupied):
            session.run(statement)
    if wanted.drops:
        session.run(sql.drop(wanted.drops))
    return wanted


@contextmanager
def alone(session: Session) -> Iterator[bool]:
    """Be the only one who changes partitions, waiting only a moment for the table; yields False if somebody else is.

    On PostgreSQL it is one transaction, in which nobody else uses the table.
    """
    sql = _sql_of(session)
    if sql.is_transactional:
        with session.transaction():
            session.run(sql.patience())
            is_free = bool(session.fetch(sql.take_lock())[0][0])
            if is_free:
                session.run(sql.lock_table())
            yield is_free
        return
    if not session.fetch(sql.take_lock())[0][0]:
        yield False
        return
    [(seconds,)] = session.fetch(sql.own_patience())
    try:
        session.run(sql.patience())
        yield True
    finally:
        session.run(sql.set_patience(seconds))
        session.fetch(sql.free_lock())


def is_refused(error: BaseException) -> bool:
    """Return whether the table could not be had in time, or the account lacks a privilege."""
    return is_in_use(error) or means(error, "denied")


def is_in_use(error: BaseException) -> bool:
    """Return whether the table could not be had in time."""
    return means(error, "passing")


def _sql_of(session: Session) -> Partitions:
    sql = session.server.partitions
    assert sql is not None  # there are some
    return sql
