"""Every statement about messages, as the dialects build it, with its docstring; once for servers that say the same."""

from __future__ import annotations

import inspect
import re
import textwrap
import typing
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, Final

from generated import NotDescribed

from django_dbqueue.databases.depths_sql import Place
from django_dbqueue.databases.dialect import Dialect
from django_dbqueue.databases.mysql import MYSQL
from django_dbqueue.databases.postgresql import POSTGRESQL
from django_dbqueue.databases.server import Subject
from django_dbqueue.databases.sqlite import SQLITE
from django_dbqueue.databases.statements import Change, Claim, Event, Kept, Statement
from django_dbqueue.databases.steps_sql import STEP, Remembered

DIALECTS: Final[dict[str, Dialect]] = {
    "MySQL and MariaDB": MYSQL,
    "PostgreSQL": POSTGRESQL,
    "SQLite": SQLITE,
}
SUBJECTS: Final = {
    "enqueue": "Enqueue",
    "claims": "Claim",
    "messages": "Settle and move",
    "events": "The record of what happened",
    "failures": "Kinds of failure",
    "results": "Results of tasks",
    "once": "Tokens of once",
    "steps": "Steps",
    "flows": "Flows",
    "event_values": "Events that handlers wait for",
    "archive": "The history",
    "lookout": "Is there anything to do?",
    "workers": "Workers",
    "sessions": "Sessions",
    "queues": "Queues",
    "depths": "Depths",
}
"""Subjects of the dialect that the page shows, with their headings."""
LEFT_OUT: Final = {
    "sql": "the vocabulary",
    "lanes": "groups: decision 26 shows them",
    "rates": "groups",
    "groups": "the admin's page of groups",
    "bulk": "bulk operations page through the claim index like claims",
    "listing": "the admin's lists",
    "statistics": "the admin's charts",
    "watch": "the dashboard",
    "staging": "Spark",
    "scan": "Spark",
    "history": "Spark",
    "partitions": "DDL of the history: decision 36 shows it",
    "streams": "Spark",
    "stream_claims": "Spark",
    "stream_messages": "Spark",
    "stream_progress": "Spark",
    "replicas": "Spark",
}
"""Subjects that it leaves out, and why."""
ONLY_ON: Final = {
    ("claims", "claim"): {"PostgreSQL"},
    ("claims", "take_ids"): {"MySQL and MariaDB", "SQLite"},
    ("enqueue", "id_step"): {"MySQL and MariaDB"},
    ("enqueue", "notify"): {"PostgreSQL"},
}
"""Statements that exist in each dialect, but are sent on some servers alone."""

_NOW: Final = datetime(2026, 11, 21, tzinfo=UTC)
_CLAIM: Final = Claim(17, 4711)
_WHERE: Final = Statement("id = %s", (17,))
_ROW: Final = {"queue": "emails", "body": "{}", "headers": "{}"}
BY_NAME: Final[dict[str, Any]] = {
    "status": "n",
    "state": "status = 'n'",
    "names": ("id", "queue", "available_at"),
    "returning": "",
    "row": _ROW,
    "ending": "",
    "columns": {name: [value, value] for name, value in _ROW.items()},
    "delays": [0.0, 0.0],
    "moments": [None, None],
    "at": None,
    "now": None,
    "mark": None,
    "most_bytes": None,
    "session": None,
    "delay": 30.0,
    "fact": "ready",
    "event": Event("failed", "an error"),
}
"""Arguments that stand for all others of the same name; without one, the annotation decides."""
BY_TYPE: Final[dict[str, Any]] = {
    "Mapping[str, float]": {"b5bb9d80": 86_400.0},
    "Mapping[str, int]": {"b5bb9d80": 17},
    "bool": False,
    "int": 17,
    "float": 60.0,
    "str": "emails",
    "object": _NOW,
    "Statement": _WHERE,
    "Claim": _CLAIM,
    "Remembered": Remembered("charge", STEP, "{}", "json"),
    "tuple[int, int]": (17, 18),
    "Sequence[tuple[int, int]]": [(17, 18)],
    "Sequence[tuple[int, str]]": [(17, "emails")],
    "Sequence[int]": [17, 18],
    "Sequence[str]": ["emails", "orders"],
    "Sequence[Claim]": [_CLAIM],
    "Sequence[Place]": [Place("emails", "ready", 0)],
    "Sequence[tuple[int, Kept]]": [(17, Kept("1", "json", 60.0))],
}
_OVERWRITTEN: Final = ["{}", "json", "{}", 0, None, None]
CLAUSES: Final = re.compile(r" (?=(?:FROM|SET|WHERE|ORDER BY|UNION ALL|VALUES|RETURNING|ON CONFLICT|ON DUPLICATE)\b)")


def statements_of() -> str:
    """Return a section for each subject."""
    unknown = [name for name in vars(MYSQL) if name not in SUBJECTS and name not in LEFT_OUT]
    if unknown:
        raise NotDescribed(f"the dialect has subjects that are neither in SUBJECTS nor in LEFT_OUT: {unknown}")
    return "\n\n".join("\n\n".join(_section(name, heading)) for name, heading in SUBJECTS.items())


def _section(name: str, heading: str) -> Iterator[str]:
    yield f"## {heading}"
    subject: Subject = getattr(MYSQL, name)
    for verb, method in inspect.getmembers(subject, inspect.ismethod):
        kind = typing.get_type_hints(method, vars(inspect.getmodule(method))).get("return")
        is_move = kind is Change and name == "messages"
        if verb.startswith("_") or not (kind is Statement or is_move):
            continue
        text = inspect.getdoc(method)
        if not text:
            raise NotDescribed(f"{type(subject).__name__}.{verb} has no docstring")
        yield f"### {name}.{verb}"
        yield text.replace("``", "`")
        yield from _blocks(name, verb)


def _blocks(name: str, verb: str) -> Iterator[str]:
    """Yield the statement's text: a block for each that differs by more than its quotation marks."""
    servers: dict[str, list[str]] = {}
    shown: dict[str, str] = {}
    for server, dialect in DIALECTS.items():
        if not hasattr(dialect, name) or server not in ONLY_ON.get((name, verb), DIALECTS):
            continue
        sql = _text(dialect, name, verb)
        same = re.sub(r"[`\"]", "", sql)
        servers.setdefault(same, []).append(server)
        shown.setdefault(same, sql)
    for same, those in servers.items():
        yield f"{', '.join(those)}:" if len(servers) > 1 or len(those) < len(DIALECTS) else "Everywhere:"
        yield f"```sql\n{shown[same]}\n```"


def _text(dialect: Dialect, name: str, verb: str) -> str:
    method = getattr(getattr(dialect, name), verb)
    change = _called(dialect.claims.take) if name == "claims" else dialect.messages.ack()
    made = _called(method, change=change)
    if isinstance(made, Change):
        made = dialect.messages.settle(made, [_CLAIM])
    return "\n".join(_lines(str(made.sql).replace("%%", "%")))


def _lines(sql: str) -> Iterator[str]:
    """Yield a line for each clause, but for those of subqueries; a long one is wrapped."""
    deepest = 1 if sql.startswith("WITH") else 0
    start = 0
    for blank in [*CLAUSES.finditer(sql), None]:
        end = len(sql) if blank is None else blank.start()
        if blank is None or sql.count("(", 0, end) - sql.count(")", 0, end) <= deepest:
            yield from textwrap.wrap(
                sql[start:end].strip(), 110, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False
            )
            start = end


def _called(method: Callable[..., Any], *, change: Change | None = None) -> Any:
    """Call it with arguments for whatever has no default."""
    arguments: dict[str, Any] = {}
    for parameter in inspect.signature(method).parameters.values():
        if parameter.default is not parameter.empty:
            continue
        written = str(parameter.annotation).removesuffix(" | None")
        if parameter.name == "row" and written == "Sequence[object]":
            arguments["row"] = _OVERWRITTEN
        elif parameter.name in BY_NAME:
            arguments[parameter.name] = BY_NAME[parameter.name]
        elif written == "Change":
            arguments[parameter.name] = change
        elif written in BY_TYPE:
            arguments[parameter.name] = BY_TYPE[written]
        else:
            raise NotDescribed(
                f"{method.__qualname__} takes {parameter.name}: {written}, for which docs/_ext/statement_lists.py has "
                "no argument to show: add it to BY_NAME or BY_TYPE"
            )
    return method(**arguments)
