"""The history gets partitions, or loses them again: ordered by an operator, without a copy, and safe to be killed.

Whatever a killed run has left is settled by the next run, by ``--undo``, and by any worker (``partitioned``).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Final, Protocol, TypeVar

from django.db import Error
from django.utils.translation import gettext as _

from django_dbqueue.databases.partitioning_sql import TABLE, any_row
from django_dbqueue.exceptions import PartitioningRefused
from django_dbqueue.history import partitions
from django_dbqueue.history.partitions import Partition
from django_dbqueue.lifecycle import archive_sql
from django_dbqueue.lifecycle.archive import MUTEX
from django_dbqueue.sessions.django_session import DjangoSession

Result = TypeVar("Result")

TRIES: Final = 30
PAUSE: Final = 2.0
"""Seconds between two tries to have the table, in which those who waited behind the last one get theirs."""


class Partitioner(Protocol):
    """What one kind of server needs done."""

    def obstacles(self) -> list[str]:
        """Return what belongs to the table and would not come along."""
        ...

    def settle(self) -> None:
        """Finish or undo what a killed run has left; nothing if there is nothing."""
        ...

    def next_id(self) -> int:
        """Return the id that the next row gets at least."""
        ...

    def partition(self, uppers: Sequence[int]) -> None:
        """Make the table the first of these partitions, and create the others."""
        ...

    def undo(self, first: Partition) -> None:
        """Make the first partition the whole table again; PartitioningRefused if others have rows."""
        ...


def bounds(partitioner: Partitioner, every: int) -> list[int]:
    """Return the upper bounds of the partitions to begin with.

    The first one gets all rows that there are, and has room for at least ``every`` more.
    """
    first = (partitioner.next_id() // every + 2) * every
    return [first + every * place for place in range(1 + partitions.SPARE)]


def begin(partitioner: Partitioner, uppers: Sequence[int]) -> None:
    """Partition the history. If it raises PartitioningRefused, which says why, nothing was changed."""
    if found := partitioner.obstacles():
        raise PartitioningRefused(
            _("These belong to the history's table and would not come along: %(what)s. Drop them first.")
            % {"what": ", ".join(found)}
        )
    partitioner.partition(uppers)


def missing() -> PartitioningRefused:
    """Return the error for a history that isn't there."""
    return PartitioningRefused(_("The history's table %(table)s is missing: run migrate.") % {"table": TABLE})


def needs_copy() -> PartitioningRefused:
    """Return the error for a history that is more than its first partition."""
    return PartitioningRefused(
        _("More than the first partition has rows: going back would have to copy them. Nothing was changed.")
    )


def patiently(work: Callable[[], Result], *, tries: int = TRIES) -> Result:
    """Do it as soon as the table can be had; PartitioningRefused if somebody holds it all the time."""
    for attempt in range(tries):
        try:
            return work()
        except Error as error:
            if not partitions.is_in_use(error):
                raise
            if attempt == tries - 1:
                raise PartitioningRefused(
                    _(
                        "Another session holds the history's table, perhaps a long read or a dump: "
                        "%(error)s. Nothing was changed. Run this again when it has ended."
                    )
                    % {"error": " ".join(str(error).split())}
                ) from error
        time.sleep(PAUSE)
    raise AssertionError("unreachable")  # pragma: no cover


@contextmanager
def archivers_held(session: DjangoSession) -> Iterator[None]:
    """Keep archivers waiting, in a session of its own: DDL would commit a transaction of this one."""
    # The first archiver makes it; what isn't there, nobody can hold
    session.outermost(partial(session.run, archive_sql.create_mutex(session.server, MUTEX)))
    other = session.connection.copy()
    held = archive_sql.lock_mutex(session.server, MUTEX, wait=True)
    try:
        with other.cursor() as cursor:
            cursor.execute(session.server.begin)
            cursor.execute(held.sql, held.params)
        yield
        with suppress(Error), other.cursor() as cursor:
            cursor.execute("ROLLBACK")  # a server learns of a closed session only some time afterwards
    finally:
        other.close()


def has_rows(session: DjangoSession, table: str) -> bool:
    """Return whether a table has any row."""
    return bool(session.fetch(any_row(table)))
