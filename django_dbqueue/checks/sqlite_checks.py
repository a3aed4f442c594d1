"""SQLite: whether writers wait for each other instead of failing, and whether a commit is on disk."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from django.core import checks
from django.db import OperationalError
from django.db.backends.base.base import BaseDatabaseWrapper

from django_dbqueue.checks.answers import answers
from django_dbqueue.databases.server_facts import json_read, sqlite_pragmas

_LOCK_AT_ONCE = {"IMMEDIATE", "EXCLUSIVE"}
_NAMES = {"0": "OFF", "1": "NORMAL"}


def check(connection: Any) -> list[checks.CheckMessage]:
    """Check library and file; a database in memory is for tests and has no file."""
    found = [*check_returning(connection), *check_json(connection), *check_transaction_mode(connection)]
    if not connection.is_in_memory_db():
        said = answers(connection, sqlite_pragmas())
        found += [*check_durability(connection.alias, said), *check_journal(connection.alias, said)]
    return found


def check_returning(connection: BaseDatabaseWrapper) -> Iterator[checks.CheckMessage]:
    """Check for UPDATE … RETURNING, which settlements use; it came with INSERT … RETURNING."""
    if not connection.features.can_return_columns_from_insert:
        yield checks.Error(
            f"The SQLite library of the database {connection.alias!r} has no RETURNING, which tells the queue what "
            "it wrote.",
            hint="Use SQLite 3.35 or newer: a newer Python or operating system includes it.",
            id="dbqueue.E012",
        )


def check_json(connection: BaseDatabaseWrapper) -> Iterator[checks.CheckMessage]:
    """Check that JSON can be read: settlements pass ids as a JSON array, which some libraries can't read."""
    try:
        answers(connection, json_read())
    except OperationalError as error:
        if "json_each" not in str(error):
            raise
        yield checks.Error(
            f"The SQLite library of the database {connection.alias!r} has no JSON functions, with which the queue "
            "names many messages at once.",
            hint="Use SQLite 3.38 or newer, which has them unless it was compiled without, or an older one with JSON1.",
            id="dbqueue.E012",
        )


def check_transaction_mode(connection: BaseDatabaseWrapper) -> Iterator[checks.CheckMessage]:
    """Check the transaction mode: a deferred one that read first is refused at its first write, without waiting."""
    mode = str(connection.settings_dict.get("OPTIONS", {}).get("transaction_mode") or "DEFERRED")
    if mode.upper() not in _LOCK_AT_ONCE:
        yield checks.Warning(
            f"Transactions in the database {connection.alias!r} begin {mode.upper()}: a transaction that reads "
            "before it writes fails at once with 'database is locked' if a worker writes in the meantime, whatever "
            "the timeout.",
            hint="Set 'transaction_mode': 'IMMEDIATE' and 'timeout': 20 in OPTIONS.",
            id="dbqueue.W014",
        )


def check_durability(alias: str, said: Mapping[str, str]) -> Iterator[checks.CheckMessage]:
    """Check durability: promise P1 holds only as far as the file keeps what was committed."""
    level = said.get("synchronous", "2")
    if level in _NAMES:
        danger = "damage the file" if level == "0" else "undo the last commits"
        yield checks.Warning(
            f"PRAGMA synchronous is {_NAMES[level]} in the database {alias!r}: a power failure can {danger} and so "
            "lose enqueued messages.",
            hint=(
                "Put PRAGMA synchronous=FULL into 'init_command' of OPTIONS, or accept the risk and silence this check."
            ),
            id="dbqueue.W010",
        )


def check_journal(alias: str, said: Mapping[str, str]) -> Iterator[checks.CheckMessage]:
    """Check the journal: without a write-ahead log, a reader blocks the writer, and the writer all readers."""
    mode = said.get("journal_mode", "wal")
    if mode.lower() != "wal":
        yield checks.Warning(
            f"The file of the database {alias!r} has no write-ahead log (PRAGMA journal_mode is {mode}): each reader "
            "blocks the workers, and they block all readers.",
            hint="Set 'init_command': 'PRAGMA journal_mode=WAL' in OPTIONS; not on a network file system.",
            id="dbqueue.W015",
        )
