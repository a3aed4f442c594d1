"""What a move writes, and the fences that decide who may make it.

Every statement that moves a message names the state it leaves, and a holder's statements name its token too (promise
P5). No expression in a SET reads a column that the same SET wrote before it: MySQL evaluates assignments from left to
right, the others don't.
"""

from __future__ import annotations

from collections.abc import Sequence

from django_dbqueue.databases.events_sql import (
    DIED,
    DROPPED,
    FAILED,
    HASTENED,
    INTERRUPTED,
    LOST,
    MOVED,
    REJECT,
    REJECTED,
    RELEASED,
    REQUEUED,
    RESCUED,
)
from django_dbqueue.databases.indexes import Index
from django_dbqueue.databases.server import Subject
from django_dbqueue.databases.statements import (
    DEAD,
    SPENT,
    Change,
    Claim,
    Event,
    Params,
    Statement,
    holes,
)
from django_dbqueue.statuses import DONE, NEW, RUNNING


class MessagesSQL(Subject):
    """SET clauses by verb, and WHERE clauses by caller."""

    def ack(self) -> Change:
        """run → y."""
        return Change(
            f"status = '{DONE}', available_at = {self.sql.now}, finished_at = {self.sql.now}, live = NULL, "
            "crashes = 0, error = NULL",
            (),
            in_lane="done",
        )

    def remove(self) -> Change:
        """run → nowhere: the ack of a queue that keeps no history."""
        return Change("", (), removes=True, in_lane="done")

    def _back(
        self, kind: str, due: str, due_params: Params, crashes: str, error: str | None, exception: str | None
    ) -> Change:
        """Return it, charged; to the dead letters when the reads are spent. ``due`` is SQL for when it is due again."""
        return Change(
            f"status = '{NEW}', conn_id = NULL, worker_id = NULL, "
            f"available_at = CASE WHEN {SPENT} THEN NULL ELSE {due} END, "
            f"due_at = CASE WHEN {SPENT} THEN due_at ELSE {due} END, "
            f"finished_at = CASE WHEN {SPENT} THEN {self.sql.now} ELSE NULL END, "
            f"live = CASE WHEN {SPENT} THEN NULL ELSE live END, "
            f"crashes = {crashes}, error = COALESCE(%s, error)",
            (*due_params, *due_params, error),
            event=Event(kind, error, may_die=True, exception=exception),
            in_lane="returns",
        )

    def nack(self, delay: float | None, error: str | None, exception: str | None = None) -> Change:
        """run → n after a delay in seconds, or at its old place; or dead. ``exception`` is the path of its class."""
        if delay is None:
            return self._back(FAILED, "due_at", (), "0", error, exception)
        return self._back(FAILED, self.sql.plus(self.sql.now, "%s"), (delay,), "0", error, exception)

    def cut_off(self, error: str) -> Change:
        """run → n, charged, but neither a failure nor a crash: its worker was told to stop."""
        return self._back(INTERRUPTED, "due_at", (), "crashes", error, LOST)

    def rescue(self, error: str) -> Change:
        """run → n, charged, and a crash: its owner is gone or its lease has expired; or dead."""
        return self._back(RESCUED, "due_at", (), "crashes + 1", error, LOST)

    def reject(self, error: str, exception: str = REJECT, *, actor: str | None = None) -> Change:
        """run or n → dead. Without the path of a class, the error is a reason that somebody gave."""
        return self._to_the_dead(error, "", Event(REJECTED, error, actor, exception=exception))

    def bury(self, error: str, *, charged: bool = False) -> Change:
        """run or n → dead: it had no reads left. ``charged``: its last delivery had begun."""
        return self._to_the_dead(error, "" if charged else "read_count = read_count - 1, ", Event(DIED, error))

    def _to_the_dead(self, error: str, uncharge: str, event: Event) -> Change:
        return Change(
            f"{uncharge}status = '{NEW}', conn_id = NULL, worker_id = NULL, available_at = NULL, "
            f"finished_at = {self.sql.now}, live = NULL, crashes = 0, error = %s",
            (error,),
            event=event,
            in_lane="dies",
        )

    def release(
        self, *, actor: str | None = None, why: str | None = None, pause: float = 0.0, suspected: bool = False
    ) -> Change:
        """run → n, uncharged, at its old place, or after a pause in seconds if that is later. A suspect stays one.

        It is an event if an operator does it. ``suspected``: it becomes a suspect.
        """
        paused = self.sql.plus(self.sql.now, "%s")
        due = f"CASE WHEN due_at > {paused} THEN due_at ELSE {paused} END" if pause else "due_at"
        return Change(
            f"status = '{NEW}', conn_id = NULL, worker_id = NULL, available_at = {due}, finished_at = NULL, "
            "read_count = CASE WHEN read_count > 0 THEN read_count - 1 ELSE 0 END"
            f"{', crashes = crashes + 1' if suspected else ''}",
            (pause, pause) if pause else (),
            event=Event(RELEASED, why, actor) if actor or why else None,
            in_lane="returns",
        )

    def extend(self, seconds: float | None) -> Change:
        """run → run, with the lease ending in ``seconds`` (None: after the row's own lease)."""
        if seconds is None:
            return Change(f"available_at = {self.sql.plus(self.sql.now, 'lease_seconds')}", ())
        return Change(f"available_at = {self.sql.plus(self.sql.now, '%s')}", (seconds,))

    def requeue(self, *, actor: str | None = None) -> Change:
        """run or dead → n, as if new: due now, counts at zero, the key taken back."""
        return Change(
            f"status = '{NEW}', conn_id = NULL, worker_id = NULL, available_at = {self.sql.now}, "
            f"due_at = {self.sql.now}, finished_at = NULL, read_count = 0, crashes = 0, "
            "live = CASE WHEN key_hash IS NULL THEN NULL ELSE 1 END",
            (),
            event=Event(REQUEUED, actor=actor),
            in_lane="returns",
        )

    def due_now(self, *, actor: str | None = None) -> Change:
        """n → n, due now; of one that also waits for its group or its group's rate, when that lets it."""
        return Change(
            f"available_at = CASE WHEN available_at = due_at THEN {self.sql.now} ELSE available_at END, "
            f"due_at = {self.sql.now}",
            (),
            event=Event(HASTENED, actor=actor),
        )

    def is_early(self) -> str:
        """Return the condition that a row's own time has not come, whatever else it waits for."""
        return f"due_at > {self.sql.now}"

    def into(
        self, queue: str, key_hash: str | None, lane: int | None, group: str | None, *, is_dead: bool, actor: str | None
    ) -> Change:
        """n or dead → n in another queue. Due when it was to be, but not in the past; a dead one as if new.

        In the record, the queue is the one that it leaves. Its lanes are the caller's.
        """
        as_new = f", finished_at = NULL, read_count = 0, crashes = 0, due_at = {self.sql.now}" if is_dead else ""
        due = self.sql.now if is_dead else self.sql.later_of("due_at", self.sql.now)
        return Change(
            f"available_at = {due}, queue = %s, key_hash = %s, lane = %s, group_name = %s, live = %s{as_new}",
            (queue, key_hash, lane, group, None if key_hash is None else 1),
            event=Event(MOVED, f"→ {queue}", actor),
        )

    def lock_place(self, where: Statement) -> Statement:
        """Lock the row of a fence, and read its key, lane and group, and whether it is dead, or parked."""
        columns = self.sql.columns(("key", "lane", "group_name"))
        return Statement(
            f"SELECT {columns}, available_at IS NULL, available_at = {self.sql.parked} FROM {self.sql.message}"
            f"{self.sql.use[Index.IDS]} WHERE {where.sql}{self.sql.lock_row}",
            where.params,
        )

    def drop(self, error: str, *, actor: str | None = None) -> Change:
        """n, run or dead → y, marked by whom."""
        return Change(
            f"status = '{DONE}', conn_id = NULL, worker_id = NULL, available_at = {self.sql.now}, "
            f"finished_at = {self.sql.now}, live = NULL, error = %s",
            (error,),
            event=Event(DROPPED, error, actor),
            in_lane="dropped",
        )

    # -- who may be moved ---------------------------------------------------------------------------------

    def held(self, claims: Sequence[Claim]) -> Statement:
        """Return the fence: these rows, running, each under the token of its holder."""
        if len(claims) == 1:
            return Statement(f"id = %s AND status = '{RUNNING}' AND claim_token = %s", tuple(claims[0]))
        ids, under = self.sql.id_in([claim.id for claim in claims]), self._under_tokens(claims)
        return Statement(f"{ids.sql}{under.sql}", (*ids.params, *under.params))

    def _under_tokens(self, claims: Sequence[Claim]) -> Statement:
        token = self._token_of(claims)
        return Statement(f" AND status = '{RUNNING}' AND claim_token = {token.sql}", token.params)

    def read_body(self, claim: Claim) -> Statement:
        """Read the body of what this claim still holds."""
        held = self.held([claim])
        return Statement(f"SELECT body FROM {self.sql.message} WHERE {held.sql}", held.params)

    def _token_of(self, claims: Sequence[Claim]) -> Statement:
        """Return SQL for a row's token, with one list of ids per token.

        A few claims took many rows, and each row is compared with each list.
        """
        under: dict[int | None, list[int]] = {}
        for message_id, token in claims:
            if (ids := under.get(token)) is None:
                ids = under[token] = []
            ids.append(message_id)
        *others, last = under
        if not others:
            return Statement("%s", (last,))
        named = [(self.sql.id_in(under[token]), token) for token in others]
        whens = " ".join(f"WHEN {some.sql} THEN %s" for some, _ in named)
        params = tuple(value for some, token in named for value in (*some.params, token))
        return Statement(f"CASE {whens} ELSE %s END", (*params, last))

    def unmoved(self, claim: Claim, state: str) -> Statement:
        """Return the fence of an operator: this row, in the state and under the token that the page showed."""
        same_token = "claim_token IS NULL" if claim.token is None else "claim_token = %s"
        params = () if claim.token is None else (claim.token,)
        return Statement(f"id = %s AND {state} AND {same_token}", (claim.id, *params))

    def move(self, change: Change, where: Statement, *, returning: bool = False) -> Statement:
        """Move the rows of a fence."""
        tail = " RETURNING id" if returning else ""
        return Statement(
            f"UPDATE {self.sql.message}{self.sql.use[Index.IDS]} SET {change.sql} WHERE {where.sql}{tail}",
            change.params + where.params,
        )

    def settle(self, change: Change, claims: Sequence[Claim], *, returning: bool = False) -> Statement:
        """Move, or remove, the rows that these claims hold."""
        if not change.removes:
            return self.move(change, self.held(claims), returning=returning)
        ids = [(claim.id,) for claim in claims]
        statement = self.sql.delete_each(self.sql.message, ("id",), ids, such=self._under_tokens(claims))
        return Statement(f"{statement.sql} RETURNING id", statement.params) if returning else statement

    def lock(self, where: Statement, *, skip_locked: bool = False) -> Statement:
        """Lock the rows of a fence and return their ids, ascending."""
        lock = self.sql.skip_locked if skip_locked else self.sql.lock_row
        return Statement(
            f"SELECT id FROM {self.sql.message}{self.sql.use[Index.IDS]} WHERE {where.sql} ORDER BY id{lock}",
            where.params,
        )

    def ties(self, where: Statement) -> Statement:
        """Lock the rows of a fence that are in a lane or a flow, and read what ties them to others."""
        return Statement(
            f"SELECT id, queue, lane, flow FROM {self.sql.message}{self.sql.use[Index.IDS]} "
            f"WHERE {where.sql} AND (lane IS NOT NULL OR flow IS NOT NULL) ORDER BY id{self.sql.lock_row}",
            where.params,
        )

    def dead_of(self, ids: Sequence[int]) -> Statement:
        """Return the condition that a row is one of these, and dead."""
        named = self.sql.id_in(ids)
        return Statement(f"{named.sql} AND {DEAD}", named.params)

    def states(self, ids: Sequence[int]) -> Statement:
        """Read the state of these rows: id, status, and the token of the claim that set it (NULL: it was dropped)."""
        named = self.sql.id_in(ids)
        return Statement(
            f"SELECT id, status, CASE WHEN status = '{DONE}' AND error IS NOT NULL THEN NULL ELSE claim_token END "
            f"FROM {self.sql.message}{self.sql.use[Index.IDS]} WHERE {named.sql}",
            named.params,
        )

    def owned(self, queues: Sequence[str], worker_id: int) -> Statement:
        """Read what a worker holds: id, token, among the running rows of its queues."""
        return Statement(
            f"SELECT id, claim_token FROM {self.sql.message}{self.sql.use[Index.CLAIM]} "
            f"WHERE queue IN ({holes(len(queues))}) AND status = '{RUNNING}' AND worker_id = %s",
            (*queues, worker_id),
        )

    def delete(self, ids: Sequence[int]) -> Statement:
        """Delete rows that the same transaction has locked and copied."""
        return self.sql.delete_each(self.sql.message, ("id",), [(each,) for each in ids])
