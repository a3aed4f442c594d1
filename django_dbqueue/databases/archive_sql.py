"""How finished messages leave the hot table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from django_dbqueue.databases.indexes import Index
from django_dbqueue.databases.server import Subject
from django_dbqueue.databases.statements import (
    ARCHIVED_COLUMNS,
    DEAD,
    InOrder,
    Statement,
    holes,
)
from django_dbqueue.statuses import DONE, NEW


class Behind(NamedTuple):
    """A place among done rows: the moment at which one finished, as a parameter for its column, and its id."""

    moment: str
    id: int


class ArchiveSQL(Subject):
    """The four statements of one transaction: lock the archivers' mutex, lock rows, copy, delete."""

    def lock_mutex(self, name: str, *, wait: bool) -> Statement:
        """Lock a mutex until the transaction ends; no row if it doesn't exist, or is locked and we don't wait."""
        lock = self.sql.lock_row if wait else self.sql.skip_locked
        return Statement(f"SELECT name FROM {self.sql.mutex} WHERE name = %s{lock}", (name,))

    def find_mutex(self, name: str) -> Statement:
        """Read whether a mutex exists, locked or not."""
        return Statement(f"SELECT name FROM {self.sql.mutex} WHERE name = %s", (name,))

    def create_mutex(self, name: str) -> Statement:
        """Create a mutex, unless it exists."""
        return Statement(
            f"INSERT INTO {self.sql.mutex} (name) VALUES (%s){self.sql.or_nothing(self.sql.mutex, 'name')}", (name,)
        )

    def finished(
        self, queue: str, priority: int, age: float, limit: int, *, behind: Behind | None = None, lock: bool = True
    ) -> Statement:
        """Lock done rows that finished ``age`` seconds ago or earlier, oldest first; or only read them.

        Each has its moment beside its id. ``behind`` a row of an earlier answer begin those that follow it.
        """
        after, place = "", tuple[object, ...]()
        if behind is not None:
            after, place = "AND available_at >= %s AND (available_at > %s OR id > %s) ", (behind[0], *behind)
        return InOrder(
            f"SELECT id, available_at FROM {self.sql.message}{self.sql.use[Index.CLAIM]} "
            f"WHERE queue = %s AND status = '{DONE}' AND priority = %s {after}"
            f"AND available_at <= {self.sql.plus(self.sql.now, '%s')} "
            f"ORDER BY available_at, id LIMIT %s{self.sql.skip_locked if lock else ''}",
            (queue, priority, *place, -age, limit),
        )

    def count_finished(self, queue: str, priority: int, age: float) -> Statement:
        """Count done rows that finished ``age`` seconds ago or earlier; reads one index entry per row."""
        return Statement(
            f"SELECT COUNT(*) FROM {self.sql.message}{self.sql.use[Index.CLAIM]} "
            f"WHERE queue = %s AND status = '{DONE}' AND priority = %s "
            f"AND available_at <= {self.sql.plus(self.sql.now, '%s')}",
            (queue, priority, -age),
        )

    def dead_behind(self, queue: str, priority: int, after: int, age: float, limit: int) -> Statement:
        """Read dead rows after an id, by id: each with whether it died ``age`` seconds ago or earlier.

        The claim index holds them in one range, but no index holds their time: the caller reads window by window.
        """
        return InOrder(
            f"SELECT id, finished_at <= {self.sql.plus(self.sql.now, '%s')} "
            f"FROM {self.sql.message}{self.sql.use[Index.CLAIM]} "
            f"WHERE queue = %s AND status = '{NEW}' AND priority = %s AND available_at IS NULL AND id > %s "
            f"ORDER BY {self.sql.order_of_dead} LIMIT %s",
            (-age, queue, priority, after, limit),
        )

    def lock_dead(self, ids: Sequence[int], age: float) -> Statement:
        """Lock those of the rows that are dead, and died ``age`` seconds ago or earlier."""
        return Statement(
            f"SELECT id FROM {self.sql.message}{self.sql.use[Index.IDS]} WHERE id IN ({holes(len(ids))}) "
            f"AND {DEAD} AND finished_at <= {self.sql.plus(self.sql.now, '%s')} ORDER BY id{self.sql.skip_locked}",
            (*ids, -age),
        )

    def lock_finished(self, ids: Sequence[int]) -> Statement:
        """Lock those of the rows that are done or dead."""
        return Statement(
            f"SELECT id FROM {self.sql.message}{self.sql.use[Index.IDS]} "
            f"WHERE id IN ({holes(len(ids))}) AND (status = '{DONE}' OR {DEAD}) "
            f"ORDER BY id{self.sql.skip_locked}",
            tuple(ids),
        )

    def copy_to_archive(self, ids: Sequence[int]) -> Statement:
        """Copy locked finished rows into the history, with their outcome."""
        names = self.sql.columns(ARCHIVED_COLUMNS)
        outcome = f"CASE WHEN status = '{NEW}' THEN 'dead' WHEN error IS NOT NULL THEN 'dropped' ELSE 'done' END"
        return Statement(
            f"INSERT INTO {self.sql.archived} ({names}, message_id, outcome, archived_at) "
            f"SELECT {names}, id, {outcome}, {self.sql.now} FROM {self.sql.message}{self.sql.use[Index.IDS]} "
            f"WHERE id IN ({holes(len(ids))}) ORDER BY finished_at, id",
            tuple(ids),
        )
