"""Rows of one INSERT by column: columns no row sets are left out; values all rows share go into the SQL."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import chain
from typing import Any, Final

from django_dbqueue.codecs import JSON
from django_dbqueue.databases.indexes import Index
from django_dbqueue.databases.literals import literal
from django_dbqueue.databases.server import Server
from django_dbqueue.databases.statement import Params, Row, Statement, holes
from django_dbqueue.envelope import Sealed
from django_dbqueue.statements.message_columns import CONTENT_COLUMNS, MESSAGE_COLUMNS, SENT_COLUMNS
from django_dbqueue.states.table import NOT_DONE
from django_dbqueue.statuses import NEW

_PLAIN: Final = re.compile(r"[A-Za-z0-9_.:/=+-]*\Z")
"""Text that can be put into SQL as it is, whatever the server and its mode."""
LIVE_KEY: Final = "key_hash, live"
"""The columns that are unique among live messages."""
_SET_CONTENT: Final = ", ".join(f"{name} = %s" for name in CONTENT_COLUMNS)
DEFAULTS: Final[Mapping[str, object]] = {"content_type": JSON, "priority": 0}
"""The message table's defaults for columns that a sender can set; for all others NULL."""
_TYPES: Final = {
    "lane": "bigint",
    "live": "integer",
    "priority": "integer",
    "max_reads": "integer",
    "lease_seconds": "double precision",
    "delay": "double precision",
    "at": "timestamptz",
}
"""Of columns that aren't text."""


def insert_into(server: Server, names: Iterable[str]) -> str:
    """Return the beginning of an INSERT of these columns."""
    return f"INSERT INTO {server.message} ({server.columns([*names])})"


def insert_values(
    server: Server,
    columns: Mapping[str, Sequence[object]],
    delays: Sequence[float | None],
    moments: Sequence[object],
    ending: str,
    *,
    parked: bool = False,
) -> Statement:
    """Insert rows, given as columns of equal length, with a VALUES list."""
    names, row, params = one_row(columns)
    if is_parked := parked or "lane" in names:
        names, row = [*names, "available_at"], f"{row}, {server.parked}"
    values = [f"({row})"] * len(params)
    if any(delays) or any(moments):
        dues = [_due_from_now(server, delay or 0.0, at) for delay, at in zip(delays, moments, strict=True)]
        times = 1 if is_parked else 2
        names += ["available_at", "due_at"][-times:]
        values = [f"({', '.join([row, *[due] * times])})" for due, _ in dues]
        params = [(*own, *more * times) for own, (_, more) in zip(params, dues, strict=True)]
    return Statement(
        f"{insert_into(server, names)} VALUES {', '.join(values)}{ending}", tuple(chain.from_iterable(params))
    )


def insert(
    server: Server, row: Mapping[str, object], delay: float, at: object, *, returning: str = "", ignore: bool = False
) -> Statement:
    """Insert a row with these columns; a taken key raises, or writes nothing (ignore). In a lane it is parked."""
    due, due_params = _due_from_now(server, delay, at) if delay or at is not None else ("", ())
    set_values = {name: value for name, value in row.items() if value != DEFAULTS.get(name)}
    is_parked = "lane" in set_values
    text = _insert_one(server, tuple(set_values), due, returning, ignore, is_parked)
    return Statement(text, (*set_values.values(), *(() if is_parked else due_params), *due_params))


def insert_many(
    server: Server,
    columns: Mapping[str, Sequence[object]],
    delays: Sequence[float],
    moments: Sequence[object],
    *,
    returning: str = "",
    ignore: bool = False,
    parked: bool = False,
) -> Statement:
    """Insert rows, given as columns of equal length, as ``insert`` does; all of them are in lanes, or none is."""
    if server.rows_from_json:
        return _from_json(server, columns, delays, moments, ending(server, returning, ignore=ignore), parked=parked)
    return insert_values(server, columns, delays, moments, ending(server, returning, ignore=ignore), parked=parked)


def _from_json(
    server: Server,
    columns: Mapping[str, Sequence[object]],
    delays: Sequence[float],
    moments: Sequence[Any],
    ending: str,
    *,
    parked: bool,
) -> Statement:
    # One parameter, whose text is the same for every such chunk: a VALUES list of a thousand rows costs the server
    # three times as much, and psycopg's array of texts costs Python more than all the rest of the call.
    words, varying = column_words(columns)
    names = [name for name, word in words.items() if word == "%s"]
    due = ""
    if any(delays) or any(moments):
        names += ("delay", "at")
        varying += (delays, [at and at.isoformat() for at in moments])
        delayed = server.plus(server.now, _of_json(names, "delay"))
        due = f"GREATEST({_of_json(names, 'at')}, {delayed})"
    chosen = {name: _of_json(names, name) if word == "%s" else word for name, word in words.items()}
    chosen |= {"available_at": due, "due_at": due} if due else {}
    chosen |= {"available_at": server.parked} if parked or "lane" in words else {}
    rows = json.dumps([*zip(*varying, strict=True)] or [()] * len(delays), ensure_ascii=False)
    return Statement(
        f"{insert_into(server, chosen)} SELECT {', '.join(chosen.values())} "
        f"FROM json_array_elements(%s::json) AS said{ending}",
        (rows,),
    )


def ending(server: Server, returning: str, *, ignore: bool) -> str:
    """Return the end of an INSERT."""
    return (server.or_nothing(server.message, LIVE_KEY) if ignore else "") + (
        f" RETURNING {returning}" if returning else ""
    )


def notify(queue: str) -> Statement:
    """Wake listening workers when the transaction commits (PostgreSQL)."""
    return Statement("SELECT pg_notify('django_dbqueue', %s)", (queue,))


def returning_id(*, notify: bool) -> str:
    """Return the RETURNING list of one message, so that ``notify`` costs no statement and no commit of its own."""
    return "id, pg_notify('django_dbqueue', queue)" if notify else "id"


def live_by_hash(server: Server, hashes: Sequence[str]) -> Statement:
    """Lock and read the live rows of these keys: the newest committed ones, whatever the isolation level."""
    if server.joins_lists:
        # After ANALYZE, an IN list reads the whole table if its keys repeat (or are NULL); key by key it doesn't.
        # The join keeps the keys in the outer loop; a constraint's index has no name to force it by.
        return Statement(
            f"WITH wanted (key_hash) AS (VALUES {', '.join(['(%s)'] * len(hashes))}) "
            f"SELECT {server.columns(MESSAGE_COLUMNS, 'm.')} FROM wanted {server.join_each} {server.message} "
            "AS m WHERE m.key_hash = wanted.key_hash AND m.live = 1",
            tuple(hashes),
        )
    return Statement(
        f"SELECT {server.columns(MESSAGE_COLUMNS)} FROM {server.message}{server.use[Index.LIVE_KEY]} "
        f"WHERE key_hash IN ({holes(len(hashes))}) AND live = 1{server.lock_row}",
        tuple(hashes),
    )


def id_step() -> Statement:
    """Read by how much the ids of one INSERT's rows differ (MySQL)."""
    return Statement("SELECT @@auto_increment_increment", ())


def by_id(server: Server, message_id: int) -> Statement:
    """Read a message."""
    return Statement(f"SELECT {server.columns(MESSAGE_COLUMNS)} FROM {server.message} WHERE id = %s", (message_id,))


def overwrite(server: Server, message_id: int, item: Sealed, at: object, *, parked: bool = False) -> Statement:
    """{n, run} → n with new content: body, content type, headers, priority, max_reads, lease, lane, group.

    ``parked``: it waits for something other than time, as before.
    """
    due, due_params = _due_from_now(server, item.delay, at)
    content = item[len(SENT_COLUMNS) - len(CONTENT_COLUMNS) : len(SENT_COLUMNS)]
    available, available_params = (server.parked, ()) if parked else (due, due_params)
    return Statement(
        f"UPDATE {server.message} SET {_SET_CONTENT}, available_at = {available}, due_at = {due}, status = '{NEW}', "
        "conn_id = NULL, worker_id = NULL, finished_at = NULL, read_count = 0, crashes = 0, error = NULL "
        f"WHERE id = %s AND live = 1 AND {NOT_DONE}",
        (*content, *available_params, *due_params, message_id),
    )


def _due_from_now(server: Server, delay: float, at: object) -> tuple[str, Params]:
    """Return SQL for when a message is due: never in the past, since the claim's low-water mark relies on it."""
    if at is not None:
        return server.later_of("%s", server.now), (at,)
    if delay:
        return server.from_now, (delay,)
    return server.now, ()


def one_row(
    columns: Mapping[str, Sequence[object]], defaults: Mapping[str, object] = DEFAULTS
) -> tuple[list[str], str, list[Row]]:
    """Return the names of the columns that any row sets, one row of them as SQL, and the parameters of each row."""
    words, varying = column_words(columns, defaults)
    count = max(map(len, columns.values()))
    return list(words), ", ".join(words.values()), list(zip(*varying, strict=True)) if varying else [()] * count


def column_words(
    columns: Mapping[str, Sequence[object]], defaults: Mapping[str, object] = DEFAULTS
) -> tuple[dict[str, str], list[Sequence[object]]]:
    """Return SQL for each column that any row sets, and the columns of values that its %s stand for.

    What is the default in all rows is left to the table. Other values that all rows share go into the SQL, where
    possible: a parameter costs the driver more than building the row does.
    """
    words: dict[str, str] = {}
    varying: list[Sequence[object]] = []
    for name, values in columns.items():
        first = values[0]
        alike = values.count(first) == len(values)
        if alike and first == defaults.get(name):
            continue
        if alike and (isinstance(first, int | float) or (isinstance(first, str) and _PLAIN.match(first))):
            words[name] = literal(first)
        else:
            words[name] = "%s"
            varying.append(values)
    return words, varying


@cache
def _insert_one(server: Server, names: tuple[str, ...], due: str, returning: str, ignore: bool, is_parked: bool) -> str:
    """Return the text of an INSERT; there are few, since a call sets few of the columns, and always the same ones."""
    dues = {"available_at": due, "due_at": due} if due else {}
    if is_parked:
        dues["available_at"] = server.parked
    values = ", ".join([*["%s"] * len(names), *dues.values()])
    return f"{insert_into(server, (*names, *dues))} VALUES ({values}){ending(server, returning, ignore=ignore)}"


def _of_json(names: Sequence[str], name: str) -> str:
    """Return SQL for what a row sets in this column."""
    text = f"said ->> {names.index(name)}"
    return f"({text})::{_TYPES[name]}" if name in _TYPES else text
