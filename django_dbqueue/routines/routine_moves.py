"""The SQL of each move inside a routine, by the same builders that Python runs.

So what a move writes has one source: where Python passes a parameter, a routine has a variable of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from django_dbqueue.claims import claims_sql
from django_dbqueue.databases.indexes import Index
from django_dbqueue.databases.literals import SCHEMA, literal, raw
from django_dbqueue.databases.server import Server
from django_dbqueue.databases.statement import Change, Claim, Statement, holes
from django_dbqueue.routines.routine_lanes import lanes, with_lane
from django_dbqueue.statements import enqueue_sql, events_sql, moves_sql
from django_dbqueue.statements.events_sql import COLUMNS
from django_dbqueue.states.ranges_in_use import next_priority
from django_dbqueue.states.spent import spent
from django_dbqueue.states.table import NOT_DONE, Stage, condition_of
from django_dbqueue.statuses import NEW, RUNNING

_OWN_LEASE = "lease_seconds"
"""As it is: if a message was put by SQL with 0, the next ``get`` is meant to find it again."""
_RESCUED_AT_ONCE = 100


@dataclass(frozen=True, slots=True)
class Words:
    """What a routine can't know by itself: names of tables, texts, and the settings.

    ``forbidden`` is the queue that none of them may touch. ``lease`` (seconds), ``max_reads``, ``priority``,
    ``removes`` (whether an ack removes the row), ``is_whole`` (whether all messages are one group), ``group_limit``,
    ``group_batch`` and ``holds_dead`` (whether a dead message holds its group) have the default under ``None`` and, by
    name, the queues that differ.
    """

    queues: str
    lease: Mapping[str | None, float]
    max_reads: Mapping[str | None, int]
    priority: Mapping[str | None, int]
    removes: Mapping[str | None, bool]
    is_whole: Mapping[str | None, bool]
    group_limit: Mapping[str | None, int]
    group_batch: Mapping[str | None, int]
    holds_dead: Mapping[str | None, bool]
    max_bytes: int
    notify: bool
    lease_expired: str
    spent_before: str
    forbidden: str
    schema: str = ""


def moves(server: Server, words: Words) -> dict[str, Statement]:
    """Return the statement for each placeholder that stands for one."""
    claiming = _claiming_at_once if server.returns_rows else _claiming_one_by_one
    return _settling(server, words) | claiming(server, words) | lanes(server, _row(words))


def _settling(server: Server, words: Words) -> dict[str, Statement]:
    """Return the moves of senders and holders."""
    queue, priority = raw("_queue_name"), raw("_priority")
    by_id = Statement(f"id = %s AND {NOT_DONE}", (raw("_message_id"),))
    held = moves_sql.held(server, [Claim(raw("_id"), raw("_token"))])
    ack = with_lane(server, moves_sql.ack(server))
    nack, nack_later = (with_lane(server, moves_sql.nack(server, delay, None)) for delay in (None, raw("_delay")))
    return {
        "next_priority_waiting": next_priority(server, queue, NEW, priority),
        "next_priority_running": next_priority(server, queue, RUNNING, priority),
        "insert": enqueue_sql.insert(server, _row(words), 0.0, None, returning="id" if server.returns_rows else ""),
        "delete": moves_sql.move(server, ack, by_id),
        "remove": _remove(server, words, held, "_id"),
        "remove_by_id": _remove(server, words, by_id, "_message_id"),
        "ack": moves_sql.move(server, ack, held),
        "record_nack": _record(server, nack, held),
        "nack": moves_sql.move(server, nack, held),
        "nack_later": moves_sql.move(server, nack_later, held),
        "extend": moves_sql.move(server, moves_sql.extend(server, raw("_seconds")), held),
        "extend_by_own": moves_sql.move(server, moves_sql.extend(server, None), held),
        "lock_held": moves_sql.lock(server, held),
    }


def _record(server: Server, change: Change, where: Statement) -> Statement:
    """Return the record of a move, which a routine writes before it, in the same transaction."""
    assert change.event is not None
    return events_sql.record(server, change.event, where)


def _remove(server: Server, words: Words, where: Statement, name: str) -> Statement:
    """Return the ack for queues that keep no history: the row is removed if it belongs to one of them.

    If it is in a lane it makes way first (``dbqueue_lane_moved``).
    """
    differ = [queue for queue in words.removes if queue is not None]
    default, others = words.removes[None], f"queue IN ({holes(len(differ))})"
    theirs = (f"NOT {others}" if default else others) if differ else str(default).upper()
    theirs += " AND lane IS NULL"
    if server.returns_rows:
        return Statement(f"DELETE FROM {server.message} WHERE {where.sql} AND {theirs}", (*where.params, *differ))
    return Statement(
        f"{server.delete_each(server.message, ('id',), [(0,)]).sql} WHERE {where.sql} AND {theirs}",
        (raw(f"CONCAT('[', {name}, ']')"), *where.params, *differ),
    )


def _row(words: Words) -> dict[str, object]:
    """Return what an INSERT sets: a message without key and headers, due now."""
    return {
        "queue": raw("_queue_name"),
        "body": raw("_payload"),
        "content_type": raw(f"{f'{SCHEMA}.' if words.schema else ''}dbqueue_content_type(_payload)"),
        "priority": raw(by_queue(words.priority)),
        "max_reads": raw("_max_read_cnt"),
        "lease_seconds": raw("_invisibility_time"),
    }


def _claiming_at_once(server: Server, words: Words) -> dict[str, Statement]:
    """Return the claim and the rescue where one statement locks, writes and returns rows."""
    queue, priority, token = raw("_queue_name"), raw("_priority"), raw("_token")
    take = claims_sql.take(
        server,
        token=token,
        worker_id=None,
        session=None,
        lease=raw("_lease"),
        own_lease=_OWN_LEASE,
        max_reads=raw(by_queue(words.max_reads)),
        now=None,
    )
    return {
        "claim": claims_sql.claim(server, queue, priority, raw("_how_many - cardinality(_ids)"), None, take),
        **_bury(server, words, "_row.id", spent("_row.read_count - 1", "_row.max_reads")),
        "rescue_range": _rescue_range(server, words),
    }


def _rescue_range(server: Server, words: Words) -> Statement:
    """Lock what is late, record it as it is, and move it: one statement."""
    names = ("id", "queue", "read_count", "max_reads", "claimed_at", "conn_id", "worker_id")
    late = claims_sql.due(
        server, names, raw("_queue_name"), RUNNING, raw("_priority"), _RESCUED_AT_ONCE, but_token=raw("_token")
    )
    rescue = moves_sql.rescue(server, words.lease_expired)
    assert rescue.event is not None
    facts, params = events_sql.facts(server, rescue.event)
    return Statement(
        f"WITH late ({', '.join(names)}, at) AS MATERIALIZED ({late.sql}), "
        f"told AS (INSERT INTO {server.event} ({', '.join(COLUMNS)}) SELECT {facts} FROM late AS m) "
        f"UPDATE {server.message} AS m SET {rescue.sql} FROM (SELECT id AS late_id FROM late) AS those "
        f"WHERE m.id = those.late_id AND {Stage.CLAIMED.sql} RETURNING m.id, m.lane",
        (*late.params, *params, *rescue.params),
    )


def _claiming_one_by_one(server: Server, words: Words) -> dict[str, Statement]:
    """Return the same where UPDATE returns no rows: candidates are read, locked, and each moved by primary key."""
    queue, priority, token, row = raw("_queue_name"), raw("_priority"), raw("_token"), raw("_id")
    take = claims_sql.take(
        server,
        token=token,
        worker_id=None,
        session=None,
        lease=raw("_lease"),
        own_lease=_OWN_LEASE,
        max_reads=raw("_reads_allowed"),
        now=None,
    )
    due, over = condition_of(server, "ready"), condition_of(server, "stuck")
    rescue = with_lane(server, moves_sql.rescue(server, words.lease_expired))
    is_late = Statement(f"id = %s AND {over}", (row,))
    counts = "read_count, max_reads, lease_seconds INTO _read_count, _max_reads, _lease_seconds"
    return {
        "due": _unlocked(server, claims_sql.due(server, ("id",), queue, NEW, priority, raw("_page"))),
        "try_due": _lock_by_id(server, "id INTO _id", due, server.skip_locked),
        "lock_due": _lock_by_id(server, counts, due, server.lock_row),
        "take": claims_sql.take_ids(server, [row], take),
        **_bury(server, words, "_id", spent("_read_count", "COALESCE(_max_reads, _reads_allowed)")),
        "late": _unlocked(
            server, claims_sql.due(server, ("id",), queue, RUNNING, priority, _RESCUED_AT_ONCE, but_token=token)
        ),
        "try_late": _lock_by_id(server, "id INTO _id", over, server.skip_locked),
        "record_rescue": _record(server, rescue, is_late),
        "rescue": moves_sql.move(server, rescue, is_late),
    }


def _bury(server: Server, words: Words, name: str, had_no_reads: str) -> dict[str, Statement]:
    """Return what a claim does, after taking a row, if it had no reads left, and the condition."""
    change = with_lane(server, moves_sql.bury(server, words.spent_before))
    where = Statement(f"id = %s AND {Stage.CLAIMED.sql}", (raw(name),))
    return {
        "had_no_reads": Statement(had_no_reads, ()),
        "record_bury": _record(server, change, where),
        "bury": moves_sql.move(server, change, where),
    }


def _unlocked(server: Server, statement: Statement) -> Statement:
    """Return the same query without its locks."""
    return Statement(statement.sql.removesuffix(server.skip_locked), statement.params)


def _lock_by_id(server: Server, what: str, state: str, lock: str) -> Statement:
    """Lock a candidate by its primary key if it still is one; else the routine's NOT FOUND reports that it isn't."""
    return Statement(f"SELECT {what} FROM {server.message}{server.use[Index.IDS]} WHERE id = _id AND {state}{lock}", ())


def by_queue(values: Mapping[str | None, float]) -> str:
    """Return SQL for the settings of the queue at hand."""
    cases = "".join(f" WHEN {literal(name)} THEN {value!r}" for name, value in values.items() if name is not None)
    return f"(CASE _queue_name{cases} ELSE {values[None]!r} END)" if cases else repr(values[None])
