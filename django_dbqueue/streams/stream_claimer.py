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
from itertools import chain
from typing import Final

from django_dbqueue.claims.low_water import LowWater, Marks
from django_dbqueue.databases.session import Session
from django_dbqueue.databases.statement import SPENT_BEFORE, LanePlace, Row, new_token
from django_dbqueue.exceptions import StreamLost
from django_dbqueue.statements import changes_sql, events_sql
from django_dbqueue.states.claim_states import ACKED, OPEN
from django_dbqueue.states.ranges_in_use import priorities_in_use
from django_dbqueue.statuses import NEW
from django_dbqueue.streams import stream_claims_sql, stream_messages_sql, streams_sql
from django_dbqueue.streams.burial import Death, blamed, tell
from django_dbqueue.streams.id_ranges import Ranges, from_text, ranges_of, run_over, steps, to_text
from django_dbqueue.streams.ownership import StreamSpec, own, require_known
from django_dbqueue.streams.stream_lanes import kick_freed, moved, places_of

CHUNK: Final = 5_000
"""Messages that one transaction claims."""
MOST_CHUNKS: Final = 20
"""Transactions that fill a large claim, because each writes all its ids."""
KEPT: Final = 1_000
"""Ended claims that the ledger keeps per stream."""

logger = logging.getLogger("django_dbqueue")


@dataclass(slots=True)
class StreamClaimer:
    """A maker and acker of a stream's claims, for one run. Like a worker, it remembers where it stood in the index."""

    spec: StreamSpec
    run: int
    low_water: LowWater = field(default_factory=LowWater)
    _without_groups: set[int] = field(default_factory=set)
    """Claims of this run that are known to hold no message of a group."""
    _freed: set[int] = field(default_factory=set)
    """Lanes to be kicked, also if the session ends between the commit and the kick."""

    def next_open(self, session: Session, above: int) -> int | None:
        """Return the number of the first unfinished claim above a number."""
        rows = session.fetch(stream_claims_sql.unfinished(session.server, self.spec.name, above=above, limit=1))
        return int(rows[0][0]) if rows else None

    def claim(self, session: Session, limit: int, *, until: object = None) -> int | None:
        """Claim up to ``limit`` messages that are due (at ``until`` at the latest); return the claim's number.

        Return None if nothing is due, or if the queue is paused.
        """
        filling = _Filling(new_token())
        more = True
        while more and len(filling.ids) < limit:
            chunk = min(max(CHUNK, limit // MOST_CHUNKS), limit - len(filling.ids))
            more = session.outermost(partial(self._fill, session, filling, chunk, until))
        if filling.number is not None and not filling.has_groups:
            self._without_groups.add(filling.number)
        self._kick(session)
        return filling.number

    def _kick(self, session: Session) -> None:
        kick_freed(session, self._freed, self.spec.rules)
        self._freed.clear()

    def _fill(self, session: Session, filling: _Filling, chunk: int, until: object) -> bool:
        """Claim a chunk in one transaction; return whether more may be due."""
        server = session.server
        marks = self.low_water.begin(lambda: priorities_in_use(session, self.spec.queue, NEW))
        taken, spent = list[Row](), list[Row]()
        freed = set[int]()
        with session.transaction():
            last = own(session, self.spec.name, self.run)
            if session.fetch(streams_sql.is_paused(server, self.spec.queue)):
                return False
            self.low_water.start_reading()
            left = self._find(session, chunk, until, marks, taken, spent)
            self.low_water.stop_reading()
            if spent:
                freed = self._bury(session, spent)
            ids = [row[0] for row in taken]
            number = self._park(session, filling, ids, last) if ids else filling.number
        self.low_water.end(marks, chunk - left, is_full=not left)
        self._freed |= freed
        filling.ids += ids
        filling.has_groups |= any(row[4] is not None for row in taken)
        filling.number = number
        tell(Death(self.spec.queue, row[0], SPENT_BEFORE) for row in spent)
        if left:  # rows may have arrived below the marks, and "nothing is due" ends a query that takes what there is
            self.low_water.read_all_next()
            return not self.low_water.saw_all
        return True

    def _find(
        self, session: Session, chunk: int, until: object, marks: Marks, taken: list[Row], spent: list[Row]
    ) -> int:
        """Lock what is due after the marks, which advance; return how many of the chunk are missing."""
        left = chunk
        for priority in self.low_water.priorities:
            rows = session.fetch(
                stream_messages_sql.due_for_stream(
                    session.server, self.spec.queue, priority, left, marks.get(priority), until
                )
            )
            if rows:
                marks[priority] = (rows[-1][1], rows[-1][0])
                spent += [row for row in rows if row[3] and row[2] >= row[3]]
                taken += [row for row in rows if not (row[3] and row[2] >= row[3])]
                left -= len(rows)
            if not left:
                break
        return left

    def _bury(self, session: Session, spent: list[Row]) -> set[int]:
        """Send rows without reads to the dead letters; return the lanes to be kicked after the commit."""
        server, ranges = session.server, ranges_of(row[0] for row in spent)
        change = blamed(session, changes_sql.bury(server, SPENT_BEFORE, charged=True), self.spec.queue)
        event = change.event
        assert event is not None
        run_over(
            session,
            ranges,
            lambda among: events_sql.record(server, event, stream_messages_sql.waiting(among)),
        )
        run_over(session, ranges, lambda among: stream_messages_sql.move_due(server, change, among))
        places = sorted(LanePlace(row[4], row[0], self.spec.queue) for row in spent if row[4] is not None)
        return moved(session, change, places, self.spec.rules)

    def _park(self, session: Session, filling: _Filling, taken: list[int], last: int) -> int:
        """Take rows that this transaction has locked, and enter them into the ledger."""
        server, spec = session.server, self.spec
        change = stream_messages_sql.park(
            server, token=filling.token, session=os.getpid(), lease=spec.lease, max_reads=spec.max_reads
        )
        run_over(session, ranges_of(taken), lambda among: stream_messages_sql.move_due(server, change, among))
        every = filling.ids + taken
        ids, number = to_text(ranges_of(every)), filling.number or last + 1
        if filling.number is None:
            session.run(
                stream_claims_sql.add(server,
                    spec.name, number, queue=spec.queue, token=filling.token, ids=ids, messages=len(every),
                    attempts=0, lease=spec.lease,
                )
            )  # fmt: skip
            session.run(streams_sql.number(server, spec.name, number))
            return number
        if session.fetch(stream_claims_sql.lock(server, spec.name, number))[0][2] != OPEN:
            raise StreamLost(f"Claim {number} of the stream {spec.name!r} was released while it was being filled.")
        session.run(stream_claims_sql.change(server, spec.name, number, ids=ids, messages=len(every), attempts=0))
        return number

    def ack(self, session: Session, upto: int) -> None:
        """run → y for what the claims up to this number still hold; does nothing if that was done already.

        Rows are kept whatever ``on_ack`` is: only Django's settings know it, and a batch that Spark asks for again is
        read from them.
        """
        last = session.outermost(partial(self._check, session, upto))
        for number, _state in session.fetch(stream_claims_sql.unfinished(session.server, self.spec.name, upto=upto)):
            self._freed |= session.outermost(partial(self._ack_one, session, int(number)))
            self._without_groups.discard(int(number))
        self._kick(session)
        forget = stream_claims_sql.forget(session.server, self.spec.name, min(upto, last) - KEPT)
        session.outermost(lambda: session.run(forget))

    def _check(self, session: Session, upto: int) -> int:
        with session.transaction():
            last = own(session, self.spec.name, self.run)
        require_known(self.spec.name, upto, last)
        return last

    def _ack_one(self, session: Session, number: int) -> set[int]:
        """Ack a claim; return the lanes to be kicked after the commit."""
        server, name, freed = session.server, self.spec.name, set[int]()
        with session.transaction():
            own(session, name, self.run)
            _queue, token, state, text, messages, *_ = session.fetch(stream_claims_sql.lock(server, name, number))[0]
            if state != OPEN:
                logger.warning(
                    "stream %s: claim %s was released before it was acknowledged; its messages may be delivered again",
                    name, number,
                )  # fmt: skip
                return freed
            ranges, change = from_text(text), changes_sql.ack(server)
            places = [] if number in self._without_groups else self._places(session, ranges, token)
            acked = run_over(
                session, ranges, lambda among: stream_messages_sql.move_parked(server, change, among, token)
            )
            freed = moved(session, change, places, self.spec.rules)
            session.run(stream_claims_sql.end(server, name, number, ACKED))
        if acked < messages:
            logger.warning(
                "stream %s: of the %s messages of claim %s, %s had been moved by an operator or had died; they were "
                "not acknowledged", name, messages, number, messages - acked,
            )  # fmt: skip
        return freed

    def _places(self, session: Session, ranges: Ranges, token: int) -> list[LanePlace]:
        """Lock what a claim still holds of groups, and return its places."""
        held = stream_messages_sql.held_in_claim
        found = [places_of(session, held(among, token)) for among, _ in steps(ranges)]
        return sorted(chain.from_iterable(found))


@dataclass(slots=True)
class _Filling:
    """A claim that is being filled; its number is known with its first messages."""

    token: int
    number: int | None = None
    ids: list[int] = field(default_factory=list)
    has_groups: bool = False
