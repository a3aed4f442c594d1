"""A beat that is written on the primary and read on its replicas: the one honest measure of how far they are."""

from __future__ import annotations

from typing import Final

from django_dbqueue.databases.server import Subject
from django_dbqueue.databases.statements import Statement

BEAT: Final = "primary"
"""The name of the only row."""


class ReplicasSQL(Subject):
    """Statements about the beat; they need no privilege but those on the queue's tables."""

    def create_beat(self) -> Statement:
        """Create the row, unless it exists."""
        return Statement(
            f"INSERT INTO {self.sql.replica_beat} (name, at) VALUES ('{BEAT}', {self.sql.now})"
            f"{self.sql.or_nothing(self.sql.replica_beat, 'name')}",
            (),
        )

    def beat(self) -> Statement:
        """Write the primary's clock into it, which never goes back."""
        return Statement(
            f"UPDATE {self.sql.replica_beat} SET at = {self.sql.now} WHERE name = '{BEAT}' AND at < {self.sql.now}", ()
        )

    def has_beat(self, since: object) -> Statement:
        """Return a row if the beat is not older than a moment of the primary's clock."""
        return Statement(f"SELECT 1 FROM {self.sql.replica_beat} WHERE name = '{BEAT}' AND at >= %s", (since,))
