"""What happened to a message out of the ordinary, written by the transaction that causes it.

A record is read from the rows as they are before the move, under the move's fence, and locks them. So the records cover
exactly the rows that are moved, and still know whose claim it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Final

from django_dbqueue.databases.indexes import Index
from django_dbqueue.databases.server import Server
from django_dbqueue.databases.statement import EventRecord, Statement
from django_dbqueue.exceptions import MessageCancelled, WorkerLost
from django_dbqueue.states.spent import SPENT

FAILED: Final = "failed"
"""Returned by its holder, which could not do it, and due again."""
INTERRUPTED: Final = "interrupted"
"""Cut off when its worker was stopped, and due again."""
RESCUED: Final = "rescued"
"""Taken from a holder that is gone, or whose lease has expired, and due again."""
DIED: Final = "died"
"""One of these three when its reads were spent; or found without a read left."""
REJECTED: Final = "rejected"
"""Sent to the dead letters by its holder or an operator, or because it can't be decoded."""
CANCELLED: Final = "cancelled"
"""Ended by an operator or its sender, as dead; what runs it is interrupted."""
RELEASED: Final = "released"
REQUEUED: Final = "requeued"
MOVED: Final = "moved"
"""Moved to another queue by an operator."""
HASTENED: Final = "hastened"
"""Made due before its time by an operator."""
RESENT: Final = "resent"
DROPPED: Final = "dropped"
RESULT_FORGOTTEN: Final = "result forgotten"
"""What it returned had been kept long enough, and was deleted."""
FORGOTTEN: Final = "step forgotten"
"""An operator made it forget a step, which runs again then."""

DEADLY: Final = (DIED, REJECTED, CANCELLED)
"""Kinds after which a message is dead: one for each death."""
FAILURES: Final = (FAILED, RESCUED, DIED, REJECTED)
"""Kinds that count towards a failure group."""
ATTEMPTS: Final = (FAILED, INTERRUPTED, RESCUED, DIED, REJECTED, CANCELLED)
"""Kinds that end a delivery other than by success."""

COLUMNS: Final = (
    "message_id",
    "queue",
    "kind",
    "at",
    "read_count",
    "claimed_at",
    "conn_id",
    "worker",
    "actor",
    "detail",
    "failure_id",
    "exception",
)
REJECT: Final = "django_dbqueue.consumers.Reject"
"""The class of what rejects a message with nothing but a reason."""
LOST: Final = f"{WorkerLost.__module__}.{WorkerLost.__qualname__}"
"""The class of what ends a delivery whose worker is gone."""
CANCELS: Final = f"{MessageCancelled.__module__}.{MessageCancelled.__qualname__}"
"""The class of what ends a delivery for good that its holder is to interrupt."""
ACTOR_LENGTH: Final = 200
DETAIL_LENGTH: Final = 1_000
PATH_LENGTH: Final = 300


def storable(text: object, length: int) -> str | None:
    """Return text that every server's columns accept, cut to ``length`` characters; None for '' and None.

    What names an operator may be the user itself: it is stored as its ``str()``.
    """
    if text is None or not (text := str(text)):
        return None
    return text.replace("\0", "\\0").encode("utf-8", "backslashreplace").decode()[:length]


def record(server: Server, event: EventRecord, where: Statement) -> Statement:
    """Record what is about to be done to the rows of a fence, and lock them."""
    recorded, params = facts(server, event)
    return Statement(
        f"INSERT INTO {server.event} ({', '.join(COLUMNS)}) SELECT {recorded} "
        f"FROM {server.message} AS m{server.use[Index.IDS]} WHERE {where.sql} ORDER BY id{server.lock_row}",
        (*params, *where.params),
    )


def facts(server: Server, event: EventRecord) -> tuple[str, tuple[object, ...]]:
    """Return SQL for a record's columns, reading rows aliased ``m``; of an error it keeps class and message alone."""
    detail = event.text if event.whole else storable((event.text or "").partition("\n\n")[0], DETAIL_LENGTH)
    path = storable(event.exception, PATH_LENGTH)
    failures = tuple(value for pair in event.failures for value in pair)
    return _facts(server, event.kind, event.may_die, len(event.failures), event.uncharges), (
        storable(event.actor, ACTOR_LENGTH),
        detail,
        *failures,
        path,
    )


@cache
def _facts(server: Server, kind: str, may_die: bool, failures: int, uncharges: bool) -> str:
    recorded = f"CASE WHEN {SPENT} THEN '{DIED}' ELSE '{kind}' END" if may_die else f"'{kind}'"
    failure = f"CASE queue {'WHEN %s THEN %s ' * failures}END" if failures else "NULL"
    worker = server.joined.format("w.host", "':'", "w.pid")
    reads = "read_count - 1" if uncharges else "read_count"
    return (
        f"id, queue, {recorded}, {server.now}, {reads}, claimed_at, conn_id, "
        f"(SELECT {worker} FROM {server.worker} w WHERE w.id = m.worker_id), %s, %s, {failure}, %s"
    )


def old(server: Server, age: float, limit: int, *, lock: bool = True) -> Statement:
    """Lock records ``age`` seconds old, oldest first, skipping those that others have locked; or only read them."""
    return Statement(
        f"SELECT id FROM {server.event}{server.use[Index.EVENT_AGE]} "
        f"WHERE at <= {server.from_now} ORDER BY at "
        f"LIMIT %s{server.skip_locked if lock else ''}",
        (-age, limit),
    )


def delete(server: Server, ids: Sequence[int]) -> Statement:
    """Delete records that the same transaction has locked."""
    return server.delete_each(server.event, ("id",), [(each,) for each in ids])
