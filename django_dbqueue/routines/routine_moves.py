"""The SQL of each move inside a routine, by the same builders that Python runs.

So what a move writes has one source: where Python passes a parameter, a routine has a variable of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from django_dbqueue.databases.dialect import Dialect
from django_dbqueue.databases.events_sql import COLUMNS
from django_dbqueue.databases.indexes import Index
from django_dbqueue.databases.literals import SCHEMA, literal, raw
from django_dbqueue.databases.statements import Change, Claim, Statement, holes
from django_dbqueue.routines.routine_lanes import lanes, telling_lane
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
    lease_over: str
    spent_before: str
    forbidden: str
    schema: str = ""


def moves(dialect: Dialect, words: Words) -> dict[str, Statement]:
    """Return the statement for each placeholder that stands for one."""
    claiming = _claiming_at_once if dialect.sql.returns_rows else _claiming_one_by_one
    return _settling(dialect, words) | claiming(dialect, words) | lanes(dialect, _row(words))


def _settling(dialect: Dialect, words: Words) -> dict[str, Statement]:
    """Return the moves of senders and holders."""
    queue, priority = raw("_queue_name"), raw("_priority")
    by_id = Statement(f"id = %s AND status IN ('{NEW}', '{RUNNING}')", (raw("_message_id"),))
    held = dialect.messages.held([Claim(raw("_id"), raw("_token"))])
    ack = telling_lane(dialect, dialect.messages.ack())
    nack, nack_later = (telling_lane(dialect, dialect.messages.nack(delay, None)) for delay in (None, raw("_delay")))
    return {
        "next_priority_waiting": dialect.claims.next_priority(queue, NEW, priority),
        "next_priority_running": dialect.claims.next_priority(queue, RUNNING, priority),
        "insert": dialect.enqueue.insert(_row(words), 0.0, None, returning="id" if dialect.sql.returns_rows else ""),
        "delete": dialect.messages.move(ack, by_id),
        "remove": _remove(dialect, words, held, "_id"),
        "remove_by_id": _remove(dialect, words, by_id, "_message_id"),
        "ack": dialect.messages.move(ack, held),
        "record_nack": _record(dialect, nack, held),
        "nack": dialect.messages.move(nack, held),
        "nack_later": dialect.messages.move(nack_later, held),
        "extend": dialect.messages.move(dialect.messages.extend(raw("_seconds")), held),
        "extend_by_own": dialect.messages.move(dialect.messages.extend(None), held),
        "lock_held": dialect.messages.lock(held),
    }


def _record(dialect: Dialect, change: Change, where: Statement) -> Statement:
    """Return the record of a move, which a routine writes before it, in the same transaction."""
    assert change.event is not None
    return dialect.events.record(change.event, where)


def _remove(dialect: Dialect, words: Words, where: Statement, name: str) -> Statement:
    """Return the ack for queues that keep no history: the row is removed if it belongs to one of them.

    If it is in a lane it makes way first (``dbqueue_lane_moved``).
    """
    differ = [queue for queue in words.removes if queue is not None]
    default, others = words.removes[None], f"queue IN ({holes(len(differ))})"
    theirs = (f"NOT {others}" if default else others) if differ else str(default).upper()
    theirs += " AND lane IS NULL"
    if dialect.sql.returns_rows:
        return Statement(f"DELETE FROM {dialect.sql.message} WHERE {where.sql} AND {theirs}", (*where.params, *differ))
    return Statement(
        f"{dialect.messages.delete([0]).sql} WHERE {where.sql} AND {theirs}",
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


def _claiming_at_once(dialect: Dialect, words: Words) -> dict[str, Statement]:
    """Return the claim and the rescue where one statement locks, writes and returns rows."""
    queue, priority, token = raw("_queue_name"), raw("_priority"), raw("_token")
    take = dialect.claims.take(
        token=token,
        worker_id=None,
        session=None,
        lease=raw("_lease"),
        own_lease=_OWN_LEASE,
        max_reads=raw(by_queue(words.max_reads)),
        now=None,
    )
    return {
        "claim": dialect.claims.claim(queue, priority, raw("_how_many - cardinality(_ids)"), None, take),
        **_bury(dialect, words, "_row.id"),
        "rescue_range": _rescue_range(dialect, words),
    }


def _rescue_range(dialect: Dialect, words: Words) -> Statement:
    """Lock what is late, record it as it is, and move it: one statement."""
    names = ("id", "queue", "read_count", "max_reads", "claimed_at", "conn_id", "worker_id")
    late = dialect.claims.due(
        names, raw("_queue_name"), RUNNING, raw("_priority"), _RESCUED_AT_ONCE, but_token=raw("_token")
    )
    rescue = dialect.messages.rescue(words.lease_over)
    assert rescue.event is not None
    facts, params = dialect.events.facts(rescue.event)
    return Statement(
        f"WITH late ({', '.join(names)}, at) AS MATERIALIZED ({late.sql}), "
        f"told AS (INSERT INTO {dialect.sql.event} ({', '.join(COLUMNS)}) SELECT {facts} FROM late AS m) "
        f"UPDATE {dialect.sql.message} AS m SET {rescue.sql} FROM (SELECT id AS late_id FROM late) AS those "
        f"WHERE m.id = those.late_id AND m.status = '{RUNNING}' RETURNING m.id, m.lane",
        (*late.params, *params, *rescue.params),
    )


def _claiming_one_by_one(dialect: Dialect, words: Words) -> dict[str, Statement]:
    """Return the same where UPDATE returns no rows: candidates are read, locked, and each moved by primary key."""
    queue, priority, token, row = raw("_queue_name"), raw("_priority"), raw("_token"), raw("_id")
    take = dialect.claims.take(
        token=token,
        worker_id=None,
        session=None,
        lease=raw("_lease"),
        own_lease=_OWN_LEASE,
        max_reads=raw("_reads_allowed"),
        now=None,
    )
    due = f"status = '{NEW}' AND available_at <= {dialect.sql.now}"
    over = f"status = '{RUNNING}' AND available_at <= {dialect.sql.now}"
    rescue = telling_lane(dialect, dialect.messages.rescue(words.lease_over))
    is_late = Statement(f"id = %s AND {over}", (row,))
    counts = "read_count, max_reads, lease_seconds INTO _read_count, _max_reads, _lease_seconds"
    return {
        "due": _unlocked(dialect, dialect.claims.due(("id",), queue, NEW, priority, raw("_page"))),
        "try_due": _lock_by_id(dialect, "id INTO _id", due, dialect.sql.skip_locked),
        "lock_due": _lock_by_id(dialect, counts, due, dialect.sql.lock_row),
        "take": dialect.claims.take_ids([row], take),
        **_bury(dialect, words, "_id"),
        "late": _unlocked(
            dialect, dialect.claims.due(("id",), queue, RUNNING, priority, _RESCUED_AT_ONCE, but_token=token)
        ),
        "try_late": _lock_by_id(dialect, "id INTO _id", over, dialect.sql.skip_locked),
        "record_rescue": _record(dialect, rescue, is_late),
        "rescue": dialect.messages.move(rescue, is_late),
    }


def _bury(dialect: Dialect, words: Words, name: str) -> dict[str, Statement]:
    """Return what a claim does, after taking a row, if it had no reads left."""
    change = telling_lane(dialect, dialect.messages.bury(words.spent_before))
    where = Statement(f"id = %s AND status = '{RUNNING}'", (raw(name),))
    return {"record_bury": _record(dialect, change, where), "bury": dialect.messages.move(change, where)}


def _unlocked(dialect: Dialect, statement: Statement) -> Statement:
    """Return the same query without its locks."""
    return Statement(statement.sql.removesuffix(dialect.sql.skip_locked), statement.params)


def _lock_by_id(dialect: Dialect, what: str, state: str, lock: str) -> Statement:
    """Lock a candidate by its primary key if it still is one; else the routine's NOT FOUND reports that it isn't."""
    return Statement(
        f"SELECT {what} FROM {dialect.sql.message}{dialect.sql.use[Index.IDS]} WHERE id = _id AND {state}{lock}", ()
    )


def by_queue(values: Mapping[str | None, float]) -> str:
    """Return SQL for the settings of the queue at hand."""
    cases = "".join(f" WHEN {literal(name)} THEN {value!r}" for name, value in values.items() if name is not None)
    return f"(CASE _queue_name{cases} ELSE {values[None]!r} END)" if cases else repr(values[None])
