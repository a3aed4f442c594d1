"""The ledger of consuming streams: who runs one, and which messages each of its numbered claims holds.

A stream's messages are ``run`` under its claim's token, and parked: their ``available_at`` is a moment that never
comes, so no rescue by lease finds them, and their ``worker_id`` is NULL, so no guardian does. The lease that counts is
the claim's, in the ledger.
"""

from __future__ import annotations

from typing import Final

from django_dbqueue.databases.server import Subject
from django_dbqueue.databases.statements import Statement

OPEN: Final = "open"
"""A claim whose batch is not yet known to be committed."""
ACKED: Final = "acked"
FREEING: Final = "freeing"
"""A claim whose messages are being released, a part at a time."""
FREED: Final = "freed"


class StreamsSQL(Subject):
    """Statements about streams: who runs one."""

    def database_name(self) -> Statement:
        """Read the name of the database, where it matters for locks."""
        return Statement(f"SELECT {self.sql.database}", ())

    def create(self, name: str, queue: str, on_expired: str, lease: float) -> Statement:
        """Create a stream's row, unless it exists."""
        return Statement(
            f"INSERT INTO {self.sql.stream} (name, queue, on_expired, lease_seconds, runner, last_number, begun_at, "
            f"beat_at) VALUES (%s, %s, %s, %s, '', 0, {self.sql.now}, {self.sql.now})"
            f"{self.sql.or_nothing(self.sql.stream, 'name')}",
            (name, queue, on_expired, lease),
        )

    def read(self, name: str, silence: float, *, lock: bool) -> Statement:
        """Read who runs a stream: queue, run, runner, session, last number, start, last beat, if that is recent."""
        return Statement(
            "SELECT queue, run, runner, conn_id, last_number, begun_at, beat_at, "
            f"beat_at > {self.sql.plus(self.sql.now, '%s')} FROM {self.sql.stream} "
            f"WHERE name = %s{self.sql.lock_row if lock else ''}",
            (-silence, name),
        )

    def lock(self, name: str, *, wait: bool = True) -> Statement:
        """Lock a stream's row and read its run and its last claim's number: the fence of the stream's runner."""
        lock = self.sql.lock_row if wait else self.sql.skip_locked
        return Statement(f"SELECT run, last_number FROM {self.sql.stream} WHERE name = %s{lock}", (name,))

    def own(self, name: str, *, run: int, runner: str, session: int | None, on_expired: str, lease: float) -> Statement:
        """Begin a run: from now on, a statement that names another run changes nothing."""
        owner, params = (self.sql.session_id, ()) if self.sql.session_id else ("%s", (session,))
        return Statement(
            f"UPDATE {self.sql.stream} SET run = %s, runner = %s, conn_id = {owner}, on_expired = %s, "
            f"lease_seconds = %s, begun_at = {self.sql.now}, beat_at = {self.sql.now} WHERE name = %s",
            (run, runner, *params, on_expired, lease, name),
        )

    def disown(self, name: str) -> Statement:
        """End the current run, if any."""
        return Statement(
            f"UPDATE {self.sql.stream} SET run = NULL, conn_id = NULL, runner = '' WHERE name = %s", (name,)
        )

    def follow_session(self, name: str, session: int | None) -> Statement:
        """Record the session of a run that has reconnected."""
        owner, params = (self.sql.session_id, ()) if self.sql.session_id else ("%s", (session,))
        return Statement(f"UPDATE {self.sql.stream} SET conn_id = {owner} WHERE name = %s", (*params, name))

    def beat(self, name: str) -> Statement:
        """Record that the run is alive."""
        return Statement(f"UPDATE {self.sql.stream} SET beat_at = {self.sql.now} WHERE name = %s", (name,))

    def delete(self, name: str) -> Statement:
        """Delete a stream; its claims are deleted first."""
        return Statement(f"DELETE FROM {self.sql.stream} WHERE name = %s", (name,))

    def all(self) -> Statement:
        """Read every stream, with what its unfinished claims hold, and whether any of their leases has expired."""
        held = f"c.state IN ('{OPEN}', '{FREEING}')"
        return Statement(
            "SELECT s.name, s.queue, s.on_expired, s.runner, s.conn_id, s.last_number, s.beat_at, "
            f"SUM(CASE WHEN {held} THEN 1 ELSE 0 END), SUM(CASE WHEN {held} THEN c.messages ELSE 0 END), "
            f"SUM(CASE WHEN {held} AND c.lease_until <= {self.sql.now} THEN 1 ELSE 0 END) "
            f"FROM {self.sql.stream} s LEFT JOIN {self.sql.stream_claim} c ON c.stream = s.name "
            "GROUP BY s.name, s.queue, s.on_expired, s.runner, s.conn_id, s.last_number, s.beat_at ORDER BY s.name",
            (),
        )

    def is_paused(self, queue: str) -> Statement:
        """Return a row if the queue is paused now."""
        return Statement(f"SELECT 1 FROM {self.sql.queue} WHERE name = %s AND {self.sql.is_paused}", (queue,))

    def number(self, name: str, number: int) -> Statement:
        """Record the number of the last claim."""
        return Statement(f"UPDATE {self.sql.stream} SET last_number = %s WHERE name = %s", (number, name))
