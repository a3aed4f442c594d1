"""When a child is recycled: after so many messages, or with so much memory.

What handlers leak ends with their process. The child retires: it claims no more, releases what it doesn't begin soon,
and exits when its handlers have ended, however long they take. Its supervisor starts a successor in the meantime, which
claims as soon as the child has a thread with nothing to do. So fewer than twice as many messages run at once, and none
waits for a handler that is slow.
"""

from __future__ import annotations

import logging
import math
import random
import time
from typing import Final

from django_dbqueue.states.counts import counted
from django_dbqueue.worker.board import Board, Retirement
from django_dbqueue.worker.feeder import Feeder
from django_dbqueue.worker.maintenance import Maintenance
from django_dbqueue.worker.resident import in_mebibytes, resident_bytes
from django_dbqueue.worker.worker_options import EXIT_RECYCLED, EXIT_REFUSED, WorkerOptions

LEAST: Final = 0.9
"""A child draws its limits from this share of what is set to all of it, so that children don't retire together."""
MEASURED_EVERY: Final = 1.0
WORKED_OFF: Final = 1.0
"""Seconds in which a child that has claimed its last message may begin what it has fetched ahead."""
EARLY: Final = 10.0
"""Seconds: a child that has lived for less had hardly any memory to work with."""
JUDGES_FOR: Final = 5.0
"""Seconds for which a child that has nothing left to do watches a worker that seems to be dead."""
SHARE: Final = 20
FASTEST: Final = 0.01
SLOWEST: Final = 0.5
"""A successor checks whether it may claim after 1/SHARE of the time for which it has waited, within these seconds."""

logger = logging.getLogger("django_dbqueue.worker")


def refusal(options: WorkerOptions) -> str | None:
    """Return why this process, and so each child, has no memory to work with; None if it has."""
    if options.child_max_rss is None or (has := resident_bytes()) < LEAST * options.child_max_rss:
        return None
    return (
        f"--child-max-rss {in_mebibytes(options.child_max_rss)} leaves no memory for messages: before its first "
        f"message a child has {in_mebibytes(has)}, and it draws its limit from {LEAST:.0%} to 100% of what is set. "
        f"Set it well above {in_mebibytes(has / LEAST)}."
    )


class Recycling:
    """A child's limits, and how far it has retired. ``share`` is how many messages it may start (None: no limit).

    ``predecessor`` is the board of a child that retired from this one's place and may still run.
    """

    def __init__(self, options: WorkerOptions, board: Board, share: int | None, predecessor: Board | None) -> None:
        self._options = options
        self._board = board
        self._predecessor = predecessor
        self._most_messages = _drawn(options)
        if share is not None and self._most_messages is not None and share <= self._most_messages:
            self._most_messages = None  # it ends before
        self.share = share if self._most_messages is None else self._most_messages
        """How many messages the child may start before it retires."""
        self._most_bytes = math.inf
        if options.child_max_rss is not None:
            self._most_bytes = options.child_max_rss * random.uniform(LEAST, 1.0)
        self._began = time.monotonic()
        self._measured_at = self._began
        self._retired_at = self._releases_at = math.inf
        self.exit_code: int | None = None
        """With what the child is to exit once nothing is held; None: it doesn't retire."""

    def begin(self) -> None:
        """Retire at once if the limit of memory is reached before the first message: so it would be ever after."""
        if (why := refusal(self._options)) is not None:
            logger.error(why)
            self.exit_code = EXIT_REFUSED

    @property
    def may_claim(self) -> bool:
        """Return whether a predecessor, if there is one, has a thread with nothing to do."""
        return self._predecessor is None or self._predecessor.retirement >= Retirement.HAS_ROOM

    @property
    def is_alone(self) -> bool:
        """Return whether all that a predecessor began is settled."""
        return self._predecessor is None or self._predecessor.retirement is Retirement.HAS_ENDED

    @property
    def is_settled(self) -> bool:
        """Return whether neither this child nor a predecessor is about to end."""
        return self.exit_code is None and self.is_alone

    @property
    def retry_due(self) -> float:
        """Return when the last retry is due that this child or its predecessor caused, by the monotonic clock."""
        return max(board.retry_due for board in (self._board, self._predecessor) if board is not None)

    def run(self, now: float, feeder: Feeder) -> None:
        """Retire if a limit is reached, and let the successor claim when there is room."""
        if self.exit_code is not None:
            if feeder.has_room:
                self._board.note_retirement(Retirement.HAS_ROOM)
            return
        if self._most_bytes < math.inf and now >= self._measured_at + MEASURED_EVERY:
            self._measured_at = now
            if resident_bytes() >= self._most_bytes and self._started:
                self._retire(now, now, "--child-max-rss")
                return
        if self._most_messages is not None and feeder.has_claimed_all:
            if self.is_alone:
                self._retire(now, now + WORKED_OFF, "--child-max-messages")
            else:  # there is one successor at most, and a number is no reason to have less than one
                feeder.left = max(1, self._most_messages // 10)

    def ends(self, feeder: Feeder, maintenance: Maintenance) -> bool:
        """Return whether the child ends once it holds nothing: it retires, or has begun its share of the worker's.

        One that retires first finds out whether a worker is dead that seems to be. Its successor would start over.
        """
        if self.exit_code == EXIT_RECYCLED and maintenance.is_judging:
            return time.monotonic() >= self._retired_at + JUDGES_FOR
        return self.exit_code is not None or (self._most_messages is None and feeder.has_claimed_all)

    def releases(self, now: float) -> bool:
        """Return whether what has not begun is to be released: nobody knows when a thread of this child is free."""
        return now >= self._releases_at and self._started > 0

    def until_next(self, now: float) -> float:
        """Return for how many seconds nothing has to be checked here."""
        if self.may_claim:
            return self._releases_at - now if now < self._releases_at < math.inf else MEASURED_EVERY
        return min(SLOWEST, max(FASTEST, (now - self._began) / SHARE))

    def end(self) -> None:
        """Note that all that the child began is settled, if it retires."""
        if self.exit_code == EXIT_RECYCLED:
            self._board.note_retirement(Retirement.HAS_ENDED)

    @property
    def _started(self) -> int:
        return self._board.counter("started")

    def _retire(self, now: float, releases_at: float, option: str) -> None:
        """Claim no more. The time to work off what was fetched ahead spares releasing it and claiming it again."""
        self.exit_code, self._retired_at, self._releases_at = EXIT_RECYCLED, now, releases_at
        self._board.note_retirement(Retirement.RETIRES)
        has, lived = resident_bytes(), now - self._began
        is_early = option == "--child-max-rss" and lived < EARLY
        logger.log(
            logging.WARNING if is_early else logging.INFO,
            "this child retires by %s after %.1f s: it has begun %s, and has %s of memory%s",
            option, lived, counted(self._started, "message"), in_mebibytes(has),
            "; a higher limit would let it work longer" * is_early,
            extra={"event": "retired", "fields": {"by": option, "messages": self._started, "rss": has}},
        )  # fmt: skip


def _drawn(options: WorkerOptions) -> int | None:
    """Return how many messages a child may start: at least a full list, or none would ever be full."""
    if (most := options.child_max_messages) is None:
        return None
    return max(options.largest_batch, random.randint(math.ceil(LEAST * most), most))
