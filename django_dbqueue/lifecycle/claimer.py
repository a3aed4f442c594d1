"""What a worker adds to a claim: its acks in the same transaction, followers, messages that are built when needed."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from django.db import DatabaseError

from django_dbqueue import conf, signals
from django_dbqueue.claims import claims_sql
from django_dbqueue.claims.burial import bury
from django_dbqueue.claims.claim import LowWater
from django_dbqueue.claims.claim_rows import Claimed, ClaimSource, Terms, take_range
from django_dbqueue.claims.followers import Followers, take_along
from django_dbqueue.databases import Change, Statement
from django_dbqueue.databases.statement import SPENT_BEFORE, Mark, Tie, new_token
from django_dbqueue.lanes import lane_moves
from django_dbqueue.lifecycle.hydration import hydrator
from django_dbqueue.lifecycle.moves import untied
from django_dbqueue.lifecycle.settle_many import FewerHeld
from django_dbqueue.sessions.django_session import DjangoSession, MessageType, Prelude
from django_dbqueue.sessions.retry import is_doubtful, is_passing, is_refused
from django_dbqueue.states.spent import is_spent

WAITED_SHARE = 0.1
"""Share of the lease that a claim sent together with acks, which wait for locks, may take."""


class Partner(Protocol):
    """What shares a claim's transaction, and therefore its commit."""

    def send(self) -> Prelude | None:
        """Return what goes into that transaction, if anything; again on a restart. Its check may raise FewerHeld."""

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
    _terms: Terms = field(init=False, repr=False)
    _source: ClaimSource = field(init=False, repr=False)
    _partner: Partner | None = None
    """What shares the transaction of the claim that is being made."""

    def claim(self, limit: int, *, lease: float, max_reads: int) -> list[Any]:
        """Return up to ``limit`` claimed messages, in order; if fewer, and ``low_water.saw_all``, no more was due."""
        return [claimed.message for claimed in self.take(limit, lease=lease, max_reads=max_reads)]

    def take(self, limit: int, *, lease: float, max_reads: int, partner: Partner | None = None) -> list[Claimed]:
        """Claim, and leave it to the handling thread to build the messages.

        ``partner`` is what may go into the same transaction. The claim goes alone if there is none, or if it raises
        FewerHeld or is refused.
        """
        messages: list[Claimed] = []
        followers: Followers = {}
        self._terms, self._partner = Terms(0, self.worker_id, lease, max_reads), partner
        while True:
            self.followers = {}
            ask = partial(self.low_water.claim, self.session, self.queue, limit - len(messages), self)
            try:
                claimed, spent = self.session.outermost(ask, passing=self._passes)
            except (FewerHeld, DatabaseError) as error:
                if self._partner is None or not (
                    isinstance(error, FewerHeld) or is_refused(error) or is_doubtful(error)
                ):
                    raise
                self._partner.refused()
                self._partner = None
                continue
            messages += claimed
            followers |= self.followers
            if not spent:
                self.followers = followers
                return messages
            for each in spent:
                fields = {"queue": self.queue, "message_id": each.claim.id, "error": SPENT_BEFORE}
                signals.message_died.send(self.model, **fields, using=self.session.using)

    def _passes(self, error: BaseException) -> bool:
        passes = is_passing(error)
        if passes and self._partner is not None:
            self._partner.undone()
        return passes

    @contextmanager
    def begin(self) -> Iterator[bool]:
        """Begin a transaction, with what shares it."""
        build, terms = partial(hydrator, self.model, self.session.using), self._terms._replace(token=new_token())
        self._source = ClaimSource(build, self.session, self.queue, terms, self.most_bytes)
        self.followers = {}
        with self.session.transaction(saves_a_journey=True), self._sending():
            yield True
        if self._partner is not None:
            self._partner.committed()

    def find(self, priority: int, limit: int, mark: Mark | None) -> tuple[list[Claimed], Mark | None]:
        """Take what is due after the mark."""
        return take_range(self._source, priority, limit, mark)

    def is_spent(self, found: Claimed) -> bool:
        """Return whether it had no reads left."""
        # most are delivered for the first time
        return found.read_count > 1 and is_spent(found.read_count - 1, found.max_reads)

    def hold(self, claimed: list[Claimed], spent: list[Claimed]) -> None:
        """Take along those that follow what was taken in their groups, and bury what had no reads left."""
        if claimed and self.in_a_row > 1:
            most = (self.room - len(claimed)) // 2
            width = conf.queue_options(self.queue).group_limit
            self.followers = take_along(self._source, claimed, each=self.in_a_row - 1, most=most, width=width)
        if spent:
            change = bury(self.session, self.queue, [each.claim for each in spent])
            untied(self.session, change, [Tie(each.claim.id, self.queue, each.lane, each.flow) for each in spent])

    def _sending(self) -> AbstractContextManager[None]:
        """Send what shares the transaction with the claim's first statement, or before it where that one is timed."""
        prelude = None if self._partner is None else self._partner.send()
        if prelude is None:
            return nullcontext()
        if self.low_water.saw_all or prelude.finish is not None:
            self.session.run_prelude(prelude)
            return nullcontext()
        began = time.monotonic()

        def check(matched: int) -> None:
            prelude.check(matched)
            # PostgreSQL's clock stands still for statements sent together, so the leases began with the acks
            if time.monotonic() - began > WAITED_SHARE * self._terms.lease:
                raise FewerHeld

        return self.session.with_first_statement(prelude._replace(check=check))


def claim_by_id(
    model: MessageType, session: DjangoSession, message_id: int, *, lease: float, max_reads: int
) -> Any | None:
    """Claim this one message, due or not; return None if it is claimed or finished. For tests that need some state.

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
