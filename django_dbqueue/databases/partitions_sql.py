"""The history in partitions, each a range of ids and so a stretch of time: what stands, what is added, what is dropped.

Each partition is named after the id that it ends before; the last one takes whatever comes after all others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from django_dbqueue.databases.own_tables import Tables
from django_dbqueue.databases.statement import Statement

REST: Final = "rest"
"""The partition for ids that no other one has: an insert never fails for want of a partition."""
LOCK_SECONDS: Final = 1
"""For how long a change of partitions waits for the table; everybody who comes after it waits with it."""


class MySQLPartitionsSQL:
    """The rest is split again for each addition; that copies what it has, which is nothing as long as somebody adds."""

    is_transactional: Literal[False] = False
    """A transaction can't undo DDL: each statement commits."""
    _lock = "CONCAT('dbqueue-archive:', LEFT(SHA2(DATABASE(), 256), 40))"

    def existing(self) -> Statement:
        """Read names and upper bounds in order; NULL, NULL if the table has no partitions, no row if there is none."""
        return Statement(
            "SELECT PARTITION_NAME, NULLIF(PARTITION_DESCRIPTION, 'MAXVALUE') FROM information_schema.PARTITIONS "
            f"WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = '{Tables.archived}' "
            "ORDER BY PARTITION_ORDINAL_POSITION",
            (),
        )

    def take_lock(self) -> Statement:
        """Take the lock of those who change partitions; returns 1 (or true) if it was free."""
        return Statement(f"SELECT GET_LOCK({self._lock}, 0)", ())

    def free_lock(self) -> Statement:
        """Let the next one in."""
        return Statement(f"SELECT RELEASE_LOCK({self._lock})", ())

    def patience(self) -> Statement:
        """Let the statements that follow wait for the table no longer than ``LOCK_SECONDS``."""
        return self.set_patience(LOCK_SECONDS)

    def set_patience(self, seconds: int) -> Statement:
        """Let the session wait that long for tables."""
        return Statement(f"SET SESSION lock_wait_timeout = {seconds:d}", ())

    def own_patience(self) -> Statement:
        """Read for how long the session waits."""
        return Statement("SELECT @@SESSION.lock_wait_timeout", ())

    def add(self, lower: int, uppers: Sequence[int], *, is_occupied: bool) -> list[Statement]:  # noqa: ARG002
        """Add partitions after the last bounded one; the first takes the rows that the rest has, if it is occupied."""
        return [
            Statement(f"ALTER TABLE {Tables.archived} REORGANIZE PARTITION {REST} INTO ({self.ranges(uppers)})", ())
        ]

    def drop(self, names: Sequence[str]) -> Statement:
        """Drop partitions with their rows."""
        return Statement(f"ALTER TABLE {Tables.archived} DROP PARTITION {', '.join(f'`{each}`' for each in names)}", ())

    @staticmethod
    def ranges(uppers: Sequence[int]) -> str:
        """Return the partitions that end before these ids, and the rest."""
        bounded = [f"PARTITION until_{upper:d} VALUES LESS THAN ({upper:d})" for upper in uppers]
        return ", ".join([*bounded, f"PARTITION {REST} VALUES LESS THAN MAXVALUE"])


class PostgreSQLPartitionsSQL:
    """A rest with rows becomes the next partition as it is, without a copy."""

    is_transactional: Literal[True] = True
    lock: Final = 0x6462_7175_6575_6502
    """The bytes of "dbqueue", and this lock's number."""

    def existing(self) -> Statement:
        upper = "substring(pg_get_expr(part.relpartbound, part.oid) from 'TO [(]''?([0-9]+)''?[)]')::bigint"
        return Statement(
            f"SELECT part.relname, {upper} AS upper FROM (SELECT to_regclass('{Tables.archived}') AS oid) AS whole "
            "LEFT JOIN pg_inherits ON inhparent = whole.oid LEFT JOIN pg_class AS part ON part.oid = inhrelid "
            "WHERE whole.oid IS NOT NULL ORDER BY upper NULLS LAST",
            (),
        )

    def take_lock(self) -> Statement:
        return Statement("SELECT pg_try_advisory_xact_lock(%s)", (self.lock,))

    def patience(self) -> Statement:
        return Statement(f"SET LOCAL lock_timeout = '{LOCK_SECONDS}s'", ())

    def lock_table(self) -> Statement:
        """Wait for the table once, before anything is read that must not change."""
        return Statement(f"LOCK TABLE {Tables.archived} IN ACCESS EXCLUSIVE MODE", ())

    def add(self, lower: int, uppers: Sequence[int], *, is_occupied: bool) -> list[Statement]:
        statements = []
        if is_occupied:
            statements = [*self._close_rest(lower, uppers[0]), self.create(None)]
            lower, uppers = uppers[0], uppers[1:]
        lowers = [lower, *uppers]
        return statements + [self.create(each) for each in zip(lowers, uppers, strict=False)]

    def _close_rest(self, lower: int, upper: int) -> list[Statement]:
        table, rest, closed = Tables.archived, self.table(REST), self.table(until(upper))
        return [
            Statement(f"ALTER TABLE {table} DETACH PARTITION {rest}", ()),
            Statement(f"ALTER TABLE {rest} RENAME TO {closed}", ()),
            Statement(f"ALTER TABLE {table} ATTACH PARTITION {closed} FOR VALUES FROM ({lower:d}) TO ({upper:d})", ()),
        ]

    def create(self, bounds: tuple[int, int] | None) -> Statement:
        """Create a partition from an id to before another one; None: for the rest."""
        name = self.table(REST if bounds is None else until(bounds[1]))
        which = "DEFAULT" if bounds is None else f"FOR VALUES FROM ({bounds[0]:d}) TO ({bounds[1]:d})"
        return Statement(f"CREATE TABLE {name} PARTITION OF {Tables.archived} {which}", ())

    def drop(self, names: Sequence[str]) -> Statement:
        return Statement(f"DROP TABLE {', '.join(names)}", ())

    def table(self, name: str) -> str:
        """Return the name of a partition's table."""
        return f"{Tables.archived}_{name}"


Partitions = MySQLPartitionsSQL | PostgreSQLPartitionsSQL


def until(upper: int) -> str:
    """Return the name of the partition that ends before an id."""
    return f"until_{upper:d}"
