"""Releasing what a stream's claims hold: by hand, or because their lease expired and ``on_expired`` is requeue.

A claim is first *freeing*, which ends it for its stream at once, and *freed* when its messages are back. In between
they are released a part at a time, and the next process continues where a killed one stopped.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from django_dbqueue.claims.burial import move
from django_dbqueue.databases import Change
from django_dbqueue.databases.session import Session
from django_dbqueue.databases.statement import LanePlace
from django_dbqueue.exceptions import InvalidPipeline, StreamBusy
from django_dbqueue.failures.failure_group_rows import with_failures
from django_dbqueue.statements import moves_sql
from django_dbqueue.states.stream_claim_states import FREED, FREEING, OPEN
from django_dbqueue.streams import stream_claims_sql, stream_messages_sql, stream_progress_sql, streams_sql
from django_dbqueue.streams.id_ranges import from_text, steps
from django_dbqueue.streams.ownership import is_running
from django_dbqueue.streams.stream_lanes import LaneRules, kick_freed, moved
from django_dbqueue.streams.stream_progress_sql import STREAM

PART: Final = 500
"""Messages that one transaction releases."""
AT_ONCE: Final = 100
"""Claims per pass."""
LEASE_EXPIRED: Final = "LeaseOver: the lease of claim {number} of stream {stream} ended, and nobody had acked it."
RELEASED: Final = "claim {number} of stream {stream} was released"


@dataclass(frozen=True, slots=True)
class ReleasedPart:
    """Released messages: their queue, the claim, and the id, reads and reads allowed of each, as they were."""

    queue: str
    stream: str
    number: int
    rows: list[tuple[int, int, int | None]]


def free_expired(
    session: Session, announce: Callable[[ReleasedPart], None], *, limit: int, rules_of: Callable[[str], LaneRules]
) -> int:
    """Release, charged and as a crash, what expired claims hold; return how many, ``limit`` or slightly more.

    This covers only streams with ``on_expired=requeue``, and claims whose release has begun. What another process is
    working on is left to it.
    """
    freed = 0
    for stream, number, state in session.fetch(stream_claims_sql.given_up(session.server, AT_ONCE)):
        has_ended = state == FREEING or session.outermost(partial(_give_up, session, stream, number))
        if has_ended and freed < limit:
            change = moves_sql.rescue(session.server, LEASE_EXPIRED.format(number=number, stream=stream))
            freed += _free(session, stream, number, change, announce, limit - freed, rules_of)
    return freed


def _give_up(session: Session, stream: str, number: int) -> bool:
    """End a claim for its stream, if its lease is still expired and nobody is working on the stream right now."""
    server = session.server
    with session.transaction():
        if not session.fetch(streams_sql.lock(server, stream, wait=False)):
            return False
        claim = session.fetch(stream_claims_sql.lock(server, stream, number))[0]
        if claim[2] == OPEN and claim[7]:
            session.run(stream_claims_sql.end(server, stream, number, FREEING))
            return True
    return False


def release_stream(session: Session, name: str, *, force: bool = False) -> int:
    """Release, uncharged, all that a stream's claims hold, and end its run; return how many messages.

    Raise StreamBusy while a query runs it, unless ``force`` is set: that query then changes nothing more, and fails.
    What its last batch may already have written to its sink is delivered again.
    """
    server = session.server
    if not session.fetch(streams_sql.read(server, name, 0, lock=False)):
        raise InvalidPipeline(
            f"There is no stream {name!r} in this database: the ledger lists only streams that have run at least once."
        )
    if not force and is_running(session, name):
        raise StreamBusy(
            f"A query is running the stream {name!r}: stop it first. Its claims are still held, and their "
            "messages would be delivered twice."
        )

    def give_up() -> list[int]:
        with session.transaction():
            session.fetch(streams_sql.lock(server, name))
            session.run(streams_sql.disown(server, name))
            claims = [int(row[0]) for row in session.fetch(stream_claims_sql.unfinished(server, name))]
            for number in claims:
                session.run(stream_claims_sql.end(server, name, number, FREEING))
        return claims

    freed = 0
    for number in session.outermost(give_up):
        change = moves_sql.release(server, why=RELEASED.format(number=number, stream=name))
        freed += _free(session, name, number, change, lambda _: None, 2**63, lambda _: LaneRules())
    return freed


def forget_stream(session: Session, name: str) -> None:
    """Delete what the ledger knows of a stream that is idle and holds nothing; its checkpoint is then unusable."""
    server = session.server
    if is_running(session, name):
        raise StreamBusy(f"A query is running the stream {name!r}: stop it first.")

    def forget() -> None:
        with session.transaction():
            rows = session.fetch(streams_sql.lock(server, name))
            if not rows:
                raise InvalidPipeline(f"There is no stream {name!r} in this database.")
            if session.fetch(stream_claims_sql.unfinished(server, name, limit=1)):
                raise InvalidPipeline(f"The stream {name!r} holds messages: release it first.")
            session.run(stream_claims_sql.forget(server, name, int(rows[0][1]) + 1))
            session.run(streams_sql.delete(server, name))
            session.run(stream_progress_sql.delete(server, STREAM + name))

    session.outermost(forget)


def _free(
    session: Session,
    stream: str,
    number: int,
    change: Change,
    announce: Callable[[ReleasedPart], None],
    limit: int,
    rules_of: Callable[[str], LaneRules],
) -> int:
    """Release what a freeing claim holds, a part at a time; it is freed when nothing is left."""
    server = session.server
    queue, token, state, text, *_ = session.fetch(stream_claims_sql.lock(server, stream, number))[0]
    if state != FREEING:
        return 0
    freed = 0
    rules = rules_of(queue)
    for among, _size in steps(from_text(text), most=PART):
        rows, lanes = session.outermost(partial(_release_part, session, queue, among, token, change, rules))
        kick_freed(session, lanes, rules)
        if rows:
            announce(ReleasedPart(queue, stream, number, rows))
        freed += len(rows)
        if freed >= limit:
            return freed
    session.outermost(lambda: session.run(stream_claims_sql.end(server, stream, number, FREED)))
    return freed


def _release_part(
    session: Session, queue: str, among: Any, token: int, change: Change, rules: LaneRules
) -> tuple[list[tuple[int, int, int | None]], set[int]]:
    """Release some messages; return them, and the lanes to be kicked after the commit."""
    lanes = set[int]()
    with session.transaction():
        rows = session.fetch(stream_messages_sql.parked(session.server, among, token))
        if rows:
            change = with_failures(session, change, [queue])
            move(session, change, stream_messages_sql.held_in_claim(among, token))
            places = sorted(LanePlace(row[3], row[0], queue) for row in rows if row[3] is not None)
            lanes = moved(session, change, places, rules)
    return [(int(row[0]), int(row[1]), row[2]) for row in rows], lanes
