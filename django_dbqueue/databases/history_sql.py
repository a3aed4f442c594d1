"""The history as a log that is followed by its ids, and exported: readers and their positions, batches, the purge.

A reader that continues from an id, and a purge up to one, takes the readers' mutex first. So a row is either protected
by a reader's position before it can be purged, or known to be purged.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from django_dbqueue.databases.indexes import Index
from django_dbqueue.databases.server import Subject
from django_dbqueue.databases.statements import Statement, holes

READERS: Final = "history readers"
"""The mutex."""
PLANNED: Final = "planned"
VERIFIED: Final = "verified"
PURGED: Final = "purged"
DROPPED: Final = "dropped"
"""A try that never got a manifest, whose ids the next try took."""
REWRITE: Final = "rewrite"
"""No batch, but files that were written to replace others of the lake."""


class HistorySQL(Subject):
    """Statements that only move positions forward, and only delete rows from the front."""

    # -- following ----------------------------------------------------------------------------------------

    def following(self, after: int, until: int, limit: int) -> Statement:
        """Read the last id and the count of the first rows after an id, up to another one."""
        return Statement(
            f"SELECT MAX(id), COUNT(*) FROM (SELECT id FROM {self.sql.archived} WHERE id > %s AND id <= %s "
            "ORDER BY id LIMIT %s) AS followed",
            (after, until, limit),
        )

    def purged_to(self) -> Statement:
        """Read up to which id rows were purged; NULL if none were."""
        return Statement(f"SELECT MAX(purged_to) FROM {self.sql.batch}", ())

    def readers(self) -> Statement:
        """Read every reader's name and position, the slowest first."""
        return Statement(f"SELECT name, position, begun_at, seen_at FROM {self.sql.reader} ORDER BY position, name", ())

    def reader_position(self, name: str) -> Statement:
        """Read a reader's position; no row if no reader has this name."""
        return Statement(f"SELECT position FROM {self.sql.reader} WHERE name = %s", (name,))

    def insert_reader(self, name: str, position: int) -> Statement:
        """Register a reader."""
        return Statement(
            f"INSERT INTO {self.sql.reader} (name, position, begun_at, seen_at) "
            f"VALUES (%s, %s, {self.sql.now}, {self.sql.now})",
            (name, position),
        )

    def hold_reader(self, name: str, position: int) -> Statement:
        """Set a reader back, to start again where rows still exist."""
        return Statement(
            f"UPDATE {self.sql.reader} SET position = %s, seen_at = {self.sql.now} WHERE name = %s AND position > %s",
            (position, name, position),
        )

    def advance_reader(self, name: str, position: int) -> Statement:
        """Record a reader's position, and that it is alive; never moves backwards."""
        return Statement(
            f"UPDATE {self.sql.reader} SET position = CASE WHEN position < %s THEN %s ELSE position END, "
            f"seen_at = {self.sql.now} WHERE name = %s",
            (position, position, name),
        )

    def delete_reader(self, name: str) -> Statement:
        """Delete a reader."""
        return Statement(f"DELETE FROM {self.sql.reader} WHERE name = %s", (name,))

    # -- erasing ------------------------------------------------------------------------------------------

    def bounds(self) -> Statement:
        """Read the lowest and the highest id; NULL if there are no rows."""
        ends = ", ".join(f"(SELECT {end}(id) FROM {self.sql.archived})" for end in ("MIN", "MAX"))
        return Statement(f"SELECT {ends}", ())

    def with_keys(self, after: int, last: int, keys: Sequence[str]) -> Statement:
        """Read id, message, queue and key of the rows of a range that have one of the keys; by the range alone."""
        return Statement(
            f"SELECT id, message_id, queue, {self.sql.columns(['key'])} FROM {self.sql.archived}"
            f"{self.sql.use[Index.PRIMARY]} WHERE id > %s AND id <= %s "
            f"AND {self.sql.columns(['key'])} IN ({holes(len(keys))})",
            (after, last, *keys),
        )

    def events_of(self, messages: Sequence[int]) -> Statement:
        """Read the ids of what is recorded of these messages."""
        # One by one: MySQL reads an index from end to end, FORCE INDEX or not, where it has all columns and the table
        # is taken for empty
        given = self.sql.values(("message_id",), [(message,) for message in messages])
        return Statement(
            f"SELECT e.id FROM {given.sql} {self.sql.join_each} {self.sql.event} AS e"
            f"{self.sql.use[Index.EVENT_MESSAGE]} ON e.message_id = given.message_id",
            given.params,
        )

    def lakes(self) -> Statement:
        """Read the names of the lakes that there are batches of."""
        return Statement(f"SELECT DISTINCT lake FROM {self.sql.batch} ORDER BY lake", ())

    # -- batches ------------------------------------------------------------------------------------------

    def moment_before(self, seconds: float) -> Statement:
        """Read the clock as of ``seconds`` ago."""
        return Statement(f"SELECT {self.sql.plus(self.sql.now, '%s')}", (-seconds,))

    def window(self, after: int, limit: int, cutoff: object) -> Statement:
        """Read, for the first rows after an id: the last id, the count, and the first one that is too young."""
        return Statement(
            "SELECT MAX(id), COUNT(*), MIN(CASE WHEN archived_at > %s THEN id END) FROM "
            f"(SELECT id, archived_at FROM {self.sql.archived} WHERE id > %s ORDER BY id LIMIT %s) AS planned",
            (cutoff, after, limit),
        )

    def count_history(self, after: int, last: int) -> Statement:
        """Count the rows of a range, and read its last id."""
        return Statement(f"SELECT MAX(id), COUNT(*) FROM {self.sql.archived} WHERE id > %s AND id <= %s", (after, last))

    def batches(self, lake: str) -> Statement:
        """Read a lake's batches by id."""
        return Statement(
            f"SELECT number, first_id, last_id, {self.sql.columns(['rows'])}, state, purged_to FROM {self.sql.batch} "
            "WHERE lake = %s ORDER BY first_id, number",
            (lake,),
        )

    def insert_batch(self, lake: str, number: int, first_id: int, last_id: int, rows: int, state: str) -> Statement:
        """Plan a batch, or a rewrite."""
        return Statement(
            f"INSERT INTO {self.sql.batch} (lake, number, first_id, last_id, {self.sql.columns(['rows'])}, state, "
            f"planned_at) VALUES (%s, %s, %s, %s, %s, %s, {self.sql.now})",
            (lake, number, first_id, last_id, rows, state),
        )

    def drop_batches(self, lake: str) -> Statement:
        """Drop what was planned but never got a manifest."""
        return Statement(
            f"UPDATE {self.sql.batch} SET state = '{DROPPED}' WHERE lake = %s AND state = '{PLANNED}'", (lake,)
        )

    def verify_batch(self, lake: str, number: int) -> Statement:
        """Record that a batch is in the lake."""
        return Statement(
            f"UPDATE {self.sql.batch} SET state = '{VERIFIED}', verified_at = {self.sql.now} WHERE lake = %s "
            "AND number = %s",
            (lake, number),
        )

    def purge_end(self, after: int, last: int, limit: int) -> Statement:
        """Read the last id of the first rows of a range; NULL if it is empty."""
        return Statement(
            f"SELECT MAX(id) FROM (SELECT id FROM {self.sql.archived} WHERE id > %s AND id <= %s ORDER BY id LIMIT %s) "
            "AS next",
            (after, last, limit),
        )

    def delete_history(self, after: int, last: int) -> Statement:
        """Delete a range of rows that the lake has."""
        return Statement(f"DELETE FROM {self.sql.archived} WHERE id > %s AND id <= %s", (after, last))

    def purge_batch(self, lake: str, number: int, purged_to: int) -> Statement:
        """Record up to which id a batch's rows are gone."""
        return Statement(
            f"UPDATE {self.sql.batch} SET purged_to = %s, "
            f"state = CASE WHEN last_id <= %s THEN '{PURGED}' ELSE state END, "
            f"purged_at = CASE WHEN last_id <= %s THEN {self.sql.now} ELSE purged_at END WHERE lake = %s "
            "AND number = %s",
            (purged_to, purged_to, purged_to, lake, number),
        )
