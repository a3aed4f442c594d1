"""Stored routines: the text of ``sql/``, with the SQL of each move inserted by the same builders that Python runs.

So what a move writes has one source: where Python passes a parameter, a routine has a variable of its own.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Final

from django_dbqueue.codecs import MAX_DEPTH
from django_dbqueue.databases.dialect import Dialect
from django_dbqueue.databases.events_sql import COLUMNS
from django_dbqueue.databases.literals import COMMENT, SCHEMA, inline, literal, raw, render
from django_dbqueue.databases.postgresql import QUALIFIED
from django_dbqueue.databases.statements import DEAD, Change, Claim, Statement
from django_dbqueue.envelope import LEAST_LEASE, MAX_READS_LIMIT, MAX_SECONDS
from django_dbqueue.statuses import DONE, NEW, RUNNING

MARK: Final = "django_dbqueue"
"""The beginning of the comment on each of our routines."""

NAMES: Final = (
    "dbqueue_new_token",
    "dbqueue_check_queue",
    "dbqueue_check_seconds",
    "dbqueue_content_type",
    "dbqueue_take",
    "dbqueue_give_back",
    "dbqueue_rescue_late",
    "dbqueue_claim",
    "put_message_in_queue",
    "get_message_from_queue",
    "delete_message_from_queue",
    "claim_messages",
    "ack_message",
    "nack_message",
    "extend_message",
    "main_queue",
)
"""In order of creation: each calls only those before it."""
VIEW: Final = NAMES[-1]

_FOLDERS: Final = files("django_dbqueue.routines") / "sql"
_HEAD = re.compile(
    r"CREATE (?:SQL SECURITY DEFINER )?(FUNCTION|PROCEDURE|VIEW) "
    r"((?:(?:\w+|\"(?:[^\"]|\"\")+\")\.)?\w+)(?:\((.*?)\)\n)?",
    re.DOTALL,
)
_ARGUMENT_TYPE = re.compile(r"\b_\w+ ([a-z ]+)")
_OWN_LEASE = "lease_seconds"
"""As it is: if a message was put by SQL with 0, the next ``get`` is meant to find it again."""
_RESCUED_AT_ONCE = 100
_HIGHEST_PRIORITY = 32_767
_MAX_CLAIM = 1_000


@dataclass(frozen=True, slots=True)
class Words:
    """What a routine can't know by itself: names of tables, texts, and the settings.

    ``forbidden`` is the queue that none of them may touch. ``lease`` (seconds), ``max_reads``, ``priority`` and
    ``removes`` (whether an ack removes the row) have the default under ``None`` and, by name, the queues that differ.
    """

    queues: str
    lease: Mapping[str | None, float]
    max_reads: Mapping[str | None, int]
    priority: Mapping[str | None, int]
    removes: Mapping[str | None, bool]
    max_bytes: int
    notify: bool
    lease_over: str
    spent_before: str
    forbidden: str
    schema: str = ""


@dataclass(frozen=True, slots=True)
class Routine:
    """A routine or view. ``kind`` is FUNCTION, PROCEDURE or VIEW; ``statements`` create it, replacing an older one."""

    kind: str
    name: str
    signature: str
    comment: str
    statements: tuple[str, ...]


def routines(dialect: Dialect, words: Words, folders: Sequence[str]) -> list[Routine]:
    """Return every routine, in order of creation; a text is taken from the first folder that has it."""
    dialect = QUALIFIED if words.schema else dialect
    fill = _fill(dialect, words)
    texts = {name: _text(name, folders) for name in NAMES}
    return [_routine(name, render(text, fill), folders) for name, text in texts.items() if text]


def _text(name: str, folders: Sequence[str]) -> str:
    """Return a routine's text, or '' if a server does without it."""
    paths = [_FOLDERS / folder / f"{name}.sql" for folder in folders]
    return next((path.read_text("ascii").strip() for path in paths if path.is_file()), "")


def _routine(name: str, text: str, folders: Sequence[str]) -> Routine:
    comment = f"{MARK} {hashlib.sha256(text.encode()).hexdigest()[:16]}"
    head = _HEAD.match(text)
    assert head is not None, text
    kind, signature = head[1], head[2]
    text = text.replace(COMMENT, comment)
    if folders == ("mysql",) and kind != "VIEW":
        return Routine(kind, name, signature, comment, (f"DROP {kind} IF EXISTS {signature}", text))
    text = text.replace("CREATE ", "CREATE OR REPLACE ", 1)
    if "postgresql" not in folders:
        return Routine(kind, name, signature, comment, (text,))
    shut: tuple[str, ...] = ()
    if kind == "FUNCTION":
        signature = f"{signature}({', '.join(_ARGUMENT_TYPE.findall(head[3]))})"
        shut = (f"REVOKE ALL ON FUNCTION {signature} FROM PUBLIC",)
    return Routine(kind, name, signature, comment, (text, *shut, f"COMMENT ON {kind} {signature} IS '{comment}'"))


def _fill(dialect: Dialect, words: Words) -> dict[str, str]:
    """Return the SQL for each placeholder."""
    moves = _moves(dialect, words) | (_claiming_at_once if dialect.sql.updates_return_rows else _claiming_one_by_one)(
        dialect, words
    )
    wake = inline(dialect.enqueue.notify(raw("_queue_name"))).removeprefix("SELECT ")
    return {name: inline(statement) for name, statement in moves.items()} | {
        "message": dialect.sql.message,
        "forbidden": literal(words.forbidden),
        "queues": words.queues,
        "now": dialect.sql.now,
        "schema": words.schema,
        "lease": _by_queue(words.lease),
        "max_reads": _by_queue(words.max_reads),
        "deadline": dialect.sql.plus(dialect.sql.now, "COALESCE(_lease_seconds, _lease)"),
        "lease_end": dialect.sql.plus("claimed_at", "lease_seconds"),
        "ended": f"status = '{DONE}' OR {DEAD}",
        "done": DONE,
        "highest": str(_HIGHEST_PRIORITY),
        "max_claim": str(_MAX_CLAIM),
        "max_bytes": str(words.max_bytes),
        "max_depth": str(MAX_DEPTH),
        "least_lease": f"{LEAST_LEASE:g}",
        "max_seconds": f"{MAX_SECONDS:.0f}",
        "max_reads_limit": str(MAX_READS_LIMIT),
        "notify": f"PERFORM {wake};" if words.notify else "",
    }


def _moves(dialect: Dialect, words: Words) -> dict[str, Statement]:
    """Return the moves of senders and holders; the claim has placeholders of its own."""
    queue, priority = raw("_queue_name"), raw("_priority")
    by_id = Statement(f"id = %s AND status IN ('{NEW}', '{RUNNING}')", (raw("_message_id"),))
    held = dialect.messages.held([Claim(raw("_id"), raw("_token"))])
    return {
        "next_priority_waiting": dialect.claims.next_priority(queue, NEW, priority),
        "next_priority_running": dialect.claims.next_priority(queue, RUNNING, priority),
        "insert": dialect.enqueue.insert(
            _row(words), 0.0, None, returning="id" if dialect.sql.updates_return_rows else ""
        ),
        "delete": dialect.messages.move(dialect.messages.ack(), by_id),
        "remove": _remove(dialect, words, held, "_id"),
        "remove_by_id": _remove(dialect, words, by_id, "_message_id"),
        "ack": dialect.messages.move(dialect.messages.ack(), held),
        "record_nack": _record(dialect, dialect.messages.nack(None, None), held),
        "nack": dialect.messages.move(dialect.messages.nack(None, None), held),
        "nack_later": dialect.messages.move(dialect.messages.nack(raw("_delay"), None), held),
        "extend": dialect.messages.move(dialect.messages.extend(raw("_seconds")), held),
        "extend_by_own": dialect.messages.move(dialect.messages.extend(None), held),
        "lock_held": dialect.messages.lock(held),
    }


def _record(dialect: Dialect, change: Change, where: Statement) -> Statement:
    """Return the record of a move, which a routine writes before it, in the same transaction."""
    assert change.event is not None
    return dialect.events.record(change.event, where)


def _remove(dialect: Dialect, words: Words, where: Statement, name: str) -> Statement:
    """Return the ack for queues that keep no history: the row is removed if it belongs to one of them."""
    differ = [queue for queue in words.removes if queue is not None]
    default, others = words.removes[None], f"queue IN ({dialect.sql.holes(len(differ))})"
    theirs = (f"NOT {others}" if default else others) if differ else str(default).upper()
    if dialect.sql.updates_return_rows:
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
        "priority": raw(_by_queue(words.priority)),
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
        max_reads=raw(_by_queue(words.max_reads)),
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
        f"WHERE m.id = those.late_id AND m.status = '{RUNNING}'",
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
    rescue, is_late = dialect.messages.rescue(words.lease_over), Statement(f"id = %s AND {over}", (row,))
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
    change, where = (
        dialect.messages.bury(words.spent_before),
        Statement(f"id = %s AND status = '{RUNNING}'", (raw(name),)),
    )
    return {"record_bury": _record(dialect, change, where), "bury": dialect.messages.move(change, where)}


def _unlocked(dialect: Dialect, statement: Statement) -> Statement:
    """Return the same query without its locks."""
    return Statement(statement.sql.removesuffix(dialect.sql.skip_locked), statement.params)


def _lock_by_id(dialect: Dialect, what: str, state: str, lock: str) -> Statement:
    """Lock a candidate by its primary key if it still is one; else the routine's NOT FOUND reports that it isn't."""
    return Statement(
        f"SELECT {what} FROM {dialect.sql.message}{dialect.sql.use_primary_key} WHERE id = _id AND {state}{lock}", ()
    )


def _by_queue(values: Mapping[str | None, float]) -> str:
    """Return SQL for the settings of the queue at hand."""
    cases = "".join(f" WHEN {literal(name)} THEN {value!r}" for name, value in values.items() if name is not None)
    return f"CASE _queue_name{cases} ELSE {values[None]!r} END" if cases else repr(values[None])
