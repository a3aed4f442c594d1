"""Claims of a stream, and their acks: the offsets of a query.

A claim is filled by short transactions. Each locks the stream's row (the fence: only the current run continues), locks
due messages in the claim's order, parks them under the claim's token, and writes their ids into the ledger, all in one
commit. So a message is never held by a claim that doesn't know it, and a claim that a killed runner left half filled is
delivered as it is. The next claim is made when all before it are acked, unless a failing one was split.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Final

from django_dbqueue.claims import claims_sql
from django_dbqueue.claims.burial import Death, announce, bury
from django_dbqueue.claims.claim import LowWater
from django_dbqueue.databases import Claim
from django_dbqueue.databases.session import Session
from django_dbqueue.databases.statement import SPENT_BEFORE, LanePlace, Mark, Row, new_token
from django_dbqueue.exceptions import StreamLost
from django_dbqueue.statements import moves_sql
from django_dbqueue.states.spent import is_spent
from django_dbqueue.states.stream_claim_states import ACKED, OPEN
from django_dbqueue.statuses import NEW
from django_dbqueue.streams import stream_claims_sql, stream_messages_sql, streams_sql
from django_dbqueue.streams.id_ranges import Ranges, from_text, ranges_of, run_over, steps, to_text
from django_dbqueue.streams.ownership import StreamSpec, own, require_known
from django_dbqueue.streams.stream_lanes import kick_freed, moved, places_of

CHUNK: Final = 5_000
"""Messages that one transaction claims."""
MOST_CHUNKS: Final = 20
"""Transactions that fill a large claim, because each writes all its ids."""
KEPT: Final = 1_000
"""Ended claims that the ledger keeps per stream."""

FOUND: Final = ("id", "available_at", "read_count", "max_reads", "lane")
"""The columns of the rows that a claim finds."""

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
        filling = _Filling(session, self.spec, self.run, until, new_token())
        more = True
        while more and len(filling.ids) < limit:
            chunk = min(max(CHUNK, limit // MOST_CHUNKS), limit - len(filling.ids))
            more = session.outermost(partial(self._fill, filling, chunk))
        if filling.number is not None and not filling.has_groups:
            self._without_groups.add(filling.number)
        self._kick(session)
        return filling.number

    def _kick(self, session: Session) -> None:
        kick_freed(session, self._freed, self.spec.rules)
        self._freed.clear()

    def _fill(self, filling: _Filling, chunk: int) -> bool:
        """Claim a chunk in one transaction; return whether more may be due."""
        queue = self.spec.queue
        filling.has_begun = False
        claimed, spent = self.low_water.claim(filling.session, queue, chunk, filling)
        if not filling.has_begun:  # no priority is in use, and an old run must learn of the new one all the same
            with filling.begin():
                pass
        if filling.is_paused:
            return False
        filling.add(claimed)
        self._freed |= filling.freed
        announce(Death(queue, row[0], SPENT_BEFORE) for row in spent)
        if len(claimed) + len(spent) < chunk:
            # rows may have arrived below the marks, and "nothing is due" ends a query that takes what there is
            self.low_water.read_all_next()
            return not self.low_water.saw_all
        return True

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
            ranges, change, held = from_text(text), moves_sql.ack(server), stream_messages_sql.held_in_claim
            places = [] if number in self._without_groups else self._places(session, ranges, token)
            acked = run_over(session, ranges, lambda among: moves_sql.move(server, change, held(among, token)))
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
    """A claim that is being filled. It gets its number with its first messages."""

    session: Session
    spec: StreamSpec
    run: int
    until: object
    token: int
    number: int | None = None
    ids: list[int] = field(default_factory=list)
    has_groups: bool = False
    is_paused: bool = False
    has_begun: bool = False
    """Whether a transaction was begun for this chunk."""
    freed: set[int] = field(default_factory=set)
    """Lanes to be kicked after the commit of the last chunk."""
    _next: int = 0
    """The number that the claim has, or gets with its first messages."""

    @contextmanager
    def begin(self) -> Iterator[bool]:
        """Begin the transaction of a chunk; StreamLost if another run has the stream. False if the queue is paused."""
        self.has_begun = True
        with self.session.transaction():
            last = own(self.session, self.spec.name, self.run)
            self._next, self.freed = self.number or last + 1, set()
            self.is_paused = bool(self.session.fetch(streams_sql.is_paused(self.session.server, self.spec.queue)))
            yield not self.is_paused

    def find(self, priority: int, limit: int, mark: Mark | None) -> tuple[list[Row], Mark | None]:
        """Lock what is due after the mark."""
        rows = self.session.fetch(
            claims_sql.due(self.session.server, FOUND, self.spec.queue, NEW, priority, limit, mark, until=self.until)
        )
        return rows, (rows[-1][1], rows[-1][0]) if rows else None

    def is_spent(self, found: Row) -> bool:
        """Return whether it had no reads left."""
        return is_spent(found[2], self.spec.max_reads if found[3] is None else found[3])

    def hold(self, claimed: list[Row], spent: list[Row]) -> None:
        """Park what this transaction has locked, enter it into the ledger, and bury what had no reads left."""
        session, spec = self.session, self.spec
        change = claims_sql.take(
            session.server,
            token=self.token,
            worker_id=None,
            session=os.getpid(),
            lease=spec.lease,
            max_reads=spec.max_reads,
            now=None,
            parks=True,
        )
        run_over(
            session,
            ranges_of(row[0] for row in chain(claimed, spent)),
            lambda among: moves_sql.move(session.server, change, stream_messages_sql.waiting(among)),
        )
        if claimed:
            self._enter([*self.ids, *(row[0] for row in claimed)])
        if spent:
            died = bury(session, spec.queue, [Claim(row[0], self.token) for row in spent])
            places = sorted(LanePlace(row[4], row[0], spec.queue) for row in spent if row[4] is not None)
            self.freed = moved(session, died, places, spec.rules)

    def _enter(self, every: list[int]) -> None:
        """Enter all that the claim has into the ledger."""
        session, server, name, number = self.session, self.session.server, self.spec.name, self._next
        ids = to_text(ranges_of(every))
        if self.number is None:
            session.run(
                stream_claims_sql.add(server,
                    name, number, queue=self.spec.queue, token=self.token, ids=ids, messages=len(every),
                    attempts=0, lease=self.spec.lease,
                )
            )  # fmt: skip
            session.run(streams_sql.number(server, name, number))
            return
        if session.fetch(stream_claims_sql.lock(server, name, number))[0][2] != OPEN:
            raise StreamLost(f"Claim {number} of the stream {name!r} was released while it was being filled.")
        session.run(stream_claims_sql.change(server, name, number, ids=ids, messages=len(every), attempts=0))

    def add(self, claimed: list[Row]) -> None:
        """Keep what a committed transaction has taken."""
        if claimed:
            self.number = self._next
        self.ids += [row[0] for row in claimed]
        self.has_groups |= any(row[4] is not None for row in claimed)
