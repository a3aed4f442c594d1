"""Which failure group an error belongs to: its row is found or created.

The row is looked up each time, by the unique key, and not cached: only a lookup notices a row that another transaction
has rolled back or that somebody has deleted, and a lookup by id would cost the same. The row holds nothing that a
failure changes, so failures of one kind wait for each other only at the first one. Outside a transaction, each new row
is committed on its own; inside the caller's, rows are created in a fixed order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final

from django_dbqueue.databases import Change
from django_dbqueue.databases.session import Session
from django_dbqueue.databases.statement import MAX_IDS, chunks
from django_dbqueue.exceptions import DBQueueError
from django_dbqueue.failures import failures_sql
from django_dbqueue.failures.fingerprint import Kind, kind_of
from django_dbqueue.statements.events_sql import FAILURES

TRIES: Final = 20
"""How often a group may be deleted between our INSERT and our read before we give up."""


def with_failures(session: Session, change: Change, queues: Iterable[str]) -> Change:
    """Return a change that knows which kind of failure it is in each queue of its messages.

    What a person does is not a failure, and what gives no error has no kind.
    """
    event = change.event
    if event is None or event.kind not in FAILURES or event.actor or not event.text:
        return change
    names = sorted(set(queues))
    ids = failure_ids(session, [(name, event.text) for name in names], event.exception)
    known = tuple((name, number) for name, number in zip(names, ids, strict=True) if number is not None)
    return change._replace(event=event._replace(failures=known))


def failure_ids(
    session: Session, errors: Sequence[tuple[str, str | None]], exception: str | None = None
) -> list[int | None]:
    """Return the group id of each (queue, error text), in their order; None where there is no error.

    ``exception`` is the path of their class, if it is known.

    Call it before a short transaction begins rather than inside it, where it would keep others with a new error of the
    same kind waiting until the commit.
    """
    kinds = [kind_of(text, exception) if text and text.strip() else None for _, text in errors]
    wanted: dict[str, dict[str, Kind]] = {}
    for (queue, _), kind in zip(errors, kinds, strict=True):
        if kind is not None:
            wanted.setdefault(queue, {})[kind.fingerprint] = kind
    ids = {queue: _ids_in(session, queue, wanted[queue]) for queue in sorted(wanted)}
    return [
        None if kind is None else ids[queue][kind.fingerprint] for (queue, _), kind in zip(errors, kinds, strict=True)
    ]


def _ids_in(session: Session, queue: str, kinds: dict[str, Kind]) -> dict[str, int]:
    found: dict[str, int] = {}
    for part in chunks(sorted(kinds), MAX_IDS):
        found |= _find(session, queue, part)
    for fingerprint in sorted(kinds.keys() - found.keys()):
        found[fingerprint] = session.outermost(partial(_make, session, queue, kinds[fingerprint]))
    return found


def _find(session: Session, queue: str, fingerprints: Sequence[str]) -> dict[str, int]:
    rows = session.fetch(failures_sql.find(session.server, queue, fingerprints))
    return {str(fingerprint): int(number) for fingerprint, number in rows}


def _make(session: Session, queue: str, kind: Kind) -> int:
    """Create the group and return its id; if another transaction was faster, that of its row."""
    statement = failures_sql.create(session.server, queue, kind.fingerprint, kind.exception, kind.place)
    for _ in range(TRIES):
        if (number := session.insert_or_keep(statement)) is not None:
            return number
        if found := _find(session, queue, [kind.fingerprint]):
            return found[kind.fingerprint]
    raise DBQueueError(
        f"The group of failures {kind.exception} of queue {queue!r} was deleted {TRIES} times while it was made: "
        "try again."
    )
