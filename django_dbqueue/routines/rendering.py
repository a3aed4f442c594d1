"""Stored routines: the text of ``sql/``, with the SQL of each move, the settings and the limits inserted."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Final

from django_dbqueue.codecs import MAX_DEPTH
from django_dbqueue.databases.literals import COMMENT, inline, literal, raw, render
from django_dbqueue.databases.mysql import MYSQL
from django_dbqueue.databases.postgresql import QUALIFIED
from django_dbqueue.databases.server import Server
from django_dbqueue.envelope import LEAST_LEASE, MAX_GROUP_LENGTH, MAX_READS_LIMIT, MAX_SECONDS, WHOLE_QUEUE
from django_dbqueue.keys import LANES
from django_dbqueue.routines.routine_moves import Words, by_queue, moves
from django_dbqueue.settable.option_table import WIDEST
from django_dbqueue.statements import enqueue_sql
from django_dbqueue.states.table import Stage
from django_dbqueue.statuses import DONE

MARK: Final = "django_dbqueue"
"""The beginning of the comment on each of our routines."""

NAMES: Final = (
    "dbqueue_new_token",
    "dbqueue_check_queue",
    "dbqueue_check_seconds",
    "dbqueue_content_type",
    "dbqueue_check_group",
    "dbqueue_lane_of",
    "dbqueue_hand_over",
    "dbqueue_lane_moved",
    "dbqueue_kick_lane",
    "dbqueue_put_in_lane",
    "dbqueue_take",
    "dbqueue_give_back",
    "dbqueue_rescue_late",
    "dbqueue_claim",
    "dbqueue_delete",
    "put_message_in_queue",
    "put_message_in_group",
    "kick_group",
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
_IS_OWN_TRANSACTION: Final = {
    "postgresql": "pg_current_xact_id_if_assigned() IS NULL",  # before the routine writes: nobody has written in it
    "mariadb": "@@in_transaction = 0",
    "mysql": "@@autocommit = 1",  # it doesn't tell of START TRANSACTION
}
"""SQL for whether nothing follows the caller's statement in its transaction, as far as the server tells."""
_HIGHEST_PRIORITY = 32_767
_MAX_CLAIM = 1_000


_PUT_PROBLEM: Final = """CASE
    WHEN _payload IS NULL THEN 'payload must not be NULL'
    WHEN octet_length(_payload) > {max_bytes}
        THEN 'payload must not take more than {max_bytes} bytes: store it elsewhere, send a reference'
    WHEN _max_read_cnt NOT BETWEEN 0 AND {max_reads_limit}
        THEN 'max_read_cnt must be from 0 (no limit) to {max_reads_limit}, or NULL for the setting'
END"""


@dataclass(frozen=True, slots=True)
class Routine:
    """A routine or view. ``kind`` is FUNCTION, PROCEDURE or VIEW; ``statements`` create it, replacing an older one."""

    kind: str
    name: str
    signature: str
    comment: str
    statements: tuple[str, ...]


def routines(words: Words, folders: Sequence[str]) -> list[Routine]:
    """Return every routine, in order of creation; a text is taken from the first folder that has it."""
    fill = _fill(QUALIFIED if words.schema else MYSQL, words)
    fill["is_own_transaction"] = next(sql for server, sql in _IS_OWN_TRANSACTION.items() if server in folders)
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


def _fill(server: Server, words: Words) -> dict[str, str]:
    """Return the SQL for each placeholder."""
    wake = inline(enqueue_sql.notify(raw("_queue_name"))).removeprefix("SELECT ")
    return {name: inline(statement) for name, statement in moves(server, words).items()} | {
        "message": server.message,
        "line": server.line,
        "ticket": server.ticket,
        "group": server.group,
        "forbidden": literal(words.forbidden),
        "queues": words.queues,
        "is_paused": server.is_paused,
        "now": server.now,
        "schema": words.schema,
        "lease": by_queue(words.lease),
        "max_reads": by_queue(words.max_reads),
        "is_whole": by_queue(words.is_whole),
        "group_limit": by_queue(words.group_limit),
        "takes_several": by_queue({queue: batch > 1 for queue, batch in words.group_batch.items()}),
        "holds_dead": by_queue(words.holds_dead),
        "removes": by_queue(words.removes),
        "whole_queue": literal(WHOLE_QUEUE),
        "max_group": str(MAX_GROUP_LENGTH),
        "lanes_of_queue": str(LANES),
        "widest": str(WIDEST),
        "put_problem": _PUT_PROBLEM,
        "deadline": server.plus(server.now, "COALESCE(_lease_seconds, _lease)"),
        "lease_end": server.plus("claimed_at", "lease_seconds"),
        "ended": f"{Stage.FINISHED.sql} OR {Stage.DEAD.sql}",
        "is_done": Stage.FINISHED.sql,
        "is_dead": Stage.DEAD.sql,
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
