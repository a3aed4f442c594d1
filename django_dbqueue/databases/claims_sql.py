"""The claim's statements, and those of a rescue, which has the same shape."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from django_dbqueue.databases.indexes import Index
from django_dbqueue.databases.server import Server, Subject
from django_dbqueue.databases.statements import (
    MOMENTS,
    SAID_LEASE,
    TAKEN_COLUMNS,
    Change,
    InOrder,
    Mark,
    Statement,
)
from django_dbqueue.statuses import NEW, RUNNING


def _quoted(sql: Server, names: Sequence[str]) -> list[str]:
    return [sql.columns([name]) for name in names]


class ClaimsSQL(Subject):
    """Find, lock and take due rows, by bounded ranges of the claim index."""

    def next_priority(self, queue: str, status: str, below: int) -> Statement:
        """Take one step of a skip scan over the priorities in use: one index entry read."""
        return Statement(
            f"SELECT priority FROM {self.sql.message}{self.sql.use[Index.CLAIM]} WHERE queue = %s AND status = %s "
            "AND priority < %s ORDER BY priority DESC LIMIT 1",
            (queue, status, below),
        )

    def next_queue(self, after: str) -> Statement:
        """Take one step of a skip scan over the queues in use."""
        return Statement(
            f"SELECT queue FROM {self.sql.message}{self.sql.use[Index.CLAIM]} WHERE queue > %s ORDER BY queue LIMIT 1",
            (after,),
        )

    def due(
        self,
        names: Sequence[str],
        queue: str,
        status: str,
        priority: int,
        limit: int,
        mark: Mark | None = None,
        *,
        but_token: int | None = None,
        moments_as_text: bool = False,
        most_bytes: int | None = None,
    ) -> Statement:
        """Lock the first due rows of one range of the claim index, in its own order, skipping locked ones.

        Besides these columns it returns the clock's time. ``most_bytes``: a larger body is returned as NULL.
        """
        columns, now = self.sql.columns(names), self.sql.now
        if moments_as_text:
            columns, now = self._columns_as_text(tuple(names), most_bytes), self.sql.as_text(now)
        behind, params = self.sql.after(mark)
        if but_token is not None:
            behind, params = f"{behind} AND claim_token <> %s", (*params, but_token)
        return InOrder(
            f"SELECT {columns}, {now} FROM {self.sql.message}{self.sql.use[Index.CLAIM]} "
            f"WHERE queue = %s AND status = %s AND priority = %s AND {behind} "
            f"ORDER BY available_at, id LIMIT %s{self.sql.skip_locked}",
            (queue, status, priority, *params, limit),
        )

    @cache  # noqa: B019 - a dialect is there for good
    def _columns_as_text(self, names: tuple[str, ...], most_bytes: int | None) -> str:
        quoted = {name: self.sql.columns([name]) for name in names} | {
            "body": self._body(self.sql.columns(["body"]), most_bytes)
        }
        return ", ".join(self.sql.as_text(one) if name in MOMENTS else one for name, one in quoted.items())

    @cache  # noqa: B019 - a dialect is there for good
    def _columns_of(self, row: str, most_bytes: int | None) -> str:
        whole, body = self.sql.columns(TAKEN_COLUMNS, row), self.sql.columns(["body"], row)
        return whole.replace(body, self._body(body, most_bytes))

    def _body(self, body: str, most_bytes: int | None) -> str:
        if most_bytes is None:
            return body
        return f"CASE WHEN {self.sql.size_of(body)} <= {most_bytes:d} THEN {body} END" if most_bytes else "NULL"

    def take(
        self,
        *,
        token: int,
        worker_id: int | None,
        session: int | None,
        lease: float,
        max_reads: int,
        now: object,
        own_lease: str = SAID_LEASE,
    ) -> Change:
        """n → run. ``now`` is the moment that the locking SELECT returned, or None for the statement's own.

        ``own_lease`` is the SQL for the message's own lease, NULL for none.
        """
        moment, at = (self.sql.now, ()) if now is None else ("%s", (now,))
        owner, owner_params = (self.sql.session_id, ()) if self.sql.session_id else ("%s", (session,))
        return Change(
            f"status = '{RUNNING}', conn_id = {owner}, worker_id = %s, claim_token = %s, read_count = read_count + 1, "
            f"claimed_at = {moment}, available_at = {self.sql.plus(moment, f'COALESCE({own_lease}, %s)')}, "
            f"lease_seconds = COALESCE({own_lease}, %s), max_reads = COALESCE(max_reads, %s), finished_at = NULL",
            (*owner_params, worker_id, token, *at, *at, lease, lease, max_reads),
        )

    def claim(
        self,
        queue: str,
        priority: int,
        limit: int,
        mark: Mark | None,
        change: Change,
        *,
        most_bytes: int | None = None,
    ) -> Statement:
        """Lock, take and return in one statement (PostgreSQL). ``most_bytes``: a larger body is returned as NULL.

        The last column is when each row was due, in UTC without saying so, which the driver reads in C.

        Rows are found by their physical place, without a search. When joined by id, the picked rows were compared with
        all waiting ones if the table was small when the server last gathered statistics.
        """
        picked = self.due(("ctid", "available_at"), queue, NEW, priority, limit, mark)
        return InOrder(
            f"WITH picked (place, was_due, taken_at) AS MATERIALIZED ({picked.sql}) "
            f"UPDATE {self.sql.message} AS m SET {change.sql} FROM picked WHERE m.ctid = picked.place "
            f"RETURNING {self._columns_of('m.', most_bytes)}, picked.was_due AT TIME ZONE 'UTC' AS was_due",
            picked.params + change.params,
        )

    def take_ids(self, ids: Sequence[int], change: Change, returning: str = "") -> Statement:
        """Take rows that the same transaction has locked."""
        named = self.sql.id_in(ids)
        return Statement(
            f"UPDATE {self.sql.message}{self.sql.use[Index.IDS]} SET {change.sql} WHERE {named.sql} "
            f"AND status = '{NEW}'{returning}",
            (*change.params, *named.params),
        )

    def take_ids_and_return(
        self, ids: Sequence[int], change: Change, names: Sequence[str], most_bytes: int | None
    ) -> Statement:
        """Take rows that the same transaction has locked, and return them (PostgreSQL)."""
        columns = ", ".join(self._body(one, most_bytes) if one == '"body"' else one for one in _quoted(self.sql, names))
        return self.take_ids(ids, change, f" RETURNING {columns}")

    def parked(self, ids: Sequence[int], names: Sequence[str], most_bytes: int | None) -> Statement:
        """Lock those of these rows that wait for nothing but their turn, skipping locked ones; as ``due`` returns them.

        Not those that no ordinary claim would give out now, or that must run alone.
        """
        named = self.sql.id_in(ids)
        return Statement(
            f"SELECT {self._columns_as_text(tuple(names), most_bytes)}, {self.sql.as_text(self.sql.now)} "
            f"FROM {self.sql.message}{self.sql.use[Index.IDS]} WHERE {named.sql} AND status = '{NEW}' "
            f"AND available_at = {self.sql.parked} AND due_at <= {self.sql.now} AND crashes = 0 "
            f"AND (COALESCE(max_reads, 0) = 0 OR read_count < max_reads) ORDER BY id{self.sql.skip_locked}",
            named.params,
        )
