"""One query at a time runs a stream.

On servers with sessions, a named lock of the runner's session keeps others out, and is free the moment the session
ends, however it ends. SQLite has no sessions: there the row says which process it is, and when it last beat. Either
way, a run is a random number in the stream's row, which every later statement names. So a runner that lost its lock,
and its stream to another one, changes nothing any more and is told so.
"""

from __future__ import annotations

import os
import socket
import time
from dataclasses import dataclass, field
from typing import Final

from django_dbqueue.databases.session import Session
from django_dbqueue.databases.sessions_sql import lock_number
from django_dbqueue.databases.statement import Row, new_token
from django_dbqueue.exceptions import InvalidPipeline, StreamBusy, StreamLost
from django_dbqueue.streams import stream_claims_sql, streams_sql
from django_dbqueue.streams.stream_lanes import LaneRules

HOLD: Final = "hold"
REQUEUE: Final = "requeue"
ON_EXPIRED: Final = (HOLD, REQUEUE)
"""What becomes of a claim with an expired lease: it waits for its stream, or its messages are up for claiming."""
PATIENCE: Final = 10.0
"""Seconds that a new run waits for the one before it: a killed driver's runner is gone within five."""
GONE_AFTER: Final = 10.0
"""Seconds without a beat after which SQLite treats the row's process as gone, or the lease if it is longer."""
_CHECK_EVERY: Final = 0.2


@dataclass(frozen=True, slots=True)
class StreamSpec:
    """A stream as its query describes it; the lease is in seconds."""

    name: str
    queue: str
    lease: float = 60.0
    on_expired: str = HOLD
    max_reads: int = 5
    rules: LaneRules = field(default_factory=LaneRules)


def begin(session: Session, spec: StreamSpec, *, patience: float = PATIENCE) -> int:
    """Begin a run of a stream on this session and return its number; StreamBusy while another query has it."""
    server = session.server
    create = streams_sql.create(server, spec.name, spec.queue, spec.on_expired, spec.lease)
    session.outermost(lambda: session.run(create))
    run = new_token()

    def take_over() -> bool:
        with session.transaction():
            row = session.fetch(streams_sql.read(server, spec.name, max(spec.lease, GONE_AFTER), lock=True))[0]
            if row[0] != spec.queue:
                raise InvalidPipeline(
                    f"The stream {spec.name!r} consumes the queue {row[0]!r}, not {spec.queue!r}: use another name "
                    "and another checkpoint for the stream."
                )
            if server.sessions is None and _is_alive(row):
                return False
            session.run(
                streams_sql.own(
                    server,
                    spec.name,
                    run=run,
                    runner=f"{socket.gethostname()}:{os.getpid()}"[:200],
                    session=os.getpid(),
                    on_expired=spec.on_expired,
                    lease=spec.lease,
                )
            )
        return True

    end = time.monotonic() + patience
    while not (_take_lock(session, spec.name) and session.outermost(take_over)):
        if time.monotonic() >= end:
            raise StreamBusy(_who(session, spec))
        time.sleep(_CHECK_EVERY)
    return run


def resume(session: Session, spec: StreamSpec, run: int, *, patience: float = PATIENCE) -> None:
    """Continue a run on a new session; StreamLost if another query has taken the stream over meanwhile."""
    end = time.monotonic() + patience
    while not _take_lock(session, spec.name):
        with session.transaction():
            own(session, spec.name, run)
        if time.monotonic() >= end:
            raise StreamBusy(_who(session, spec))
        time.sleep(_CHECK_EVERY)

    def follow() -> None:
        with session.transaction():
            own(session, spec.name, run)
            session.run(streams_sql.follow_session(session.server, spec.name, os.getpid()))

    session.outermost(follow)


def end(session: Session, name: str, run: int) -> None:
    """End a run, if it is still the stream's. The session's lock ends with the session."""

    def disown() -> None:
        with session.transaction():
            row = session.fetch(streams_sql.lock(session.server, name))
            if row and row[0][0] == run:
                session.run(streams_sql.disown(session.server, name))

    session.outermost(disown)


def own(session: Session, name: str, run: int) -> int:
    """Lock the stream's row for this transaction and return its last claim's number; StreamLost for an old run."""
    rows = session.fetch(streams_sql.lock(session.server, name))
    if not rows or rows[0][0] != run:
        raise StreamLost(
            f"Another query has taken over the stream {name!r}, or somebody released it by hand. This query changed "
            "nothing after that. Stop it, and start it again if it is the one that should run."
        )
    return int(rows[0][1])


def require_known(name: str, upto: int, last: int) -> None:
    """Raise InvalidPipeline if a checkpoint is at a claim that the stream hasn't made."""
    if upto > last:
        raise InvalidPipeline(
            f"The checkpoint is at claim {upto}, but the ledger of the stream {name!r} ends at {last}: they belong "
            "to different databases, the stream was forgotten, or one of them was restored from an older copy. Start "
            "with a new checkpoint; messages that the stream holds are then delivered again."
        )


def beat(session: Session, spec: StreamSpec, run: int) -> None:
    """Record that the run is alive, and extend the leases of its claims; StreamLost for an old run."""

    def record() -> None:
        with session.transaction():
            own(session, spec.name, run)
            session.run(streams_sql.beat(session.server, spec.name))
            session.run(stream_claims_sql.extend(session.server, spec.name, spec.lease))

    session.outermost(record)


def is_running(session: Session, name: str) -> bool:
    """Return whether a query runs the stream: its session's lock is held, or on SQLite its process beats."""
    server = session.server
    rows = session.fetch(streams_sql.read(server, name, GONE_AFTER, lock=False))
    if not rows:
        return False
    if (sessions := server.sessions) is None:
        return _is_alive(rows[0])
    [(_server, holder, *_)] = session.fetch(sessions.lock_holder(_lock_of(session, name)))
    return holder is not None


def _take_lock(session: Session, name: str) -> bool:
    sessions = session.server.sessions
    return sessions is None or bool(session.fetch(sessions.take_lock(_lock_of(session, name)))[0][0])


def _lock_of(session: Session, name: str) -> int:
    """Return the number of a stream's lock; lock names are shared by all databases of a MySQL server."""
    database = session.fetch(streams_sql.database_name(session.server))[0][0]
    return lock_number("stream", database, name)


def _is_alive(row: Row) -> bool:
    """Return whether the process that a SQLite row names is alive; one elsewhere is judged by its beat alone."""
    _queue, run, runner, _session, _last, _begun, _beat, is_recent = row
    if run is None:
        return False
    host, _, pid = runner.rpartition(":")
    if host != socket.gethostname() or not is_recent:
        return bool(is_recent)
    if int(pid) == os.getpid():
        return True
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _who(session: Session, spec: StreamSpec) -> str:
    _queue, _run, runner, conn_id, _last, begun, beat_at, _recent = session.fetch(
        streams_sql.read(session.server, spec.name, 0, lock=False)
    )[0]
    return (
        f"The stream {spec.name!r} is run by {runner or 'another query'} (database session {conn_id}, since {begun}, "
        f"last beat {beat_at} UTC). Only one query at a time can run a stream: stop that one, or use another name."
    )
