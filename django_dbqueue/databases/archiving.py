"""How finished messages leave the hot table."""

from __future__ import annotations

from collections.abc import Sequence

from django_dbqueue.databases.words import (
    ARCHIVED_COLUMNS,
    DEAD,
    Statement,
    Words,
)
from django_dbqueue.statuses import DONE, NEW


class Archiving(Words):
    """Lock, copy, delete: one transaction's three statements."""

    def finished(self, queue: str, priority: int, age: float, limit: int) -> Statement:
        """Lock done rows that finished that many seconds ago or earlier, oldest first."""
        return Statement(
            f"SELECT id FROM {self.message}{self.use_claim_index} WHERE queue = %s AND status = '{DONE}' "
            f"AND priority = %s AND available_at <= {self.plus(self.now, '%s')} "
            f"ORDER BY available_at, id LIMIT %s{self.skip_locked}",
            (queue, priority, -age, limit),
        )

    def lock_finished(self, ids: Sequence[int]) -> Statement:
        """Lock those of the rows that are done or dead."""
        return Statement(
            f"SELECT id FROM {self.message}{self.use_primary_key} "
            f"WHERE id IN ({self.holes(len(ids))}) AND (status = '{DONE}' OR {DEAD}) "
            f"ORDER BY id{self.skip_locked}",
            tuple(ids),
        )

    def copy_to_archive(self, ids: Sequence[int]) -> Statement:
        """Copy locked finished rows into the history, with their outcome."""
        names = self.columns(ARCHIVED_COLUMNS)
        outcome = f"CASE WHEN status = '{NEW}' THEN 'dead' WHEN error IS NOT NULL THEN 'dropped' ELSE 'done' END"
        return Statement(
            f"INSERT INTO {self.archived} ({names}, message_id, outcome, archived_at) "
            f"SELECT {names}, id, {outcome}, {self.now} FROM {self.message}{self.use_primary_key} "
            f"WHERE id IN ({self.holes(len(ids))}) ORDER BY finished_at, id",
            tuple(ids),
        )

    def delete(self, ids: Sequence[int]) -> Statement:
        """Delete rows that the same transaction has locked and copied."""
        return Statement(f"DELETE FROM {self.message} WHERE id IN ({self.holes(len(ids))})", tuple(ids))
