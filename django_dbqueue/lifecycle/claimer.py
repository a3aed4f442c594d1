"""The claim: n → run, one bounded range of the index ``dbqueue_claim`` per priority, highest first.

A claimer gets the first due rows that it can see, ordered by priority, due time and id. Each row goes to one claimer:
rows are locked as they are found, and locked ones are skipped (promise P4). When two claim at once, they get different
rows, and neither waits. The token, drawn before the claim, is the fence that everything later is checked against
(promise P5).
"""

from __future__ import annotations

import os
import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from django.db import DatabaseError

from django_dbqueue import signals
from django_dbqueue.claims import claims_sql
from django_dbqueue.claims.low_water import LowWater, Marks
from django_dbqueue.databases import Change, Statement
from django_dbqueue.databases.statement import SPENT_BEFORE, new_token
from django_dbqueue.lanes import lane_moves
from django_dbqueue.lifecycle.claim_rows import Claimed, ClaimRange, Terms, take_range
from django_dbqueue.lifecycle.followers import Followers, take_along
from django_dbqueue.lifecycle.hydration import hydrator
from django_dbqueue.lifecycle.moves import blamed
from django_dbqueue.lifecycle.settle import Short, settle_claims
from django_dbqueue.sessions.django_session import Ahead, DjangoSession, MessageType
from django_dbqueue.sessions.retry import is_passing, is_refused
from django_dbqueue.statements import changes_sql
from django_dbqueue.states.ranges_in_use import priorities_in_use
from django_dbqueue.statuses import NEW

WAITED_SHARE = 0.1
"""Share of the lease that a claim sent together with acks, which wait for locks, may take."""


class Beside(Protocol):
    """What shares a claim's transaction, and therefore its commit."""

    def send(self) -> Ahead | None:
        """Return what goes into that transaction, if anything; called again on a restart. Its check may raise Short."""

    def committed(self) -> None:
        """Note that the transaction committed."""

    def undone(self) -> None:
        """Note that the server rolled it back, and that it is being sent again with the claim."""

    def refused(self) -> None:
        """Note that it was undone: what it was to do must be done now, in a transaction of its own."""


@dataclass(slots=True)
class Claimer:
    """A repeated claimer of one queue that remembers where it stood (``low_water``)."""

    model: MessageType
    session: DjangoSession
    queue: str
    worker_id: int | None = None
    most_bytes: int | None = None
    """The database keeps a larger body until the worker that handles the message reads it."""
    in_a_row: int = 1
    """How many of a group are taken at once, the queue's ``group_batch``: all but the first are ``followers``."""
    room: int = 0
    """For how many messages there is room; followers take up to half of what the first of all groups leave."""
    followers: Followers = field(default_factory=dict)
    """What the last claim has taken along, by the id of the group's first."""
    low_water: LowWater = field(default_factory=LowWater)

    def claim(self, limit: int, *, lease: float, max_reads: int) -> list[Any]:
        """Return up to ``limit`` claimed messages, in order; if fewer, and ``low_water.saw_all``, no more was due."""
        return [claimed.message for claimed in self.take(limit, lease=lease, max_reads=max_reads)]

    def take(self, limit: int, *, lease: float, max_reads: int, beside: Beside | None = None) -> list[Claimed]:
        """Claim, and leave it to the handling thread to build the messages.

        ``beside`` is what may go into the same transaction. The claim goes alone if there is none, or if it is Short or
        refused.
        """
        taken: list[Claimed] = []
        followers: Followers = {}
        while True:
            ask = partial(self._claim, limit - len(taken), Terms(0, self.worker_id, lease, max_reads), beside)
            try:
                claimed, spent = self.session.outermost(ask, passing=partial(_passes, beside))
            except (Short, DatabaseError) as error:
                if beside is None or not (isinstance(error, Short) or is_refused(error)):
                    raise
                beside.refused()
                beside = None
                continue
            taken += claimed
            followers |= self.followers
            if not spent:
                self.followers = followers
                return taken
            for each in spent:
                signals.message_died.send(self.model, queue=self.queue, message_id=each.claim.id, error=SPENT_BEFORE)

    def _claim(self, limit: int, terms: Terms, beside: Beside | None) -> tuple[list[Claimed], list[Claimed]]:
        """Return what was claimed, and what was buried: rows written by SQL that had no reads left."""
        marks = self.low_water.begin(partial(priorities_in_use, self.session, self.queue, NEW))
        if not self.low_water.priorities:
            taken, spent = list[Claimed](), list[Claimed]()
        else:
            taken, spent = self._take(limit, terms._replace(token=new_token()), marks, beside)
        self.low_water.end(marks, len(taken), is_full=len(taken) == limit)
        return [each for each in taken if each not in spent] if spent else taken, spent

    def _take(
        self, limit: int, terms: Terms, marks: Marks, beside: Beside | None
    ) -> tuple[list[Claimed], list[Claimed]]:
        """Return what was claimed after the marks, which advance, and which of it was buried."""
        session = self.session
        build = partial(hydrator, self.model, session.using)
        taken: list[Claimed] = []
        with session.transaction(saves_a_journey=True), self._sending(beside, terms.lease):
            self.low_water.start_reading()
            for priority in self.low_water.priorities:
                source = ClaimRange(build, session, self.queue, priority, self.most_bytes)
                found, mark = take_range(source, limit - len(taken), marks.get(priority), terms)
                taken += found
                if mark is not None:
                    marks[priority] = mark
                if len(taken) == limit:
                    break
            self.low_water.stop_reading()
            self.followers = {}
            if taken and self.in_a_row > 1:
                source, most = ClaimRange(build, session, self.queue, 0, self.most_bytes), self.room - len(taken)
                self.followers = take_along(source, taken, terms, each=self.in_a_row - 1, most=most // 2)
            spent = [each for each in taken if 0 < each.max_reads < each.read_count]
            if spent:
                change = blamed(session, changes_sql.bury(session.server, SPENT_BEFORE), [self.queue])
                settle_claims(session, change, [each.claim for each in spent])
        if beside is not None:
            beside.committed()
        return taken, spent

    def _sending(self, beside: Beside | None, lease: float) -> AbstractContextManager[None]:
        """Send what shares the transaction with the claim's first statement, or before it where that one is timed."""
        ahead = None if beside is None else beside.send()
        if ahead is None:
            return nullcontext()
        if self.low_water.saw_all or ahead.finish is not None:
            self.session.run_ahead(ahead)
            return nullcontext()
        began = time.monotonic()

        def check(matched: int) -> None:
            ahead.check(matched)
            # PostgreSQL's clock stands still for statements sent together, so the leases began with the acks
            if time.monotonic() - began > WAITED_SHARE * lease:
                raise Short

        return self.session.ahead_of_the_first(ahead._replace(check=check))


def _passes(beside: Beside | None, error: BaseException) -> bool:
    passes = is_passing(error)
    if passes and beside is not None:
        beside.undone()
    return passes


def claim_by_id(
    model: MessageType, session: DjangoSession, message_id: int, *, lease: float, max_reads: int
) -> Any | None:
    """Claim this one message, due or not; return None if it is taken or finished. For tests that need a certain state.

    One of a group needs no turn: it leaves its line, and gets a ticket even if all of its group are out.
    """
    server = session.server
    token = new_token()
    process = None if server.session_id else os.getpid()
    change = claims_sql.take(
        server, token=token, worker_id=None, session=process, lease=lease, max_reads=max_reads, now=None
    )
    if not session.outermost(partial(_take_out_of_turn, session, message_id, change)):
        return None
    message: Any = model._default_manager.using(session.using).get(pk=message_id)
    message.held_token = token
    return message


def _take_out_of_turn(session: DjangoSession, message_id: int, change: Change) -> bool:
    with session.transaction():
        if session.run(claims_sql.take_ids(session.server, [message_id], change)) != 1:
            return False
        for place in lane_moves.places_of(session, Statement("id = %s", (message_id,))):
            lane_moves.let_in(session, place)
    return True
