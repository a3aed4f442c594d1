"""Which group of failures an error belongs to: its row is found, or made.

It is looked for each time, by the unique key, and not remembered: a row that another transaction has rolled back, or
that somebody has deleted, would be found out by such a look only, and one by its id costs the same. The row holds
nothing that a failure changes, so that failures of one kind wait for each other at the first one only. Outside of a
transaction each new row is one of its own; inside the caller's they are made in one order.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from django.db import connections

from django_dbqueue.databases import dialect_of
from django_dbqueue.exceptions import DBQueueError
from django_dbqueue.lifecycle.fingerprint import Kind, kind_of
from django_dbqueue.lifecycle.statements import MAX_IDS, chunks, fetch, run, short_transaction
from django_dbqueue.retry import outermost
from django_dbqueue.snapshots import seeing_what_is

AT_ONCE: Final = 500
"""Groups that are looked at in one turn."""
TRIES: Final = 20
"""How often a group may be deleted between our INSERT and our look before we give up."""


def failure_ids(using: str, errors: Sequence[tuple[str, str | None]]) -> list[int | None]:
    """Return the id of the group of each (queue, error text), in their order; None where there is no error.

    Call it before a short transaction begins rather than inside it, where it keeps others with a new error of the same
    kind waiting until the commit.
    """
    kinds = [kind_of(text) if text and text.strip() else None for _, text in errors]
    wanted: dict[str, dict[str, Kind]] = {}
    for (queue, _), kind in zip(errors, kinds, strict=True):
        if kind is not None:
            wanted.setdefault(queue, {})[kind.fingerprint] = kind
    ids = {queue: _ids_in(using, queue, wanted[queue]) for queue in sorted(wanted)}
    return [
        None if kind is None else ids[queue][kind.fingerprint] for (queue, _), kind in zip(errors, kinds, strict=True)
    ]


def _ids_in(using: str, queue: str, kinds: dict[str, Kind]) -> dict[str, int]:
    found: dict[str, int] = {}
    for part in chunks(sorted(kinds), MAX_IDS):
        found |= _find(using, queue, part)
    for fingerprint in sorted(kinds.keys() - found.keys()):
        found[fingerprint] = outermost(connections[using], partial(_make, using, queue, kinds[fingerprint]))
    return found


def _find(using: str, queue: str, fingerprints: Sequence[str]) -> dict[str, int]:
    rows = fetch(using, dialect_of(connections[using]).find_failures(queue, fingerprints))
    return {str(fingerprint): int(number) for fingerprint, number in rows}


def _make(using: str, queue: str, kind: Kind) -> int:
    """Make the group and return its id; where another transaction was faster, that of its row."""
    connection = connections[using]
    dialect = dialect_of(connection)
    statement = dialect.create_failure(queue, kind.fingerprint, kind.exception, kind.place)
    for _ in range(TRIES):
        if dialect.returns_kept_failure:
            with seeing_what_is(connection, whatever_the_level=True), connection.cursor() as cursor:
                cursor.execute(statement.sql, statement.params)
                return int(cursor.lastrowid)
        if rows := fetch(using, statement):
            return int(rows[0][0])
        if found := _find(using, queue, [kind.fingerprint]):
            return found[kind.fingerprint]
    raise DBQueueError(
        f"The group of failures {kind.exception} of queue {queue!r} was deleted {TRIES} times while it was made: "
        "try again."
    )


def forget_failures(using: str, *, age: float, after: int = 0) -> int:
    """Delete groups that are so many seconds old and have no event left, among some behind an id.

    Return the id to go on behind, and 0 when all were looked at. A failure that meets with the deletion of its group
    belongs to none; the next one makes it anew.
    """
    connection = connections[using]
    dialect = dialect_of(connection)
    rows = fetch(using, dialect.forgotten_failures(after, age, AT_ONCE))
    ids = [row[0] for row in rows if row[1]]
    if ids:
        outermost(connection, partial(_forget, using, ids))
    return int(rows[-1][0]) if len(rows) == AT_ONCE else 0


def _forget(using: str, ids: Sequence[int]) -> None:
    with short_transaction(using):
        run(using, dialect_of(connections[using]).delete_failures(ids))
