"""The statements of the queue, said once; a dialect overrides only the words that its server says differently.

Every statement that moves a message names the state it leaves, and those of a holder name its token too
(promise P5). No expression in a SET reads a column that the same SET wrote before it: MySQL evaluates
assignments from left to right, the others don't.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from django_dbqueue.statuses import DONE, NEW, RUNNING

MESSAGE_COLUMNS: Final = (
    "id",
    "queue",
    "key",
    "key_hash",
    "live",
    "status",
    "conn_id",
    "worker_id",
    "claim_token",
    "available_at",
    "due_at",
    "priority",
    "read_count",
    "max_reads",
    "crashes",
    "lease_seconds",
    "body",
    "content_type",
    "headers",
    "created_at",
    "claimed_at",
    "finished_at",
    "error",
)
ARCHIVED_COLUMNS: Final = (
    "queue",
    "key",
    "claim_token",
    "due_at",
    "priority",
    "read_count",
    "max_reads",
    "crashes",
    "body",
    "content_type",
    "headers",
    "created_at",
    "claimed_at",
    "finished_at",
    "error",
)
"""Columns that a message and its history have in common; the history adds message_id, outcome, archived_at."""

SPENT: Final = "(max_reads > 0 AND read_count >= max_reads)"
CLAIM_INDEX: Final = "dbqueue_claim"
LIVE_KEY: Final = "dbqueue_live_key"
DEAD: Final = f"(status = '{NEW}' AND available_at IS NULL)"


class Statement(NamedTuple):
    """SQL with %s placeholders, and its parameters."""

    sql: str
    params: tuple[Any, ...]


class Claim(NamedTuple):
    """What a holder holds: a message, and the token it took it by."""

    id: int
    token: int | None


class Change(NamedTuple):
    """The SET clause of a move, with its parameters."""

    sql: str
    params: tuple[Any, ...]


class Dialect:
    """Builds every statement about messages; knows no connection and keeps no state."""

    message = "django_dbqueue_message"
    archived = "django_dbqueue_archivedmessage"
    quote = '"'
    now = ""
    session_id = ""
    """SQL for the id of the database session, or '' where the caller passes a number."""
    use_claim_index = ""
    use_primary_key = ""
    """Keeps rows that are named by id from being found by a scan, which would wait for everybody's locks."""
    use_live_key = ""
    """The same for rows that are named by key."""
    skip_locked = " FOR UPDATE SKIP LOCKED"
    lock_row = " FOR UPDATE"
    updates_return_rows = True
    """UPDATE … RETURNING exists, so that one statement claims or settles and tells which rows."""
    ignore_duplicate = " ON CONFLICT (key_hash, live) DO NOTHING"
    """Ends an INSERT so that a taken key writes nothing; '' where the error is caught instead."""
    notifies = False

    # -- words --------------------------------------------------------------------------------------------

    def plus(self, moment: str, seconds: str) -> str:
        """SQL for a moment plus a number of seconds (both SQL)."""
        raise NotImplementedError  # pragma: no cover - every dialect says it

    def after(self, mark: tuple[Any, int] | None) -> tuple[str, tuple[Any, ...]]:
        """SQL for 'due, and behind the mark' as a bounded range of the claim index."""
        if mark is None:
            return f"available_at <= {self.now}", ()
        return f"(available_at, id) > (%s, %s) AND available_at <= {self.now}", mark

    def columns(self, names: Sequence[str], prefix: str = "") -> str:
        """The names as quoted column list."""
        return ", ".join(f"{prefix}{self.quote}{name}{self.quote}" for name in names)

    @staticmethod
    def holes(count: int) -> str:
        """That many placeholders."""
        return ", ".join(["%s"] * count)

    # -- claim --------------------------------------------------------------------------------------------

    def next_priority(self, queue: str, status: str, below: int) -> Statement:
        """One step of a skip scan over the priorities in use: one index entry read."""
        return Statement(
            f"SELECT priority FROM {self.message}{self.use_claim_index} WHERE queue = %s AND status = %s "
            "AND priority < %s ORDER BY priority DESC LIMIT 1",
            (queue, status, below),
        )

    def next_queue(self, after: str) -> Statement:
        """One step of a skip scan over the queues in use."""
        return Statement(
            f"SELECT queue FROM {self.message}{self.use_claim_index} WHERE queue > %s ORDER BY queue LIMIT 1",
            (after,),
        )

    def due(
        self,
        names: Sequence[str],
        queue: str,
        status: str,
        priority: int,
        limit: int,
        mark: tuple[Any, int] | None = None,
        *,
        but_token: int | None = None,
    ) -> Statement:
        """Lock the first due rows of one range of the claim index, in its own order, skipping locked ones."""
        behind, params = self.after(mark)
        if but_token is not None:
            behind, params = f"{behind} AND claim_token <> %s", (*params, but_token)
        return Statement(
            f"SELECT {self.columns(names)}, {self.now} FROM {self.message}{self.use_claim_index} "
            f"WHERE queue = %s AND status = %s AND priority = %s AND {behind} "
            f"ORDER BY available_at, id LIMIT %s{self.skip_locked}",
            (queue, status, priority, *params, limit),
        )

    def take(
        self,
        *,
        token: int,
        worker_id: int | None,
        session: int | None,
        lease: float,
        max_reads: int,
        now: Any,
    ) -> Change:
        """n → run. ``now`` is the moment that the locking SELECT gave, or None for the statement's own."""
        moment, at = (self.now, ()) if now is None else ("%s", (now,))
        owner, owner_params = (self.session_id, ()) if self.session_id else ("%s", (session,))
        return Change(
            f"status = '{RUNNING}', conn_id = {owner}, worker_id = %s, claim_token = %s, read_count = read_count + 1, "
            f"claimed_at = {moment}, available_at = {self.plus(moment, 'COALESCE(lease_seconds, %s)')}, "
            "lease_seconds = COALESCE(lease_seconds, %s), max_reads = COALESCE(max_reads, %s), finished_at = NULL",
            (*owner_params, worker_id, token, *at, *at, lease, lease, max_reads),
        )

    def claim(self, queue: str, priority: int, limit: int, mark: tuple[Any, int] | None, change: Change) -> Statement:
        """Lock, take and return in one statement (where UPDATE returns rows and rows can be locked)."""
        picked = self.due(("id", "available_at"), queue, NEW, priority, limit, mark)
        return Statement(
            f"WITH picked (id, was_due, taken_at) AS MATERIALIZED ({picked.sql}) "
            f"UPDATE {self.message} AS m SET {change.sql} FROM picked WHERE m.id = picked.id AND m.status = '{NEW}' "
            f"RETURNING {self.columns(MESSAGE_COLUMNS, 'm.')}, picked.was_due",
            picked.params + change.params,
        )

    def take_ids(self, ids: Sequence[int], change: Change) -> Statement:
        """Take rows that the same transaction has locked."""
        return Statement(
            f"UPDATE {self.message}{self.use_primary_key} SET {change.sql} "
            f"WHERE id IN ({self.holes(len(ids))}) AND status = '{NEW}'",
            (*change.params, *ids),
        )

    # -- moves --------------------------------------------------------------------------------------------

    def ack(self) -> Change:
        """run → y."""
        return Change(
            f"status = '{DONE}', available_at = {self.now}, finished_at = {self.now}, live = NULL, crashes = 0, "
            "error = NULL",
            (),
        )

    def _back(self, due: str, due_params: tuple[Any, ...], crashes: str, error: str | None) -> Change:
        """Give back, charged; to the dead when the reads are spent. ``due`` is SQL for when it is due again."""
        return Change(
            f"status = '{NEW}', conn_id = NULL, worker_id = NULL, "
            f"available_at = CASE WHEN {SPENT} THEN NULL ELSE {due} END, "
            f"due_at = CASE WHEN {SPENT} THEN due_at ELSE {due} END, "
            f"finished_at = CASE WHEN {SPENT} THEN {self.now} ELSE NULL END, "
            f"live = CASE WHEN {SPENT} THEN NULL ELSE live END, "
            f"crashes = {crashes}, error = COALESCE(%s, error)",
            (*due_params, *due_params, error),
        )

    def nack(self, delay: float | None, error: str | None) -> Change:
        """run → n after a delay in seconds, or where it stood; or dead."""
        if delay is None:
            return self._back("due_at", (), "0", error)
        return self._back(self.plus(self.now, "%s"), (delay,), "0", error)

    def cut_off(self, error: str) -> Change:
        """run → n, charged, neither failed nor a crash: its worker was told to stop."""
        return self._back("due_at", (), "crashes", error)

    def rescue(self, error: str) -> Change:
        """run → n, charged, and a crash: its owner is gone or its lease is over; or dead."""
        return self._back("due_at", (), "crashes + 1", error)

    def reject(self, error: str, *, charged: bool = True) -> Change:
        """run or n → dead."""
        uncharge = "" if charged else "read_count = read_count - 1, "
        return Change(
            f"{uncharge}status = '{NEW}', conn_id = NULL, worker_id = NULL, available_at = NULL, "
            f"finished_at = {self.now}, live = NULL, crashes = 0, error = %s",
            (error,),
        )

    def release(self) -> Change:
        """run → n, uncharged, back where it stood. A suspect stays one."""
        return Change(
            f"status = '{NEW}', conn_id = NULL, worker_id = NULL, available_at = due_at, finished_at = NULL, "
            "read_count = CASE WHEN read_count > 0 THEN read_count - 1 ELSE 0 END",
            (),
        )

    def extend(self, seconds: float | None) -> Change:
        """run → run, the lease to end that many seconds from now (None: by the row's own lease)."""
        if seconds is None:
            return Change(f"available_at = {self.plus(self.now, 'lease_seconds')}", ())
        return Change(f"available_at = {self.plus(self.now, '%s')}", (seconds,))

    def requeue(self) -> Change:
        """run or dead → n, as if new: due now, counts at zero, the key taken back."""
        return Change(
            f"status = '{NEW}', conn_id = NULL, worker_id = NULL, available_at = {self.now}, due_at = {self.now}, "
            "finished_at = NULL, read_count = 0, crashes = 0, live = CASE WHEN key_hash IS NULL THEN NULL ELSE 1 END",
            (),
        )

    def drop(self, error: str) -> Change:
        """n, run or dead → y, marked by whom."""
        return Change(
            f"status = '{DONE}', conn_id = NULL, worker_id = NULL, available_at = {self.now}, "
            f"finished_at = {self.now}, live = NULL, error = %s",
            (error,),
        )

    # -- who may be moved ---------------------------------------------------------------------------------

    def held(self, claims: Sequence[Claim]) -> Statement:
        """The fence: these rows, running, each under the token of its holder."""
        ids = [claim.id for claim in claims]
        tokens = {claim.token for claim in claims}
        if len(tokens) == 1:
            fence, params = "claim_token = %s", tuple(tokens)
        else:
            fence = f"claim_token = CASE id {'WHEN %s THEN %s ' * len(claims)}END"
            params = tuple(value for claim in claims for value in claim)
        return Statement(f"id IN ({self.holes(len(ids))}) AND status = '{RUNNING}' AND {fence}", (*ids, *params))

    def unmoved(self, claim: Claim, state: str) -> Statement:
        """The fence of an operator: this row in the state and under the token that its page showed."""
        same_token = "claim_token IS NULL" if claim.token is None else "claim_token = %s"
        params = () if claim.token is None else (claim.token,)
        return Statement(f"id = %s AND {state} AND {same_token}", (claim.id, *params))

    def move(self, change: Change, where: Statement, *, returning: bool = False) -> Statement:
        """Move the rows of a fence."""
        tail = " RETURNING id" if returning else ""
        return Statement(
            f"UPDATE {self.message}{self.use_primary_key} SET {change.sql} WHERE {where.sql}{tail}",
            change.params + where.params,
        )

    def lock(self, where: Statement, *, skip_locked: bool = False) -> Statement:
        """Lock the rows of a fence and return their ids, ascending."""
        lock = self.skip_locked if skip_locked else self.lock_row
        return Statement(
            f"SELECT id FROM {self.message}{self.use_primary_key} WHERE {where.sql} ORDER BY id{lock}",
            where.params,
        )

    def states(self, ids: Sequence[int]) -> Statement:
        """Read how these rows stand: id, status, token."""
        return Statement(
            f"SELECT id, status, claim_token FROM {self.message}{self.use_primary_key} "
            f"WHERE id IN ({self.holes(len(ids))})",
            tuple(ids),
        )

    def owned(self, queues: Sequence[str], worker_id: int) -> Statement:
        """Read what a worker holds: id, token, among the running rows of its queues."""
        return Statement(
            f"SELECT id, claim_token FROM {self.message}{self.use_claim_index} "
            f"WHERE queue IN ({self.holes(len(queues))}) AND status = '{RUNNING}' AND worker_id = %s",
            (*queues, worker_id),
        )

    # -- enqueue ------------------------------------------------------------------------------------------

    inserted = (
        "queue",
        "key",
        "key_hash",
        "live",
        "body",
        "content_type",
        "headers",
        "priority",
        "max_reads",
        "lease_seconds",
        "available_at",
        "due_at",
        "created_at",
        "status",
        "read_count",
        "crashes",
    )

    def due_from_now(self, delay: float, at: Any) -> tuple[str, tuple[Any, ...]]:
        """SQL for when a message is due: never in the past, since the claim's low-water mark relies on it."""
        if at is not None:
            return self.later_of("%s", self.now), (at,)
        if delay:
            return self.plus(self.now, "%s"), (delay,)
        return self.now, ()

    def later_of(self, one: str, other: str) -> str:
        """SQL for the later of two moments."""
        return f"GREATEST({one}, {other})"

    def insert(
        self, rows: Sequence[tuple[tuple[Any, ...], float, Any]], *, returning: str = "", ignore: bool = False
    ) -> Statement:
        """Insert rows of (the first ten columns, delay, at); a taken key raises, or writes nothing (ignore)."""
        values, params = [], []
        for row, delay, at in rows:
            due, due_params = self.due_from_now(delay, at)
            values.append(f"({self.holes(len(row))}, {due}, {due}, {self.now}, '{NEW}', 0, 0)")
            params += [*row, *due_params, *due_params]
        tail = self.ignore_duplicate if ignore else ""
        if returning:
            tail += f" RETURNING {returning}"
        return Statement(
            f"INSERT INTO {self.message} ({self.columns(self.inserted)}) VALUES {', '.join(values)}{tail}",
            tuple(params),
        )

    def notify(self, queue: str) -> Statement:
        """Wake listening workers when the transaction commits (PostgreSQL)."""
        return Statement("SELECT pg_notify('django_dbqueue', %s)", (queue,))

    def live_by_hash(self, hashes: Sequence[str]) -> Statement:
        """Lock and read the live rows of these keys: the newest committed ones, whatever the isolation."""
        return Statement(
            f"SELECT {self.columns(MESSAGE_COLUMNS)} FROM {self.message}{self.use_live_key} "
            f"WHERE key_hash IN ({self.holes(len(hashes))}) AND live = 1{self.lock_row}",
            tuple(hashes),
        )

    def overwrite(self, message_id: int, row: Sequence[Any], delay: float, at: Any) -> Statement:
        """{n, run} → n with new content: body, content type, headers, priority, max_reads, lease."""
        due, due_params = self.due_from_now(delay, at)
        return Statement(
            f"UPDATE {self.message} SET body = %s, content_type = %s, headers = %s, priority = %s, max_reads = %s, "
            f"lease_seconds = %s, available_at = {due}, due_at = {due}, status = '{NEW}', conn_id = NULL, "
            "worker_id = NULL, finished_at = NULL, read_count = 0, crashes = 0, error = NULL "
            f"WHERE id = %s AND live = 1 AND status IN ('{NEW}', '{RUNNING}')",
            (*row, *due_params, *due_params, message_id),
        )

    # -- archive ------------------------------------------------------------------------------------------

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
