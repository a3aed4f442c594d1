"""What a claim delivers: its messages, and what becomes of a claim that keeps failing.

Attempts are counted when a task actually reads, not when Spark plans. A batch that the sink already has is planned
again after a restart but never read, and a claim that is not read is not changed. The first task of a run that reads a
claim counts the attempt before it; its other tasks find that done. From the third attempt on, a claim is split: it
keeps the first piece, and the others become claims of their own after it, so that a poison message ends up alone.
Alone, it is charged a delivery for each attempt, and is dead when its reads are spent; its neighbours were charged
once.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Final

from django_dbqueue.claims.burial import Death, announce, bury
from django_dbqueue.databases import Claim
from django_dbqueue.databases.session import Session
from django_dbqueue.databases.statement import LanePlace
from django_dbqueue.exceptions import InvalidPipeline
from django_dbqueue.statements import moves_sql
from django_dbqueue.states.spent import is_spent
from django_dbqueue.states.stream_claim_states import ACKED, FREED, FREEING, OPEN
from django_dbqueue.streams import stream_claims_sql, stream_messages_sql, streams_sql
from django_dbqueue.streams.id_ranges import Ranges, cut, from_text, size_of, to_text
from django_dbqueue.streams.ownership import StreamSpec, own, require_known
from django_dbqueue.streams.stream_lanes import kick_freed, moved

SPLIT_AFTER: Final = 2
"""Failed attempts after which a claim of several messages is split."""
PIECES: Final = 16
FAILED: Final = (
    "StreamFailed: the batches of stream {stream} that delivered this message alone failed, and its reads are spent."
)

logger = logging.getLogger("django_dbqueue")


@dataclass(frozen=True, slots=True)
class StreamDelivery:
    """What a claim delivers now: the token that fences it, and the ids."""

    token: int
    ranges: Ranges


@dataclass(slots=True)
class _Ended:
    """What is to be done once the delivery is committed."""

    freed: set[int] = field(default_factory=set)
    """Lanes to be kicked."""
    deaths: list[Death] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _ClaimRow:
    """A claim's row in the ledger."""

    queue: str
    token: int
    state: str
    ids: str
    messages: int
    attempts: int
    run: int | None
    is_overdue: bool


def planned(session: Session, stream: str, run: int, *, above: int, upto: int) -> list[tuple[int, Ranges]]:
    """Return the claims of an interval of offsets with their ids; the run is checked, and nothing is changed.

    An interval without claims is an empty batch. Spark plans one at the start of a new checkpoint, when nothing was
    claimed yet. After a kill it plans it again, and by then the stream may start after it.
    """
    with session.transaction():
        last = own(session, stream, run)
        if upto <= above and upto <= last:
            return []
        rows = session.fetch(stream_claims_sql.between(session.server, stream, above, upto))
    require_known(stream, upto, last)
    if not any(row[0] == upto for row in rows):
        raise InvalidPipeline(
            f"The checkpoint asks again for claim {upto}, which the stream {stream!r} ended long ago; its ledger is "
            f"now at claim {last} and no longer has that claim. The checkpoint is an older copy, or another query "
            "has used this name with a newer checkpoint. Start with a new checkpoint, which begins with the messages "
            "that are not acknowledged."
        )
    return [(int(number), from_text(ids)) for number, _token, state, ids in rows if state in {OPEN, ACKED}]


def deliver(session: Session, spec: StreamSpec, run: int, number: int) -> StreamDelivery:
    """Return what a task of this run may read of a claim; nothing if it was released meanwhile."""
    delivery, ended = session.outermost(lambda: _deliver(session, spec, run, number))
    announce(ended.deaths)
    kick_freed(session, ended.freed, spec.rules)
    return delivery


def _deliver(session: Session, spec: StreamSpec, run: int, number: int) -> tuple[StreamDelivery, _Ended]:
    server, stream, ended = session.server, spec.name, _Ended()
    with session.transaction():
        last = own(session, stream, run)
        claim = _ClaimRow(*session.fetch(stream_claims_sql.lock(server, stream, number))[0])
        ranges = from_text(claim.ids)
        if claim.state in {FREEING, FREED}:
            return StreamDelivery(claim.token, ()), ended
        if claim.state == ACKED or claim.run == run:
            return StreamDelivery(claim.token, ranges), ended
        failed = claim.attempts + (claim.run is not None)
        if failed >= SPLIT_AFTER and claim.messages > 1:
            ranges, *others = cut(ranges, PIECES)
            for place, piece in enumerate(others, start=1):
                session.run(
                    stream_claims_sql.add(server,
                        stream, last + place, queue=claim.queue, token=claim.token, ids=to_text(piece),
                        messages=size_of(piece), attempts=SPLIT_AFTER - 1, lease=spec.lease,
                    )
                )  # fmt: skip
            session.run(streams_sql.number(server, stream, last + len(others)))
            logger.warning(
                "stream %s: claim %s failed %s times; its %s messages are now delivered in %s pieces",
                stream, number, failed, claim.messages, 1 + len(others),
            )  # fmt: skip
            failed = SPLIT_AFTER - 1
        elif claim.run is not None and claim.messages == 1:
            _charge(session, spec, number, claim, ended)
        session.run(
            stream_claims_sql.change(
                server, stream, number, ids=to_text(ranges), messages=size_of(ranges), attempts=failed
            )
        )
        session.run(stream_claims_sql.read_by(server, stream, number, run))
    return StreamDelivery(claim.token, ranges), ended


def _charge(session: Session, spec: StreamSpec, number: int, claim: _ClaimRow, ended: _Ended) -> None:
    """Charge the one message of a claim another delivery, or send it to the dead letters if none is left."""
    server, stream = session.server, spec.name
    [(message, _)] = from_text(claim.ids)
    alone = stream_messages_sql.named([message])
    rows = session.fetch(stream_messages_sql.parked(server, alone, claim.token))
    if not rows:
        return
    _id, reads, allowed, lane = rows[0]
    if not is_spent(reads, allowed):
        held = stream_messages_sql.held_in_claim(alone, claim.token)
        session.run(moves_sql.move(server, stream_messages_sql.charge_again(), held))
        logger.warning("stream %s: message %s failed alone in claim %s, and will be retried", stream, message, number)
        return
    error = FAILED.format(stream=stream)
    change = bury(session, claim.queue, [Claim(message, claim.token)], error)
    ended.deaths.append(Death(claim.queue, message, error))
    if lane is not None:
        ended.freed |= moved(session, change, [LanePlace(lane, message, claim.queue)], spec.rules)
