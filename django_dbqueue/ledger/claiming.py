"""Claims of a stream, and their acks: the offsets of a query.

A claim is filled by short transactions. Each locks the stream's row (the fence: only the current run continues), locks
due messages in the claim's order, parks them under the claim's token, and writes their ids into the ledger, all in one
commit. So a message is never held by a claim that doesn't know it, and a claim that a killed runner left half filled is
delivered as it is. The next claim is made when all before it are acked, unless a failing one was split.
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from django_dbqueue.databases import Event
from django_dbqueue.databases.recording import DIED
from django_dbqueue.databases.streaming import ACKED, OPEN
from django_dbqueue.databases.words import SPENT_BEFORE
from django_dbqueue.exceptions import StreamLost
from django_dbqueue.ledger.asking import Asking, new_number
from django_dbqueue.ledger.ids import from_text, ranges_of, run_over, to_text
from django_dbqueue.ledger.owning import StreamSpec, own, require_known
from django_dbqueue.low_water import LowWater, Marks, priorities_in_use
from django_dbqueue.statuses import NEW

CHUNK: Final = 5_000
"""Messages that one transaction claims."""
MOST_CHUNKS: Final = 20
"""Transactions that fill a large claim, because each writes all its ids."""
KEPT: Final = 1_000
"""Ended claims that the ledger keeps per stream."""

logger = logging.getLogger("django_dbqueue")


@dataclass(slots=True)
class Claimer:
    """A maker and acker of a stream's claims, for one run. Like a worker, it remembers where it stood in the index."""

    spec: StreamSpec
    run: int
    low_water: LowWater = field(default_factory=LowWater)

    def next_open(self, connection: Asking, above: int) -> int | None:
        """Return the number of the first unfinished claim above a number."""
        rows = connection.fetch(connection.dialect.open_claims(self.spec.name, above=above, limit=1))
        return int(rows[0][0]) if rows else None

    def claim(self, connection: Asking, limit: int, *, until: Any = None) -> int | None:
        """Claim up to ``limit`` messages that are due (at ``until`` at the latest); return the claim's number.

        Return None if nothing is due, or if the queue is paused.
        """
        filling = _Filling(new_number())
        more = True
        while more and len(filling.ids) < limit:
            chunk = min(max(CHUNK, limit // MOST_CHUNKS), limit - len(filling.ids))
            more = connection.outermost(partial(self._fill, connection, filling, chunk, until))
        return filling.number

    def _fill(self, connection: Asking, filling: _Filling, chunk: int, until: Any) -> bool:
        """Claim a chunk in one transaction; return whether more may be due."""
        dialect = connection.dialect
        marks = self.low_water.begin(lambda: priorities_in_use(connection.fetch, dialect, self.spec.queue, NEW))
        taken, spent = list[int](), list[int]()
        with connection.transaction():
            last = own(connection, self.spec.name, self.run)
            if connection.fetch(dialect.is_paused(self.spec.queue)):
                return False
            with self.low_water.reading():
                left = self._find(connection, chunk, until, marks, taken, spent)
            self._bury(connection, spent)
            number = self._park(connection, filling, taken, last) if taken else filling.number
        self.low_water.end(marks, chunk - left, is_full=not left)
        filling.ids += taken
        filling.number = number
        if spent:
            logger.warning("stream %s: messages %s had no reads left and are dead", self.spec.name, spent[:20])
        if left:  # rows may have arrived below the marks, and "nothing is due" ends a query that takes what there is
            self.low_water.read_all_next()
            return not self.low_water.saw_all
        return True

    def _find(
        self, connection: Asking, chunk: int, until: Any, marks: Marks, taken: list[int], spent: list[int]
    ) -> int:
        """Lock what is due after the marks, which advance; return how many of the chunk are missing."""
        left = chunk
        for priority in self.low_water.priorities:
            rows = connection.fetch(
                connection.dialect.due_for_stream(self.spec.queue, priority, left, marks.get(priority), until)
            )
            if rows:
                marks[priority] = (rows[-1][1], rows[-1][0])
                lost = {row[0] for row in rows if row[3] and row[2] >= row[3]}
                spent += lost
                taken += [row[0] for row in rows if row[0] not in lost]
                left -= len(rows)
            if not left:
                break
        return left

    def _bury(self, connection: Asking, spent: list[int]) -> None:
        dialect, ranges = connection.dialect, ranges_of(spent)
        event, change = Event(DIED, SPENT_BEFORE), dialect.bury(SPENT_BEFORE, charged=True)
        run_over(connection, ranges, lambda among: dialect.record(event, dialect.waiting(among)))
        run_over(connection, ranges, lambda among: dialect.move_due(change, among))

    def _park(self, connection: Asking, filling: _Filling, taken: list[int], last: int) -> int:
        """Take rows that this transaction has locked, and enter them into the ledger."""
        dialect, spec = connection.dialect, self.spec
        change = dialect.park(token=filling.token, session=os.getpid(), lease=spec.lease, max_reads=spec.max_reads)
        run_over(connection, ranges_of(taken), lambda among: dialect.move_due(change, among))
        every = filling.ids + taken
        ids, number = to_text(ranges_of(every)), filling.number or last + 1
        if filling.number is None:
            connection.run(
                dialect.add_claim(
                    spec.name, number, queue=spec.queue, token=filling.token, ids=ids, messages=len(every),
                    attempts=0, lease=spec.lease,
                )
            )  # fmt: skip
            connection.run(dialect.number_stream(spec.name, number))
            return number
        if connection.fetch(dialect.lock_claim(spec.name, number))[0][2] != OPEN:
            raise StreamLost(f"Claim {number} of the stream {spec.name!r} was released while it was being filled.")
        connection.run(dialect.change_claim(spec.name, number, ids=ids, messages=len(every), attempts=0))
        return number

    def ack(self, connection: Asking, upto: int) -> None:
        """run → y for what the claims up to this number still hold; does nothing if that was done already.

        Rows are kept whatever ``on_ack`` is: only Django's settings know it, and a batch that Spark asks for again is
        read from them.
        """
        last = connection.outermost(partial(self._check, connection, upto))
        for number, _state in connection.fetch(connection.dialect.open_claims(self.spec.name, upto=upto)):
            connection.outermost(partial(self._ack_one, connection, int(number)))
        forget = connection.dialect.forget_claims(self.spec.name, min(upto, last) - KEPT)
        connection.outermost(lambda: connection.run(forget))

    def _check(self, connection: Asking, upto: int) -> int:
        with connection.transaction():
            last = own(connection, self.spec.name, self.run)
        require_known(self.spec.name, upto, last)
        return last

    def _ack_one(self, connection: Asking, number: int) -> None:
        dialect, name = connection.dialect, self.spec.name
        with connection.transaction():
            own(connection, name, self.run)
            _queue, token, state, text, messages, *_ = connection.fetch(dialect.lock_claim(name, number))[0]
            if state != OPEN:
                logger.warning(
                    "stream %s: claim %s was released before it was acknowledged; its messages may be delivered again",
                    name, number,
                )  # fmt: skip
                return
            ranges, change = from_text(text), dialect.ack()
            moved = run_over(connection, ranges, lambda among: dialect.move_parked(change, among, token))
            connection.run(dialect.end_claim(name, number, ACKED))
        if moved < messages:
            logger.warning(
                "stream %s: of the %s messages of claim %s, %s had been moved by an operator or had died; they were "
                "not acknowledged", name, messages, number, messages - moved,
            )  # fmt: skip


@dataclass(slots=True)
class _Filling:
    """A claim that is being filled; its number is known with its first messages."""

    token: int
    number: int | None = None
    ids: list[int] = field(default_factory=list)
