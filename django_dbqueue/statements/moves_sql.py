"""How a message moves: what each verb writes (``ack`` … ``drop``), and the fences that decide who may make it move.

Every statement that moves a message names the state it leaves, and a holder's statements name its token too (promise
P5). No expression in a SET reads a column that the same SET wrote before it: MySQL evaluates assignments from left to
right, the others don't.

An ack on MySQL, filled in with the words of ``databases/mysql`` and of ``statuses``::

    UPDATE django_dbqueue_message FORCE INDEX (PRIMARY)
    SET status = DONE, available_at = UTC_TIMESTAMP(6), finished_at = UTC_TIMESTAMP(6), live = NULL, crashes = 0,
        error = NULL
    WHERE id = %s AND status = RUNNING AND claim_token = %s
"""

from __future__ import annotations

from collections.abc import Sequence

from django_dbqueue.databases.indexes import Index
from django_dbqueue.databases.server import Server
from django_dbqueue.databases.statement import Change, Claim, EventRecord, InOrder, Params, Statement
from django_dbqueue.statements.events_sql import (
    CANCELS,
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
from django_dbqueue.states.spent import SPENT
from django_dbqueue.states.table import WAS_DROPPED, Stage
from django_dbqueue.statuses import DONE, NEW


def ack(server: Server) -> Change:
    """run → y."""
    return Change(
        f"status = '{DONE}', available_at = {server.now}, finished_at = {server.now}, live = NULL, "
        "crashes = 0, error = NULL",
        (),
        in_lane="done",
    )


def remove() -> Change:
    """run → nowhere: the ack of a queue that keeps no history."""
    return Change("", (), removes=True, in_lane="done")


def _back(
    server: Server, kind: str, due: str, due_params: Params, crashes: str, error: str | None, exception: str | None
) -> Change:
    """Return it, charged; to the dead letters when the reads are spent. ``due`` is SQL for when it is due again."""
    return Change(
        f"status = '{NEW}', conn_id = NULL, worker_id = NULL, "
        f"available_at = CASE WHEN {SPENT} THEN NULL ELSE {due} END, "
        f"due_at = CASE WHEN {SPENT} THEN due_at ELSE {due} END, "
        f"finished_at = CASE WHEN {SPENT} THEN {server.now} ELSE NULL END, "
        f"live = CASE WHEN {SPENT} THEN NULL ELSE live END, "
        f"crashes = {crashes}, error = COALESCE(%s, error)",
        (*due_params, *due_params, error),
        event=EventRecord(kind, error, may_die=True, exception=exception),
        in_lane="returns",
    )


def nack(server: Server, delay: float | None, error: str | None, exception: str | None = None) -> Change:
    """run → n after a delay in seconds, or at its old place; or dead. ``exception`` is the path of its class."""
    if delay is None:
        return _back(server, FAILED, "due_at", (), "0", error, exception)
    return _back(server, FAILED, server.from_now, (delay,), "0", error, exception)._replace(delay=delay)


def cut_off(server: Server, error: str) -> Change:
    """run → n, charged, but neither a failure nor a crash: its worker was told to stop."""
    return _back(server, INTERRUPTED, "due_at", (), "crashes", error, LOST)


def rescue(server: Server, error: str) -> Change:
    """run → n, charged, and a crash: its owner is gone or its lease has expired; or dead."""
    return _back(server, RESCUED, "due_at", (), "crashes + 1", error, LOST)


def reject(
    server: Server, error: str, exception: str = REJECT, *, actor: str | None = None, kind: str = REJECTED
) -> Change:
    """run or n → dead. Without the path of a class, the error is a reason that somebody gave."""
    return _to_the_dead(server, error, "", EventRecord(kind, error, actor, exception=exception))


def bury(server: Server, error: str, *, charged: bool = False) -> Change:
    """run or n → dead: it had no reads left. ``charged``: its last delivery had begun."""
    uncharge = "" if charged else "read_count = read_count - 1, "
    return _to_the_dead(server, error, uncharge, EventRecord(DIED, error, uncharges=not charged))


def _to_the_dead(server: Server, error: str, uncharge: str, event: EventRecord) -> Change:
    return Change(
        f"{uncharge}status = '{NEW}', conn_id = NULL, worker_id = NULL, available_at = NULL, "
        f"finished_at = {server.now}, live = NULL, crashes = 0, error = %s",
        (error,),
        event=event,
        in_lane="dies",
    )


def release(
    server: Server, *, actor: str | None = None, why: str | None = None, pause: float = 0.0, suspected: bool = False
) -> Change:
    """run → n, uncharged, at its old place, or after a pause in seconds if that is later. A suspect stays one.

    It is an event if an operator does it. ``suspected``: it becomes a suspect.
    """
    paused = server.from_now
    due = f"CASE WHEN due_at > {paused} THEN due_at ELSE {paused} END" if pause else "due_at"
    return Change(
        f"status = '{NEW}', conn_id = NULL, worker_id = NULL, available_at = {due}, finished_at = NULL, "
        "read_count = CASE WHEN read_count > 0 THEN read_count - 1 ELSE 0 END"
        f"{', crashes = crashes + 1' if suspected else ''}",
        (pause, pause) if pause else (),
        event=EventRecord(RELEASED, why, actor) if actor or why else None,
        in_lane="returns",
    )


def extend(server: Server, seconds: float | None) -> Change:
    """run → run, with the lease ending in ``seconds`` (None: after the row's own lease)."""
    if seconds is None:
        return Change(f"available_at = {server.plus(server.now, 'lease_seconds')}", ())
    return Change(f"available_at = {server.from_now}", (seconds,))


def requeue(server: Server, *, actor: str | None = None) -> Change:
    """run or dead → n, as if new: due now, counts at zero, the key taken back."""
    return Change(
        f"status = '{NEW}', conn_id = NULL, worker_id = NULL, available_at = {server.now}, "
        f"due_at = {server.now}, finished_at = NULL, read_count = 0, crashes = 0, "
        "live = CASE WHEN key_hash IS NULL THEN NULL ELSE 1 END",
        (),
        event=EventRecord(REQUEUED, actor=actor),
        in_lane="returns",
    )


def due_now(server: Server, *, actor: str | None = None) -> Change:
    """n → n, due now; of one that also waits for its group or its group's rate, when that lets it."""
    return Change(
        f"available_at = CASE WHEN available_at = due_at THEN {server.now} ELSE available_at END, "
        f"due_at = {server.now}",
        (),
        event=EventRecord(HASTENED, actor=actor),
    )


def is_early(server: Server) -> str:
    """Return the condition that a row's own time has not come, whatever else it waits for."""
    return f"due_at > {server.now}"


def into(
    server: Server,
    queue: str,
    key_hash: str | None,
    lane: int | None,
    group: str | None,
    *,
    is_dead: bool,
    actor: str | None,
) -> Change:
    """n or dead → n in another queue. Due when it was to be, but not in the past; a dead one as if new.

    In the record, the queue is the one that it leaves. Its lanes are the caller's.
    """
    as_new = f", finished_at = NULL, read_count = 0, crashes = 0, due_at = {server.now}" if is_dead else ""
    due = server.now if is_dead else server.later_of("due_at", server.now)
    return Change(
        f"available_at = {due}, queue = %s, key_hash = %s, lane = %s, group_name = %s, live = %s{as_new}",
        (queue, key_hash, lane, group, None if key_hash is None else 1),
        event=EventRecord(MOVED, f"→ {queue}", actor),
    )


def drop(server: Server, error: str, *, actor: str | None = None, cancels: bool = False) -> Change:
    """n, run or dead → y, marked by whom. ``cancels``: its holder is called to interrupt what it runs."""
    return Change(
        f"status = '{DONE}', conn_id = NULL, worker_id = NULL, available_at = {server.now}, "
        f"finished_at = {server.now}, live = NULL, error = %s",
        (error,),
        event=EventRecord(DROPPED, error, actor, exception=CANCELS if cancels else None),
        in_lane="dropped",
    )


def held(server: Server, claims: Sequence[Claim]) -> Statement:
    """Return the fence: these rows, running, each under the token of its holder."""
    if len(claims) == 1:
        return Statement(f"id = %s AND {Stage.CLAIMED.sql} AND claim_token = %s", tuple(claims[0]))
    ids, under = server.id_in([claim.id for claim in claims]), _under_tokens(server, claims)
    return Statement(f"{ids.sql}{under.sql}", (*ids.params, *under.params))


def _under_tokens(server: Server, claims: Sequence[Claim]) -> Statement:
    token = _token_of(server, claims)
    return Statement(f" AND {Stage.CLAIMED.sql} AND claim_token = {token.sql}", token.params)


def read_body(server: Server, claim: Claim) -> Statement:
    """Read the body of what this claim still holds."""
    fence = held(server, [claim])
    return Statement(f"SELECT body FROM {server.message} WHERE {fence.sql}", fence.params)


def _token_of(server: Server, claims: Sequence[Claim]) -> Statement:
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
    named = [(server.id_in(under[token]), token) for token in others]
    whens = " ".join(f"WHEN {some.sql} THEN %s" for some, _ in named)
    params = tuple(value for some, token in named for value in (*some.params, token))
    return Statement(f"CASE {whens} ELSE %s END", (*params, last))


def move(server: Server, change: Change, where: Statement, *, returning: bool = False) -> Statement:
    """Move the rows of a fence."""
    tail = " RETURNING id" if returning else ""
    return Statement(
        f"UPDATE {server.message}{server.use[Index.IDS]} SET {change.sql} WHERE {where.sql}{tail}",
        change.params + where.params,
    )


def settle(server: Server, change: Change, claims: Sequence[Claim], *, returning: bool = False) -> Statement:
    """Move, or remove, the rows that these claims hold."""
    if not change.removes:
        return move(server, change, held(server, claims), returning=returning)
    ids = [(claim.id,) for claim in claims]
    statement = server.delete_each(server.message, ("id",), ids, such=_under_tokens(server, claims))
    return Statement(f"{statement.sql} RETURNING id", statement.params) if returning else statement


def lock(server: Server, where: Statement, *, skip_locked: bool = False) -> Statement:
    """Lock the rows of a fence and return their ids, ascending."""
    lock = server.skip_locked if skip_locked else server.lock_row
    return Statement(
        f"SELECT id FROM {server.message}{server.use[Index.IDS]} WHERE {where.sql} ORDER BY id{lock}",
        where.params,
    )


def ties(server: Server, where: Statement) -> Statement:
    """Lock the rows of a fence that are in a lane or a flow, and read what ties them to others."""
    return Statement(
        f"SELECT id, queue, lane, flow FROM {server.message}{server.use[Index.IDS]} "
        f"WHERE {where.sql} AND (lane IS NOT NULL OR flow IS NOT NULL) ORDER BY id{server.lock_row}",
        where.params,
    )


def dead_of(server: Server, ids: Sequence[int]) -> Statement:
    """Return the condition that a row is one of these, and dead."""
    named = server.id_in(ids)
    return Statement(f"{named.sql} AND {Stage.DEAD.sql}", named.params)


def states(server: Server, ids: Sequence[int]) -> Statement:
    """Read the state of these rows: id, status, and the token of the claim that set it (NULL: it was dropped)."""
    named = server.id_in(ids)
    return Statement(
        f"SELECT id, status, CASE WHEN {WAS_DROPPED} THEN NULL ELSE claim_token END "
        f"FROM {server.message}{server.use[Index.IDS]} WHERE {named.sql}",
        named.params,
    )


def owned(server: Server, queues: Sequence[str], worker_id: int) -> Statement:
    """Read what a worker holds: id, token, among the running rows of its queues; SQLite takes 500 of them."""
    # Queue by queue in index order: with stale statistics, a list of queues makes PostgreSQL read the whole table
    each = (
        f"SELECT * FROM (SELECT id, claim_token FROM {server.message}{server.use[Index.CLAIM]} WHERE queue = %s "
        f"AND {Stage.CLAIMED.sql} AND worker_id = %s ORDER BY priority, available_at) AS held"
    )
    return InOrder(
        " UNION ALL ".join([each] * len(queues)), tuple(value for queue in queues for value in (queue, worker_id))
    )
