"""Every statement about messages, as it is for each server, with its docstring; once for servers that say the same."""

from __future__ import annotations

import inspect
import re
import textwrap
import typing
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from generated import NotDescribed

import django_dbqueue
from django_dbqueue.claims import claims_sql
from django_dbqueue.databases import sessions_sql
from django_dbqueue.databases.mysql import MYSQL
from django_dbqueue.databases.postgresql import POSTGRESQL
from django_dbqueue.databases.server import Server
from django_dbqueue.databases.sqlite import SQLITE
from django_dbqueue.databases.statement import Change, Claim, EventRecord, Kept, Statement
from django_dbqueue.envelope import Sealed
from django_dbqueue.statements import moves_sql
from django_dbqueue.statements.steps_sql import STEP, Remembered
from django_dbqueue.states.table import Place

PACKAGE: Final = Path(django_dbqueue.__file__).parent
SERVERS: Final[dict[str, Server]] = {
    "MySQL and MariaDB": MYSQL,
    "PostgreSQL": POSTGRESQL,
    "SQLite": SQLITE,
}
SHOWN: Final = {
    "statements.enqueue_sql": "Enqueue",
    "claims.claims_sql": "Claim",
    "statements.moves_sql": "Settle and move, and who may be moved",
    "statements.events_sql": "The record of what happened",
    "failures.failures_sql": "Kinds of failure",
    "lifecycle.calls_sql": "Who runs what is cancelled",
    "lifecycle.results_sql": "Results of tasks",
    "lifecycle.once_sql": "Tokens of once",
    "statements.steps_sql": "Steps",
    "lifecycle.flows_sql": "Flows",
    "flows.flow_parts_sql": "A flow as a whole",
    "steps.event_values_sql": "Events that handlers wait for",
    "lifecycle.archive_sql": "The history",
    "worker.idle_poll_sql": "Is there anything to do?",
    "databases.sessions_sql": "Sessions",
    "states.ranges_in_use": "Queues and priorities in use",
    "states.depths_sql": "Depths",
}
"""The modules of statements that the page shows, with their headings."""
LEFT_OUT: Final = {
    "lanes.heads_sql": "groups: decision 26 shows them",
    "lanes.lanes_sql": "groups: decision 26 shows them",
    "lanes.rates_sql": "groups",
    "lanes.groups_sql": "the admin's page of groups",
    "routines.one_lane_sql": "groups, in routines",
    "routines.installer_sql": "what routines are there",
    "operations.bulk_sql": "bulk operations page through the claim index like claims",
    "insight.listing_sql": "the admin's lists",
    "insight.statistics_sql": "the admin's charts",
    "insight.watch_sql": "the dashboard",
    "spark.staging_sql": "Spark",
    "statements.scan_sql": "Spark",
    "history.history_sql": "Spark",
    "history.age_sql": "the history's deletion by age: decision 43",
    "databases.partitions_sql": "DDL of the history: decision 36 shows it",
    "databases.partitioning_sql": "the same",
    "streams.streams_sql": "Spark",
    "streams.stream_claims_sql": "Spark",
    "streams.stream_messages_sql": "Spark",
    "streams.stream_progress_sql": "Spark",
    "spark.replicas_sql": "Spark",
}
"""Those that it leaves out, and why."""
ONLY_ON: Final = {
    "claims_sql.claim": {"PostgreSQL"},
    "claims_sql.take_ids": {"MySQL and MariaDB", "SQLite"},
    "enqueue_sql.id_step": {"MySQL and MariaDB"},
    "enqueue_sql.notify": {"PostgreSQL"},
    "once_sql.read_back": {"MySQL and MariaDB"},
    "ranges_in_use.explained": {"MySQL and MariaDB"},
    "results_sql.packet": {"MySQL and MariaDB"},
}
"""Statements that are sent on some servers alone."""

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
    "event": EventRecord("failed", "an error"),
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
    "Sealed": Sealed("emails", None, None, None, "{}", "json", "{}", 0, None, None, None, None, 0.0, None),
    "Statement": _WHERE,
    "Claim": _CLAIM,
    "Remembered": Remembered("charge", STEP, "{}", "json"),
    "tuple[int, int]": (17, 18),
    "tuple[str, str, str | None]": ("{}", "json", None),
    "Sequence[tuple[int, int]]": [(17, 18)],
    "Sequence[tuple[int, str]]": [(17, "emails")],
    "Sequence[Statement]": [Statement("SELECT 'ready' AS fact, 'emails' AS name, 0 AS priority", ())],
    "Sequence[int]": [17, 18],
    "Sequence[str]": ["emails", "orders"],
    "Sequence[Claim]": [_CLAIM],
    "Place": Place("emails", "ready", 0),
    "Sequence[Place]": [Place("emails", "ready", 0)],
    "Sequence[tuple[int, Kept]]": [(17, Kept("1", "json", 60.0))],
}
CLAUSES: Final = re.compile(r" (?=(?:FROM|SET|WHERE|ORDER BY|UNION ALL|VALUES|RETURNING|ON CONFLICT|ON DUPLICATE)\b)")


def statements_of() -> str:
    """Return a section for each module of statements."""
    there = {".".join(file.with_suffix("").parts[-2:]) for file in PACKAGE.glob("*/*_sql.py")}
    if unknown := sorted(there - {*SHOWN, *LEFT_OUT}):
        raise NotDescribed(f"modules of statements are neither in SHOWN nor in LEFT_OUT: {unknown}")
    return "\n\n".join("\n\n".join(_section(name, heading)) for name, heading in SHOWN.items())


def _section(name: str, heading: str) -> Iterator[str]:
    yield f"## {heading}"
    home = import_module(f"django_dbqueue.{name}")
    for verb, function in _functions(home, MYSQL):
        kind = typing.get_type_hints(function, vars(inspect.getmodule(function))).get("return")
        is_move = kind is Change and home is moves_sql
        if verb.startswith("_") or not (kind is Statement or is_move):
            continue
        called = f"{name.rpartition('.')[2]}.{verb}"
        text = inspect.getdoc(function)
        if not text:
            raise NotDescribed(f"{called} has no docstring")
        yield f"### {called}"
        yield text.replace("``", "`")
        yield from _blocks(home, called, verb)


def _functions(home: ModuleType, server: Server) -> list[tuple[str, Callable[..., Any]]]:
    """Return the statements of a module: its functions, or of sessions the methods that the server has."""
    if home is sessions_sql:
        return inspect.getmembers(server.sessions, inspect.ismethod) if server.sessions else []
    functions = inspect.getmembers(home, inspect.isfunction)
    return [(verb, each) for verb, each in functions if each.__module__ == home.__name__]


def _blocks(home: ModuleType, called: str, verb: str) -> Iterator[str]:
    """Yield the statement's text: a block for each that differs by more than its quotation marks."""
    servers: dict[str, list[str]] = {}
    shown: dict[str, str] = {}
    for name, server in SERVERS.items():
        function = dict(_functions(home, server)).get(verb)
        if function is None or name not in ONLY_ON.get(called, SERVERS):
            continue
        sql = _text(server, home, function)
        same = re.sub(r"[`\"]", "", sql)
        servers.setdefault(same, []).append(name)
        shown.setdefault(same, sql)
    for same, those in servers.items():
        yield f"{', '.join(those)}:" if len(servers) > 1 or len(those) < len(SERVERS) else "Everywhere:"
        yield f"```sql\n{shown[same]}\n```"


def _text(server: Server, home: ModuleType, function: Callable[..., Any]) -> str:
    change = _called(claims_sql.take, server) if home is claims_sql else moves_sql.ack(server)
    made = _called(function, server, change=change)
    if isinstance(made, Change):
        made = moves_sql.settle(server, made, [_CLAIM])
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


def _called(method: Callable[..., Any], server: Server, *, change: Change | None = None) -> Any:
    """Call it with arguments for whatever has no default."""
    arguments: dict[str, Any] = {}
    for parameter in inspect.signature(method).parameters.values():
        if parameter.default is not parameter.empty:
            continue
        if parameter.kind is parameter.VAR_POSITIONAL:
            return method(17, 18)
        written = str(parameter.annotation).removesuffix(" | None")
        if parameter.name == "server":
            arguments["server"] = server
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
