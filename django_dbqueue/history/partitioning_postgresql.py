"""PostgreSQL: the history becomes the first partition of a table that takes its name, in one short transaction.

A constraint, validated beforehand while others work, shows the server that all rows belong there, so it looks at none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django_dbqueue.databases import partitioning_sql as sql
from django_dbqueue.databases.partitioning_sql import TABLE, first_table
from django_dbqueue.databases.partitions_sql import PostgreSQLPartitionsSQL, until
from django_dbqueue.databases.statement import Statement
from django_dbqueue.history import history_sql
from django_dbqueue.history.partitioning import TRIES, needs_copy, patiently
from django_dbqueue.history.partitions import Partition, alone
from django_dbqueue.sessions.django_session import DjangoSession


@dataclass(frozen=True, slots=True)
class PostgreSQLPartitioner:
    """What is to be done on this server, by one who holds the lock for the length of the session."""

    session: DjangoSession
    tries: int = TRIES
    """How often it tries to have the table."""

    def obstacles(self) -> list[str]:
        return [str(row[0]) for row in self.session.fetch(sql.postgresql_obstacles())]

    def settle(self) -> None:
        if self.session.fetch(sql.postgresql_find_check()):
            patiently(lambda: self._at_once([sql.postgresql_drop_check(TABLE)]), tries=self.tries)

    def next_id(self) -> int:
        return self._counter()[1]

    def partition(self, uppers: Sequence[int]) -> None:
        try:
            patiently(lambda: self._at_once([sql.postgresql_add_check(uppers[0])]), tries=self.tries)
            self.session.run(sql.postgresql_validate_check())
            patiently(lambda: self._swap(uppers), tries=self.tries)
        finally:
            self.settle()

    def undo(self, first: Partition) -> None:
        patiently(lambda: self._swap_back(first), tries=self.tries)

    def _at_once(self, statements: Iterable[Statement]) -> None:
        with alone(self.session):
            self._run(statements)

    def _swap(self, uppers: Sequence[int]) -> None:
        first = first_table(uppers[0])
        parts = PostgreSQLPartitionsSQL()
        with alone(self.session):
            counter, next_id, is_identity = self._counter()
            indexes = self.session.fetch(sql.postgresql_indexes())
            self._run([sql.postgresql_rename(TABLE, first)])
            self._run(sql.postgresql_rename_index(name, _within(name, uppers[0])) for name, _, _ in indexes)
            self._run(sql.postgresql_free_ids(first, counter, is_identity=is_identity))
            self._run(sql.postgresql_begin_partitioned(first))
            self._run(sql.postgresql_index_again(*index) for index in indexes)
            self._run(sql.postgresql_count_on(counter))
            self.session.fetch(sql.postgresql_set_next_id(counter, next_id))
            self._run(self._written_by(sql.postgresql_rights(first)))
            self._run(self._written_by(sql.postgresql_no_rights(first)))
            self._run([sql.postgresql_attach(first, uppers[0]), sql.postgresql_drop_check(first)])
            self._run(parts.add(uppers[0], uppers[1:], is_occupied=False))
            self._run([parts.create(None)])
            self._run(self._written_by(sql.postgresql_rights_to_count(TABLE, counter)))

    def _swap_back(self, first: Partition) -> None:
        with alone(self.session):
            assert first.upper is not None
            if self.session.fetch(history_sql.count_from(self.session.server, first.upper, 1))[0][0]:
                raise needs_copy()
            counter, next_id, _ = self._counter()
            indexes = self.session.fetch(sql.postgresql_attached_indexes(first.name))
            rights = self._written_by(sql.postgresql_rights(TABLE))
            self._run(self._written_by(sql.postgresql_no_rights(first.name)))
            self._run([sql.postgresql_detach(first.name), sql.postgresql_drop_default(first.name)])
            self._run([sql.drop_table(TABLE)])
            self._run([sql.postgresql_rename(first.name, TABLE)])
            self._run(sql.postgresql_rename_index(name, whole) for name, whole in indexes)
            self._run([sql.postgresql_identity(counter)])
            self.session.fetch(sql.postgresql_set_next_id(counter, next_id))
            self._run(rights)

    def _counter(self) -> tuple[str, int, bool]:
        """Return the sequence of the ids, the id that comes next, and whether the table has it as an identity."""
        [(schema, name, is_identity)] = self.session.fetch(sql.postgresql_counter())
        counter = f'"{schema}"."{name}"'
        return counter, int(self.session.fetch(sql.postgresql_next_id(counter))[0][0]), bool(is_identity)

    def _written_by(self, question: Statement) -> list[Statement]:
        """Return the statements that the server itself has written."""
        return [Statement(str(row[0]), ()) for row in self.session.fetch(question)]

    def _run(self, statements: Iterable[Statement]) -> None:
        for statement in statements:
            self.session.run(statement)


def _within(name: str, upper: int) -> str:
    """Return the name of an index within the first partition; PostgreSQL's names have at most 63 characters."""
    return f"{name[: 63 - len(until(upper)) - 1]}_{until(upper)}"
