"""What tasks returned, beside the hot table: written with the ack, deleted when it has been kept long enough."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from django_dbqueue.databases.events_sql import RESULT_FORGOTTEN
from django_dbqueue.databases.indexes import Index
from django_dbqueue.databases.server import Subject
from django_dbqueue.databases.statements import Kept, Statement, holes


class ResultsSQL(Subject):
    """Statements that write, and delete, results."""

    @property
    def insert_into(self) -> str:
        """How an INSERT of results begins."""
        return f"INSERT INTO {self.sql.result} (message_id, body, content_type, expires_at, flow)"

    def insert(self, results: Sequence[tuple[int, Kept]]) -> Statement:
        """Keep what these messages returned, in one statement; the transaction that acks them runs it."""
        row = f"(%s, %s, %s, {self.sql.plus(self.sql.now, '%s')}, %s)"
        values = ((message_id, *kept) for message_id, kept in results)
        return Statement(
            f"{self.insert_into} VALUES {', '.join([row] * len(results))}"
            f"{self.sql.or_nothing(self.sql.result, 'message_id')}",
            tuple(chain.from_iterable(values)),
        )

    def packet(self) -> Statement:
        """Read how many bytes MySQL, or MariaDB, takes at once in this session."""
        return Statement("SELECT @@max_allowed_packet", ())

    def of_flow(self, flow: int, first: int, last: int) -> Statement:
        """Read the results that messages of a flow in a range of ids have left."""
        return Statement(
            f"SELECT message_id, body, content_type FROM {self.sql.result} "
            "WHERE message_id BETWEEN %s AND %s AND flow = %s",
            (first, last, flow),
        )

    def expired(self, limit: int, *, lock: bool = True) -> Statement:
        """Lock results that were kept long enough, skipping those that others have locked; or only read them."""
        return Statement(
            f"SELECT message_id FROM {self.sql.result} WHERE expires_at <= {self.sql.now} "
            f"ORDER BY expires_at LIMIT %s{self.sql.skip_locked if lock else ''}",
            (limit,),
        )

    def places(self, ids: Sequence[int]) -> Statement:
        """Read the ids and queues of these messages, of those that are still there or in the history."""
        named = self.sql.id_in(ids)
        return Statement(
            f"SELECT id, queue FROM {self.sql.message}{self.sql.use[Index.IDS]} WHERE {named.sql} UNION ALL "
            f"SELECT message_id, queue FROM {self.sql.archived} WHERE message_id IN ({holes(len(ids))})",
            (*named.params, *ids),
        )

    def note_forgotten(self, places: Sequence[tuple[int, str]]) -> Statement:
        """Record in the lives of messages, given as ids and queues, that their results are deleted."""
        row = f"(%s, %s, '{RESULT_FORGOTTEN}', {self.sql.now})"
        return Statement(
            f"INSERT INTO {self.sql.event} (message_id, queue, kind, at) VALUES {', '.join([row] * len(places))}",
            tuple(chain.from_iterable(places)),
        )

    def delete(self, ids: Sequence[int]) -> Statement:
        """Delete results that the same transaction has locked."""
        return self.sql.delete_each(self.sql.result, ("message_id",), [(each,) for each in ids])
