"""Failure groups: a row for each kind of error in a queue."""

from __future__ import annotations

from collections.abc import Sequence

from django_dbqueue.databases.recording import Recording
from django_dbqueue.databases.words import Statement


class Failing(Recording):
    """Statements that find groups by their fingerprints, and create missing ones."""

    failure = "django_dbqueue_failure"
    use_event_failure = ""
    """Keeps the server from finding a group's events (below: a message's) by a scan, or by MySQL's anti-join."""
    use_event_message = ""
    returns_kept_failure = False
    """Whether an INSERT that meets the same group returns its id as the last inserted one; else it returns no row."""
    keep_failure = " ON CONFLICT (queue, fingerprint) DO NOTHING RETURNING id"

    def find_failures(self, queue: str, fingerprints: Sequence[str]) -> Statement:
        """Read the fingerprint and the id of each of these groups that exists."""
        return Statement(
            f"SELECT fingerprint, id FROM {self.failure} "
            f"WHERE queue = %s AND fingerprint IN ({self.holes(len(fingerprints))})",
            (queue, *fingerprints),
        )

    def create_failure(self, queue: str, fingerprint: str, exception: str, place: str) -> Statement:
        """Create a group, unless it exists by now."""
        return Statement(
            f"INSERT INTO {self.failure} (queue, fingerprint, exception, place) VALUES (%s, %s, %s, %s)"
            f"{self.keep_failure}",
            (queue, fingerprint, exception, place),
        )

    def forgotten_failures(self, after: int, age: float, limit: int) -> Statement:
        """Read the groups after an id, by id: each with whether it is ``age`` seconds old and has no event."""
        return Statement(
            f"SELECT f.id, f.first_at <= {self.plus(self.now, '%s')} AND (SELECT e.id FROM {self.event} AS e"
            f"{self.use_event_failure} WHERE e.failure_id = f.id LIMIT 1) IS NULL FROM {self.failure} AS f "
            "WHERE f.id > %s ORDER BY f.id LIMIT %s",
            (-age, after, limit),
        )

    def delete_failures(self, ids: Sequence[int]) -> Statement:
        """Delete groups, unless they have an event by now."""
        return Statement(
            f"DELETE FROM {self.failure} WHERE id IN ({self.holes(len(ids))}) AND (SELECT e.id FROM {self.event} AS e"
            f"{self.use_event_failure} WHERE e.failure_id = {self.failure}.id LIMIT 1) IS NULL",
            tuple(ids),
        )
