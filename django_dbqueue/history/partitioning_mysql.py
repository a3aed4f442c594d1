"""MySQL and MariaDB: a new table takes the history's rows as its first partition, and then its name.

No statement does both, and each commits. So the history is without a name in between, for a moment: whoever
asks for it meanwhile gets an error, and nobody can write into, or read, a history that is not all of it. Archivers wait
for their mutex. A killed run leaves the rows in one of two tables, complete; ``settle`` gives that one the name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from django.db import Error
from django.utils.translation import gettext as _

from django_dbqueue.databases import partitioning_sql as sql
from django_dbqueue.databases.partitioning_sql import NEW_TABLE, OLD_TABLE, TABLE
from django_dbqueue.databases.partitions_sql import until
from django_dbqueue.databases.statement import Statement
from django_dbqueue.exceptions import PartitioningRefused
from django_dbqueue.history import history_sql
from django_dbqueue.history.partitioning import TRIES, archivers_held, has_rows, missing, needs_copy, patiently
from django_dbqueue.history.partitions import Partition
from django_dbqueue.sessions.django_session import DjangoSession

_NEXT_ID: Final = re.compile(r"\bAUTO_INCREMENT=(\d+)")
_HAS_INSTANT_COLUMNS: Final = 1731
"""MySQL's error for tables that differ; the history's columns are those of the table that was made like it."""


@dataclass(frozen=True, slots=True)
class MySQLPartitioner:
    """What is to be done on these servers, by one who is ``partitions.alone``."""

    session: DjangoSession
    tries: int = TRIES
    """How often it tries to have the table."""

    def obstacles(self) -> list[str]:
        return [str(row[0]) for row in self.session.fetch(sql.mysql_obstacles())]

    def settle(self) -> None:
        there = self._tables()
        if TABLE not in there and OLD_TABLE in there:
            if NEW_TABLE in there and not has_rows(self.session, OLD_TABLE) and has_rows(self.session, NEW_TABLE):
                self._give_name()
            else:
                self.session.run(sql.mysql_rename(OLD_TABLE, TABLE))
            there = self._tables()
        if TABLE not in there:
            raise missing()
        for leftover in there - {TABLE}:
            if has_rows(self.session, leftover):
                raise PartitioningRefused(
                    _("The table %(table)s has rows, which nothing of this package wrote there: rename or drop it.")
                    % {"table": leftover}
                )
            self.session.run(sql.drop_table(leftover))

    def next_id(self) -> int:
        return max(self._next_id(TABLE), self._purged_to() + 1)

    def partition(self, uppers: Sequence[int]) -> None:
        self.session.run(sql.mysql_like())
        self.session.run(sql.mysql_partition(uppers))

        def exchange() -> Statement:
            if self._newest(OLD_TABLE) >= uppers[0]:  # the server believes it without looking
                raise PartitioningRefused(
                    _(
                        "More rows came in the meantime than the first partition takes. Nothing was changed. Run this "
                        "again."
                    )
                )
            return sql.mysql_exchange(NEW_TABLE, until(uppers[0]), OLD_TABLE)

        self._swap(exchange)

    def undo(self, first: Partition) -> None:
        self.session.run(sql.mysql_like())
        self.session.run(sql.mysql_unpartition())

        def exchange() -> Statement:
            if first.upper is not None and self._newest(OLD_TABLE) >= first.upper:
                raise needs_copy()
            return sql.mysql_exchange(OLD_TABLE, first.name, NEW_TABLE)

        self._swap(exchange)

    def _swap(self, exchange: Callable[[], Statement]) -> None:
        """Take the history's name away, move the rows, and give the name to the table that then has them."""
        try:
            with archivers_held(self.session):
                patiently(lambda: self.session.run(sql.mysql_rename(TABLE, OLD_TABLE)), tries=self.tries)
                self.session.run(exchange())
                self._give_name()
        except Error as error:
            if error.args and error.args[0] == _HAS_INSTANT_COLUMNS:
                raise PartitioningRefused(
                    _(
                        "The history's table has columns that a migration added without rewriting it, and MySQL "
                        "exchanges no such table (%(error)s). Nothing was changed. Rewrite it first, while the queue "
                        "works: ALTER TABLE %(table)s FORCE, ALGORITHM=INPLACE, LOCK=NONE"
                    )
                    % {"error": error.args[1], "table": TABLE}
                ) from error
            raise
        finally:
            self.settle()

    def _give_name(self) -> None:
        """Let the new table, which has the rows, count on, and be the history."""
        next_id = max(
            self._next_id(OLD_TABLE), self._next_id(NEW_TABLE), self._newest(NEW_TABLE) + 1, self._purged_to() + 1
        )
        self.session.run(sql.mysql_set_next_id(NEW_TABLE, next_id))
        patiently(lambda: self.session.run(sql.mysql_rename(NEW_TABLE, TABLE)), tries=self.tries)

    def _tables(self) -> set[str]:
        return {str(row[0]) for row in self.session.fetch(sql.mysql_tables())}

    def _next_id(self, table: str) -> int:
        found = _NEXT_ID.search(str(self.session.fetch(sql.mysql_definition(table))[0][1]))
        return int(found[1]) if found else 1

    def _newest(self, table: str) -> int:
        return int(self.session.fetch(sql.highest_id(table))[0][0] or 0)

    def _purged_to(self) -> int:
        return int(self.session.fetch(history_sql.purged_to(self.session.server))[0][0] or 0)
