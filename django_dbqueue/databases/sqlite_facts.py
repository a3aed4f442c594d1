"""What SQLite is asked about itself: whether writers wait for each other, and a commit is on disk."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from django_dbqueue.databases.facts import Examined, Judgement, ServerFacts
from django_dbqueue.databases.query_plans import sqlite_plan
from django_dbqueue.databases.statement import Statement

SHORTEST_TIMEOUT: Final = 20
"""Seconds that it should wait for another writer."""
_LOCK_AT_ONCE: Final = {"IMMEDIATE", "EXCLUSIVE"}
_WEAK: Final = {"0": ("OFF", "damage the file"), "1": ("NORMAL", "undo the last commits")}
_PRAGMAS: Final = Statement(
    "SELECT 'synchronous', synchronous FROM pragma_synchronous UNION ALL "
    "SELECT 'journal_mode', journal_mode FROM pragma_journal_mode UNION ALL "
    "SELECT 'query_only', query_only FROM pragma_query_only UNION ALL "
    "SELECT 'busy_timeout', timeout FROM pragma_busy_timeout",
    (),
)
"""``journal_mode`` is a word, all others are numbers."""


def skip_locked(of: Examined) -> Iterator[Judgement]:
    """UPDATE … RETURNING, which settlements use, came with INSERT … RETURNING; with one writer, nothing is skipped."""
    has_returning = of.connection.features.can_return_columns_from_insert
    yield Judgement("RETURNING" if has_returning else "no RETURNING")


def json(of: Examined) -> Iterator[Judgement]:
    """Settlements pass ids as a JSON array, which some libraries can't read."""
    try:
        of.ask(json_read())
    except Exception as error:
        if "json_each" not in str(error):
            raise
        yield Judgement("no JSON")


def transaction_mode(of: Examined) -> Iterator[Judgement]:
    """A deferred transaction that read first is refused at its first write, without waiting."""
    mode = str(of.options.get("transaction_mode") or "DEFERRED").upper()
    yield Judgement("locks at once" if mode in _LOCK_AT_ONCE else "locks late", {"mode": mode})
    timeout = float(of.options.get("timeout", 5))
    if timeout < SHORTEST_TIMEOUT:
        yield Judgement("waits briefly", {"seconds": timeout, "wanted": str(SHORTEST_TIMEOUT)})


def durability(of: Examined) -> Iterator[Judgement]:
    """Promise P1 holds only as far as the file keeps what was committed; one in memory ends with its process."""
    level = of.answers.get("synchronous", "2")
    if of.connection.is_in_memory_db():
        yield Judgement("in memory", {"alias": of.alias})
    elif level in _WEAK:
        yield Judgement("loses power", dict(zip(("level", "danger"), _WEAK[level], strict=True)))
    else:
        yield Judgement("SQLite confirms late", {"level": level})


def journal_mode(of: Examined) -> Iterator[Judgement]:
    """Without a write-ahead log, a reader blocks the writer, and the writer all readers."""
    if not of.connection.is_in_memory_db():
        mode = of.answers.get("journal_mode", "wal")
        yield Judgement("logs ahead" if mode.lower() == "wal" else "no log ahead", {"mode": mode})


def writable(of: Examined) -> Iterator[Judgement]:
    """Judge whether this account may write the file, and its directory, where the journal goes; and this session."""
    if of.connection.is_in_memory_db():
        return
    path = Path(of.connection.settings_dict["NAME"]).absolute()
    by_effective = os.access in os.supports_effective_ids
    closed = [str(it) for it in (path, path.parent) if not os.access(it, os.W_OK, effective_ids=by_effective)]
    closed += ["PRAGMA query_only"] if of.are_on("query_only") else []
    yield Judgement("read-only file", {"names": ", ".join(closed)}) if closed else Judgement("writable")


def json_read() -> Statement:
    """Read a JSON array's values."""
    return Statement("SELECT value FROM json_each('[1]')", ())


def wait_briefly(seconds: int) -> Statement:
    """Limit how long the session waits for the write lock."""
    return Statement(f"PRAGMA busy_timeout = {1000 * seconds}", ())


def wait_as_before(answers: Mapping[str, str]) -> Statement:
    """Restore what that changed."""
    return Statement(f"PRAGMA busy_timeout = {int(answers['busy_timeout'])}", ())


def whole_size(_table: str) -> Statement:
    """Read one row: the bytes of the file, with all that is in it."""
    return Statement("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size", ())


SQLITE_FACTS: Final = ServerFacts(
    settings=_PRAGMAS,
    judges={
        "skip-locked": skip_locked,
        "json": json,
        "transaction-mode": transaction_mode,
        "durability": durability,
        "journal-mode": journal_mode,
        "writable": writable,
    },
    explain="EXPLAIN QUERY PLAN ",
    read_plan=sqlite_plan,
    questions={"wait as before": wait_as_before, "wait briefly": wait_briefly, "whole size": whole_size},
)
