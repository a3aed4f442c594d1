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
from dataclasses import dataclass
from typing import Final

from django_dbqueue.databases.streaming import ACKED, FREED, FREEING, OPEN
from django_dbqueue.exceptions import InvalidPipeline
from django_dbqueue.ledger.asking import Asking, move_parked
from django_dbqueue.ledger.ids import Ranges, cut, from_text, size_of, to_text
from django_dbqueue.ledger.owning import own, require_known

SPLIT_AFTER: Final = 2
"""Failed attempts after which a claim of several messages is split."""
PIECES: Final = 16
FAILED: Final = (
    "StreamFailed: the batches of stream {stream} that delivered this message alone failed, and its reads are spent."
)

logger = logging.getLogger("django_dbqueue")


@dataclass(frozen=True, slots=True)
class Delivery:
    """What a claim delivers now: the token that fences it, and the ids."""

    token: int
    ranges: Ranges


@dataclass(frozen=True, slots=True)
class _Standing:
    """A claim's row in the ledger."""

    queue: str
    token: int
    state: str
    ids: str
    messages: int
    attempts: int
    run: int | None
    is_overdue: bool


def planned(connection: Asking, stream: str, run: int, *, above: int, upto: int) -> list[tuple[int, Ranges]]:
    """Return the claims of an interval of offsets with their ids; the run is checked, and nothing is changed.

    An interval without claims is an empty batch. Spark plans one at the start of a new checkpoint, when nothing was
    claimed yet. After a kill it plans it again, and by then the stream may start after it.
    """
    with connection.transaction():
        last = own(connection, stream, run)
        if upto <= above and upto <= last:
            return []
        rows = connection.fetch(connection.dialect.claims_between(stream, above, upto))
    require_known(stream, upto, last)
    if not any(row[0] == upto for row in rows):
        raise InvalidPipeline(
            f"The checkpoint asks again for claim {upto}, which the stream {stream!r} ended long ago; its ledger is "
            f"now at claim {last} and no longer has that claim. The checkpoint is an older copy, or another query "
            "has used this name with a newer checkpoint. Start with a new checkpoint, which begins with the messages "
            "that are not acknowledged."
        )
    return [(int(number), from_text(ids)) for number, _token, state, ids in rows if state in {OPEN, ACKED}]


def deliver(connection: Asking, stream: str, run: int, number: int, *, lease: float) -> Delivery:
    """Return what a task of this run may read of a claim; nothing if it was released meanwhile."""
    return connection.outermost(lambda: _deliver(connection, stream, run, number, lease))


def _deliver(connection: Asking, stream: str, run: int, number: int, lease: float) -> Delivery:
    dialect = connection.dialect
    with connection.transaction():
        last = own(connection, stream, run)
        claim = _Standing(*connection.fetch(dialect.lock_claim(stream, number))[0])
        ranges = from_text(claim.ids)
        if claim.state in {FREEING, FREED}:
            return Delivery(claim.token, ())
        if claim.state == ACKED or claim.run == run:
            return Delivery(claim.token, ranges)
        failed = claim.attempts + (claim.run is not None)
        if failed >= SPLIT_AFTER and claim.messages > 1:
            ranges, *others = cut(ranges, PIECES)
            for place, piece in enumerate(others, start=1):
                connection.run(
                    dialect.add_claim(
                        stream, last + place, queue=claim.queue, token=claim.token, ids=to_text(piece),
                        messages=size_of(piece), attempts=SPLIT_AFTER - 1, lease=lease,
                    )
                )  # fmt: skip
            connection.run(dialect.number_stream(stream, last + len(others)))
            logger.warning(
                "stream %s: claim %s failed %s times; its %s messages are now delivered in %s pieces",
                stream, number, failed, claim.messages, 1 + len(others),
            )  # fmt: skip
            failed = SPLIT_AFTER - 1
        elif claim.run is not None and claim.messages == 1:
            _charge(connection, stream, number, claim)
        connection.run(
            dialect.change_claim(stream, number, ids=to_text(ranges), messages=size_of(ranges), attempts=failed)
        )
        connection.run(dialect.read_by(stream, number, run))
    return Delivery(claim.token, ranges)


def _charge(connection: Asking, stream: str, number: int, claim: _Standing) -> None:
    """Charge the one message of a claim another delivery, or send it to the dead letters if none is left."""
    dialect = connection.dialect
    [(message, _)] = from_text(claim.ids)
    alone = dialect.named([message])
    rows = connection.fetch(dialect.parked(alone, claim.token))
    if not rows:
        return
    _id, reads, allowed = rows[0]
    if allowed and reads >= allowed:
        error = FAILED.format(stream=stream)
        move_parked(connection, dialect.bury(error, charged=True), alone, claim.token)
        logger.error("message %s of %s is dead: %s", message, claim.queue, error)
    else:
        connection.run(dialect.move_parked(dialect.charge_again(), alone, claim.token))
        logger.warning("stream %s: message %s failed alone in claim %s, and will be retried", stream, message, number)
