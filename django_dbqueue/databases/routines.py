"""Stored routines: the text of ``sql/``, with the SQL of each move put in by the builders that Python runs, too.

So there is one source of what a move writes: where Python passes a parameter, a routine has a variable of its own.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Final

from django_dbqueue.codecs import MAX_DEPTH
from django_dbqueue.databases.base import Dialect
from django_dbqueue.databases.words import DEAD, Change, Claim, Statement
from django_dbqueue.envelope import MAX_READS_LIMIT, MAX_SECONDS
from django_dbqueue.statuses import DONE, NEW, RUNNING

MARK: Final = "django_dbqueue"
"""What the comment of each of our routines begins with."""

NAMES: Final = (
    "dbqueue_new_token",
    "dbqueue_check_queue",
    "dbqueue_check_seconds",
    "dbqueue_content_type",
    "dbqueue_take",
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
"""In the order of their making: each calls only those before it."""
VIEW: Final = NAMES[-1]

_FOLDERS: Final = files("django_dbqueue") / "sql"
_PLACEHOLDER = re.compile(r"^( *)(.*?)\{([a-z_]+)\}", re.MULTILINE)
_HEAD = re.compile(r"CREATE (?:SQL SECURITY DEFINER )?(FUNCTION|PROCEDURE|VIEW) ([\w.\"]+)(?:\((.*?)\)\n)?", re.DOTALL)
_ARGUMENT_TYPE = re.compile(r"\b_\w+ ([a-z ]+)")
_WORD = re.compile(r"(?:'(?:[^']|'')*'|[^\s'])+")
_CLAUSES: Final = {"SET", "FROM", "WHERE", "ORDER", "VALUES", "RETURNING"}
_WIDTH = 100
_RESCUED_AT_ONCE = 100
_HIGHEST_PRIORITY = 32_767
_MAX_CLAIM = 1_000


class Raw(str):
    """A parameter that is SQL itself: a variable of the routine."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Words:
    """What a routine can't know by itself: names of tables, texts, and what the settings say.

    ``lease`` (seconds), ``max_reads`` and ``priority`` have the default under ``None`` and, by name, the queues that
    differ.
    """

    queues: str
    lease: Mapping[str | None, float]
    max_reads: Mapping[str | None, int]
    priority: Mapping[str | None, int]
    max_bytes: int
    notify: bool
    lease_over: str
    spent_before: str
    schema: str = ""


@dataclass(frozen=True, slots=True)
class Routine:
    """``kind`` is FUNCTION, PROCEDURE or VIEW; ``statements`` make it, whether or not an older one stands there."""

    kind: str
    name: str
    signature: str
    comment: str
    statements: tuple[str, ...]


def routines(dialect: Dialect, words: Words, folders: Sequence[str]) -> list[Routine]:
    """Return every routine, in the order of their making; a text is taken from the first folder that has it."""
    fill = _fill(dialect, words)
    texts = {name: _text(name, folders) for name in NAMES}
    return [_routine(name, _render(text, fill), folders) for name, text in texts.items() if text]


def _text(name: str, folders: Sequence[str]) -> str:
    """Return a routine's text, or '' where a server does without it."""
    paths = [_FOLDERS / folder / f"{name}.sql" for folder in folders]
    return next((path.read_text("ascii").strip() for path in paths if path.is_file()), "")


def _routine(name: str, text: str, folders: Sequence[str]) -> Routine:
    comment = f"{MARK} {hashlib.sha256(text.encode()).hexdigest()[:16]}"
    head = _HEAD.match(text)
    assert head is not None, text
    kind, signature = head[1], head[2]
    text = text.replace("{comment}", comment)
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
    """Return what stands for each placeholder."""
    queue, row, fence = Raw("_queue_name"), Raw("_id"), [Claim(Raw("_id"), Raw("_token"))]  # type: ignore[arg-type]
    by_id = Statement(f"id = %s AND status IN ('{NEW}', '{RUNNING}')", (Raw("_message_id"),))
    one_running = Statement(f"id = %s AND status = '{RUNNING}'", (row,))
    held = dialect.held(fence)
    seconds = dialect.extend(Raw("_seconds"))  # type: ignore[arg-type]
    lease_end = dialect.plus("claimed_at", "lease_seconds")
    statements: dict[str, Statement] = {
        "next_priority_waiting": dialect.next_priority(queue, NEW, Raw("_priority")),  # type: ignore[arg-type]
        "next_priority_running": dialect.next_priority(queue, RUNNING, Raw("_priority")),  # type: ignore[arg-type]
        "insert": dialect.insert([_row(words)], returning="id" if dialect.updates_return_rows else ""),
        "delete": dialect.move(dialect.ack(), by_id),
        "ack": dialect.move(dialect.ack(), held),
        "nack": dialect.move(dialect.nack(None, None), held),
        "nack_later": dialect.move(dialect.nack(Raw("_delay"), None), held),  # type: ignore[arg-type]
        "extend": dialect.move(seconds, held),
        "extend_by_own": dialect.move(dialect.extend(None), held),
        "lock_held": dialect.lock(held),
        **_claiming(dialect, words, one_running),
    }
    return {name: _inline(statement) for name, statement in statements.items()} | {
        "message": dialect.message,
        "queues": words.queues,
        "now": dialect.now,
        "schema": words.schema,
        "lease": _by_queue(words.lease),
        "max_reads": _by_queue(words.max_reads),
        "deadline": dialect.plus(dialect.now, "COALESCE(_lease_seconds, _lease)"),
        "lease_end": lease_end,
        "ended": f"status = '{DONE}' OR {DEAD}",
        "done": DONE,
        "highest": str(_HIGHEST_PRIORITY),
        "max_claim": str(_MAX_CLAIM),
        "max_bytes": str(words.max_bytes),
        "max_depth": str(MAX_DEPTH),
        "max_seconds": f"{MAX_SECONDS:.0f}",
        "max_reads_limit": str(MAX_READS_LIMIT),
        "notify": f"PERFORM {_inline(dialect.notify(queue)).removeprefix('SELECT ')};" if words.notify else "",
    }


def _row(words: Words) -> tuple[tuple[Any, ...], float, Any]:
    """Return what an INSERT takes: a message without key and headers, due now."""
    columns = (
        Raw("_queue_name"),
        None,
        None,
        None,
        Raw("_payload"),
        Raw("dbqueue_content_type(_payload)"),
        None,
        Raw(_by_queue(words.priority)),
        Raw("_max_read_cnt"),
        Raw("_invisibility_time"),
    )
    return columns, 0.0, None


def _claiming(dialect: Dialect, words: Words, one_running: Statement) -> dict[str, Statement]:
    """The claim and the rescue: in one statement where UPDATE returns rows, else row by row behind a cursor."""
    queue: Any = Raw("_queue_name")
    priority: Any = Raw("_priority")
    token: Any = Raw("_token")
    max_reads: Any = Raw(_by_queue(words.max_reads))
    lease: Any = Raw("_lease")
    rescue = dialect.rescue(words.lease_over)
    bury = dialect.reject(words.spent_before, charged=False)
    take = {"token": token, "worker_id": None, "session": None, "lease": lease, "max_reads": max_reads}
    if dialect.updates_return_rows:
        limit: Any = Raw("_how_many - cardinality(_ids)")
        late = dialect.due(("id",), queue, RUNNING, priority, _RESCUED_AT_ONCE, but_token=token)
        return {
            "claim": dialect.claim(queue, priority, limit, None, dialect.take(**take, now=None)),
            "bury": dialect.move(bury, Statement(f"id = %s AND status = '{RUNNING}'", (Raw("_row.id"),))),
            "rescue_range": Statement(
                f"WITH late (id, at) AS MATERIALIZED ({late.sql}) UPDATE {dialect.message} AS m SET {rescue.sql} "
                f"FROM late WHERE m.id = late.id AND m.status = '{RUNNING}'",
                late.params + rescue.params,
            ),
        }
    due = f"status = '{NEW}' AND available_at <= {dialect.now}"
    over = f"status = '{RUNNING}' AND available_at <= {dialect.now}"
    still_over = Statement(f"id = %s AND {over}", (Raw("_id"),))
    take |= {"max_reads": Raw("_reads_allowed")}
    return {
        "due": _unlocked(dialect, dialect.due(("id",), queue, NEW, priority, Raw("_page"))),  # type: ignore[arg-type]
        "try_due": _by_id(dialect, "id INTO _id", due, dialect.skip_locked),
        "lock_due": _by_id(
            dialect,
            "read_count, max_reads, lease_seconds INTO _read_count, _max_reads, _lease_seconds",
            due,
            dialect.lock_row,
        ),
        "take": dialect.take_ids([Raw("_id")], dialect.take(**take, now=None)),  # type: ignore[list-item]
        "bury": dialect.move(bury, one_running),
        "late": _unlocked(dialect, dialect.due(("id",), queue, RUNNING, priority, _RESCUED_AT_ONCE, but_token=token)),
        "try_late": _by_id(dialect, "id INTO _id", over, dialect.skip_locked),
        "rescue": dialect.move(rescue, still_over),
    }


def _unlocked(dialect: Dialect, statement: Statement) -> Statement:
    """Return the same look without its locks."""
    return Statement(statement.sql.removesuffix(dialect.skip_locked), statement.params)


def _by_id(dialect: Dialect, what: str, state: str, lock: str) -> Statement:
    """Lock a candidate by its primary key if it still is one; else the routine's NOT FOUND says that it isn't."""
    return Statement(
        f"SELECT {what} FROM {dialect.message}{dialect.use_primary_key} WHERE id = _id AND {state}{lock}", ()
    )


def _by_queue(values: Mapping[str | None, float]) -> str:
    """Return SQL for what the settings say of the queue at hand."""
    cases = "".join(f" WHEN {_literal(name)} THEN {value!r}" for name, value in values.items() if name is not None)
    return f"CASE _queue_name{cases} ELSE {values[None]!r} END" if cases else repr(values[None])


def _render(text: str, fill: Mapping[str, str]) -> str:
    """Put SQL in for the placeholders; lines that come of it are indented as the line they stand in."""

    def put(match: re.Match[str]) -> str:
        indent, before, name = match.groups()
        if name == "comment":
            return match[0].replace("{comment}", "\0")
        return indent + before + fill[name].replace("\n", f"\n{indent}    ")

    while (rendered := _PLACEHOLDER.sub(put, text)) != text:
        text = rendered
    return text.replace("\0", "{comment}")


def _inline(statement: Statement | Change) -> str:
    """Return a statement's text with its parameters written into it, wrapped for reading."""
    pieces = statement.sql.split("%s")
    text = pieces[0]
    for value, piece in zip(statement.params, pieces[1:], strict=True):
        text += _literal(value) + piece
    return _wrap(text.replace("%%", "%"))


def _literal(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, Raw):
        return str(value)
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return repr(value)


def _wrap(text: str) -> str:
    lines = [""]
    for word in _WORD.findall(text):
        if lines[-1] and (word in _CLAUSES or len(lines[-1]) + len(word) > _WIDTH):
            lines.append("")
        lines[-1] += f" {word}" if lines[-1] else word
    return "\n".join(lines)
