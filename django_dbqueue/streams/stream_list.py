"""What the ledger reports about its streams, for people."""

from __future__ import annotations

from dataclasses import dataclass

from django_dbqueue.databases.session import Session
from django_dbqueue.streams import streams_sql
from django_dbqueue.streams.backlog import MOST_COUNTED, Backlog, count_backlog
from django_dbqueue.streams.ownership import is_running


@dataclass(frozen=True, slots=True)
class StreamSummary:
    """A stream: what it consumes, who runs it, what its unacked claims hold. ``beat_at`` is in the driver's form."""

    name: str
    queue: str
    on_expired: str
    runner: str
    conn_id: int | None
    last_number: int
    beat_at: object
    claims: int
    messages: int
    overdue: int
    """Claims whose lease has expired: nothing keeps them alive."""
    is_running: bool
    backlog: Backlog
    """Of its queue, which other consumers may share."""


def streams(session: Session) -> list[StreamSummary]:
    """Return every stream that has ever run, by name."""
    rows = session.fetch(streams_sql.all_streams(session.server))
    found: list[StreamSummary] = []
    for name, queue, on_expired, runner, conn_id, last, beat_at, claims, messages, overdue in rows:
        held = (int(claims), int(messages or 0), int(overdue))
        running = is_running(session, name)
        backlog = count_backlog(session, queue, MOST_COUNTED)
        found.append(StreamSummary(name, queue, on_expired, runner, conn_id, last, beat_at, *held, running, backlog))
    return found
