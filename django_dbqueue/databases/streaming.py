"""The ledger of consuming streams: who runs one, and which messages each of its numbered claims holds.

A stream's messages are ``run`` under its claim's token, and parked: their ``available_at`` is a moment that never
comes, so no rescue by lease finds them, and their ``worker_id`` is NULL, so no guardian does. The lease that counts is
the claim's, in the ledger.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from django_dbqueue.databases.words import SAID_LEASE, Change, InOrder, Statement, Words
from django_dbqueue.statuses import DONE, NEW, RUNNING

PARKED: Final = "9999-12-31 00:00:00.000000"
"""The due time of a message that a stream holds; a day before the end of time, so that any time zone can show it."""
OPEN: Final = "open"
"""A claim whose batch is not yet known to be committed."""
ACKED: Final = "acked"
FREEING: Final = "freeing"
"""A claim whose messages are being released, a part at a time."""
FREED: Final = "freed"


class Among(NamedTuple):
    """Messages by id: all from the first to the last, or the ids named."""

    sql: str
    params: tuple[int, ...]


class Streaming(Words):
    """The statements about streams, their claims, and the messages that those hold."""

    stream = "django_dbqueue_stream"
    stream_claim = "django_dbqueue_streamclaim"
    queue_table = "django_dbqueue_queue"
    database = "''"
    """SQL for the name of the database, where all databases of a server share named locks."""
    _deliverable = f"(status = '{RUNNING}' OR (status = '{DONE}' AND error IS NULL))"
    """What a claim holds, or has acked."""

    # -- streams ------------------------------------------------------------------------------------------

    def database_name(self) -> Statement:
        """Read the name of the database, where it matters for locks."""
        return Statement(f"SELECT {self.database}", ())

    def create_stream(self, name: str, queue: str, on_expired: str, lease: float) -> Statement:
        """Create a stream's row, unless it exists."""
        return Statement(
            f"INSERT INTO {self.stream} (name, queue, on_expired, lease_seconds, runner, last_number, begun_at, "
            f"beat_at) VALUES (%s, %s, %s, %s, '', 0, {self.now}, {self.now}){self.ignore_same_name}",
            (name, queue, on_expired, lease),
        )

    def read_stream(self, name: str, silence: float, *, lock: bool) -> Statement:
        """Read who runs a stream: queue, run, runner, session, last number, start, last beat, if that is recent."""
        return Statement(
            "SELECT queue, run, runner, conn_id, last_number, begun_at, beat_at, "
            f"beat_at > {self.plus(self.now, '%s')} FROM {self.stream} WHERE name = %s{self.lock_row if lock else ''}",
            (-silence, name),
        )

    def lock_stream(self, name: str, *, wait: bool = True) -> Statement:
        """Lock a stream's row and read its run and its last claim's number: the fence of the stream's runner."""
        lock = self.lock_row if wait else self.skip_locked
        return Statement(f"SELECT run, last_number FROM {self.stream} WHERE name = %s{lock}", (name,))

    def own_stream(
        self, name: str, *, run: int, runner: str, session: int | None, on_expired: str, lease: float
    ) -> Statement:
        """Begin a run: from now on, a statement that names another run changes nothing."""
        owner, params = (self.session_id, ()) if self.session_id else ("%s", (session,))
        return Statement(
            f"UPDATE {self.stream} SET run = %s, runner = %s, conn_id = {owner}, on_expired = %s, lease_seconds = %s, "
            f"begun_at = {self.now}, beat_at = {self.now} WHERE name = %s",
            (run, runner, *params, on_expired, lease, name),
        )

    def disown_stream(self, name: str) -> Statement:
        """End the current run, if any."""
        return Statement(f"UPDATE {self.stream} SET run = NULL, conn_id = NULL, runner = '' WHERE name = %s", (name,))

    def follow_session(self, name: str, session: int | None) -> Statement:
        """Record the session of a run that has reconnected."""
        owner, params = (self.session_id, ()) if self.session_id else ("%s", (session,))
        return Statement(f"UPDATE {self.stream} SET conn_id = {owner} WHERE name = %s", (*params, name))

    def beat_stream(self, name: str) -> Statement:
        """Record that the run is alive."""
        return Statement(f"UPDATE {self.stream} SET beat_at = {self.now} WHERE name = %s", (name,))

    def delete_stream(self, name: str) -> Statement:
        """Delete a stream; its claims are deleted first."""
        return Statement(f"DELETE FROM {self.stream} WHERE name = %s", (name,))

    def all_streams(self) -> Statement:
        """Read every stream, with what its unfinished claims hold, and whether any of their leases has expired."""
        held = f"c.state IN ('{OPEN}', '{FREEING}')"
        return Statement(
            "SELECT s.name, s.queue, s.on_expired, s.runner, s.conn_id, s.last_number, s.beat_at, "
            f"SUM(CASE WHEN {held} THEN 1 ELSE 0 END), SUM(CASE WHEN {held} THEN c.messages ELSE 0 END), "
            f"SUM(CASE WHEN {held} AND c.lease_until <= {self.now} THEN 1 ELSE 0 END) "
            f"FROM {self.stream} s LEFT JOIN {self.stream_claim} c ON c.stream = s.name "
            "GROUP BY s.name, s.queue, s.on_expired, s.runner, s.conn_id, s.last_number, s.beat_at ORDER BY s.name",
            (),
        )

    def is_paused(self, queue: str) -> Statement:
        """Return a row if the queue is paused."""
        return Statement(f"SELECT 1 FROM {self.queue_table} WHERE name = %s AND is_paused", (queue,))

    # -- claims -------------------------------------------------------------------------------------------

    def add_claim(
        self, stream: str, number: int, *, queue: str, token: int, ids: str, messages: int, attempts: int, lease: float
    ) -> Statement:
        """Enter an open claim into the ledger."""
        return Statement(
            f"INSERT INTO {self.stream_claim} (stream, number, queue, claim_token, state, ids, messages, attempts, "
            f"lease_until, claimed_at) VALUES (%s, %s, %s, %s, '{OPEN}', %s, %s, %s, {self.plus(self.now, '%s')}, "
            f"{self.now})",
            (stream, number, queue, token, ids, messages, attempts, lease),
        )

    def number_stream(self, name: str, number: int) -> Statement:
        """Record the number of the last claim."""
        return Statement(f"UPDATE {self.stream} SET last_number = %s WHERE name = %s", (number, name))

    def change_claim(self, stream: str, number: int, *, ids: str, messages: int, attempts: int) -> Statement:
        """Set what a claim holds."""
        return Statement(
            f"UPDATE {self.stream_claim} SET ids = %s, messages = %s, attempts = %s WHERE stream = %s AND number = %s",
            (ids, messages, attempts, stream, number),
        )

    def read_by(self, stream: str, number: int, run: int) -> Statement:
        """Record which run reads a claim."""
        return Statement(
            f"UPDATE {self.stream_claim} SET run = %s WHERE stream = %s AND number = %s", (run, stream, number)
        )

    def lock_claim(self, stream: str, number: int) -> Statement:
        """Lock a claim and read it: queue, token, state, ids, messages, attempts, run, whether its lease is expired."""
        return Statement(
            f"SELECT queue, claim_token, state, ids, messages, attempts, run, lease_until <= {self.now} "
            f"FROM {self.stream_claim} WHERE stream = %s AND number = %s{self.lock_row}",
            (stream, number),
        )

    def claims_between(self, stream: str, above: int, upto: int) -> Statement:
        """Read the claims of an interval of offsets: number, token, state, ids."""
        return Statement(
            f"SELECT number, claim_token, state, ids FROM {self.stream_claim} "
            "WHERE stream = %s AND number > %s AND number <= %s ORDER BY number",
            (stream, above, upto),
        )

    def open_claims(self, stream: str, *, above: int = -1, upto: int = 2**63 - 1, limit: int = 1_000) -> Statement:
        """Read the numbers of unfinished claims, and their states, in order."""
        return Statement(
            f"SELECT number, state FROM {self.stream_claim} WHERE stream = %s AND number > %s AND number <= %s "
            f"AND state IN ('{OPEN}', '{FREEING}') ORDER BY number LIMIT %s",
            (stream, above, upto, limit),
        )

    def extend_claims(self, stream: str, lease: float) -> Statement:
        """Set the leases of the open claims to end in ``lease`` seconds."""
        return Statement(
            f"UPDATE {self.stream_claim} SET lease_until = {self.plus(self.now, '%s')} "
            f"WHERE stream = %s AND state = '{OPEN}'",
            (lease, stream),
        )

    def end_claim(self, stream: str, number: int, state: str) -> Statement:
        """Record the outcome of a claim."""
        ended = "NULL" if state == FREEING else self.now
        return Statement(
            f"UPDATE {self.stream_claim} SET state = %s, ended_at = {ended} WHERE stream = %s AND number = %s",
            (state, stream, number),
        )

    def forget_claims(self, stream: str, below: int) -> Statement:
        """Delete ended claims with lower numbers."""
        return Statement(
            f"DELETE FROM {self.stream_claim} WHERE stream = %s AND number < %s AND state IN ('{ACKED}', '{FREED}')",
            (stream, below),
        )

    def given_up(self, limit: int) -> Statement:
        """Read the stream and number of claims to release: expired with on_expired=requeue, or release begun."""
        return Statement(
            f"SELECT c.stream, c.number, c.state FROM {self.stream_claim} c JOIN {self.stream} s ON s.name = c.stream "
            f"WHERE c.state = '{FREEING}' OR (c.state = '{OPEN}' AND c.lease_until <= {self.now} "
            "AND s.on_expired = 'requeue') LIMIT %s",
            (limit,),
        )

    def overdue_tokens(self, limit: int) -> Statement:
        """Read the tokens of claims that nothing keeps alive: their messages are stuck."""
        return Statement(
            f"SELECT claim_token FROM {self.stream_claim} WHERE state IN ('{OPEN}', '{FREEING}') "
            f"AND lease_until <= {self.now} LIMIT %s",
            (limit,),
        )

    # -- messages -----------------------------------------------------------------------------------------

    def due_for_stream(
        self, queue: str, priority: int, limit: int, mark: tuple[Any, int] | None, until: Any
    ) -> Statement:
        """Lock the first due rows of one range of the claim index, in its own order, skipping locked ones.

        ``until`` is a moment by the database's clock after which nothing counts as due, or None: now.
        """
        behind, params = self.after(mark)
        if until is not None:
            behind, params = f"{behind} AND available_at <= %s", (*params, until)
        return InOrder(
            f"SELECT id, available_at, read_count, max_reads FROM {self.message}{self.use_claim_index} "
            f"WHERE queue = %s AND status = '{NEW}' AND priority = %s AND {behind} "
            f"ORDER BY available_at, id LIMIT %s{self.skip_locked}",
            (queue, priority, *params, limit),
        )

    def park(self, *, token: int, session: int | None, lease: float, max_reads: int) -> Change:
        """n → run, for a stream: like ``take``, but the lease is the claim's."""
        owner, owner_params = (self.session_id, ()) if self.session_id else ("%s", (session,))
        return Change(
            f"status = '{RUNNING}', conn_id = {owner}, worker_id = NULL, claim_token = %s, "
            f"read_count = read_count + 1, claimed_at = {self.now}, available_at = '{PARKED}', "
            f"lease_seconds = COALESCE({SAID_LEASE}, %s), max_reads = COALESCE(max_reads, %s), finished_at = NULL",
            (*owner_params, token, lease, max_reads),
        )

    def charge_again(self) -> Change:
        """run → run, one more delivery."""
        return Change("read_count = read_count + 1", ())

    @staticmethod
    def between(first: int, last: int) -> Among:
        """Return all ids from the first to the last."""
        return Among("id BETWEEN %s AND %s", (first, last))

    def named(self, ids: Sequence[int]) -> Among:
        """Return these ids."""
        return Among(f"id IN ({self.holes(len(ids))})", tuple(ids))

    @staticmethod
    def behind(among: Among, message: int) -> Among:
        """Return those with higher ids."""
        return Among(f"{among.sql} AND id > %s", (*among.params, message))

    def move_due(self, change: Change, among: Among) -> Statement:
        """Move rows that wait, and that the same transaction has locked."""
        fence = self.waiting(among)
        return Statement(
            f"UPDATE {self.message}{self.use_primary_key} SET {change.sql} WHERE {fence.sql}",
            change.params + fence.params,
        )

    def move_parked(self, change: Change, among: Among, token: int) -> Statement:
        """Move what a claim still holds of these rows."""
        fence = self.held_in_claim(among, token)
        return Statement(
            f"UPDATE {self.message}{self.use_primary_key} SET {change.sql} WHERE {fence.sql}",
            change.params + fence.params,
        )

    def waiting(self, among: Among) -> Statement:
        """Return the fence of rows that wait."""
        return Statement(f"{among.sql} AND status = '{NEW}'", among.params)

    def held_in_claim(self, among: Among, token: int) -> Statement:
        """Return the fence of what a claim still holds of these rows."""
        return Statement(f"{among.sql} AND status = '{RUNNING}' AND claim_token = %s", (*among.params, token))

    def parked(self, among: Among, token: int) -> Statement:
        """Read and lock what a claim still holds of these rows: id, reads, reads allowed."""
        return Statement(
            f"SELECT id, read_count, max_reads FROM {self.message}{self.use_primary_key} WHERE {among.sql} "
            f"AND status = '{RUNNING}' AND claim_token = %s ORDER BY id{self.lock_row}",
            (*among.params, token),
        )

    def delivered(self, columns: str, among: Among, token: int) -> Statement:
        """Read what a claim holds of these rows, or has acked of them, in id order."""
        return Statement(
            f"SELECT {columns} FROM {self.message}{self.use_primary_key} WHERE {among.sql} AND claim_token = %s "
            f"AND {self._deliverable} ORDER BY id",
            (*among.params, token),
        )

    def count_delivered(self, among: Among, token: int) -> Statement:
        """Count what ``delivered`` reads."""
        return Statement(
            f"SELECT COUNT(*) FROM {self.message}{self.use_primary_key} WHERE {among.sql} AND claim_token = %s "
            f"AND {self._deliverable}",
            (*among.params, token),
        )
