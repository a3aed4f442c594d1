"""Writing verdicts to the database: acks of a batch in one fenced statement, everything else one by one.

A settlement that the handler committed itself is not repeated; one that it rolled back counts as not done. After a lost
reply, the row's token shows what happened, in the table or in the history: done under our token means that the ack was
committed. If acks remove the row, nothing is left to show it, and the worker logs that.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from functools import partial

from django.db import DatabaseError, Error

from django_dbqueue import conf, hooks
from django_dbqueue.consumers.registry import Kind
from django_dbqueue.databases import Claim
from django_dbqueue.databases.statement import MAX_IDS, Kept, Tie
from django_dbqueue.failures.failure_group_rows import with_failures
from django_dbqueue.lifecycle import results_sql
from django_dbqueue.lifecycle.moves import ack_of
from django_dbqueue.lifecycle.result_rows import fits, fitting, keep, room
from django_dbqueue.lifecycle.settle_many import settle_claims, settling_all
from django_dbqueue.models import ArchivedMessage
from django_dbqueue.sessions.apart import apart
from django_dbqueue.sessions.django_session import DjangoSession, Prelude
from django_dbqueue.sessions.retry import is_passing, is_refused
from django_dbqueue.statements import moves_sql
from django_dbqueue.statuses import DONE
from django_dbqueue.worker import log_events
from django_dbqueue.worker.board import Board
from django_dbqueue.worker.delivery import Delivery
from django_dbqueue.worker.execution import Verdict
from django_dbqueue.worker.finisher import Finisher
from django_dbqueue.worker.holding import Holding
from django_dbqueue.worker.refusals import settle_otherwise
from django_dbqueue.worker.verdicts import change_of

Acks = list[tuple[Delivery, float]]
"""Deliveries to be acked, each with how many seconds its handler took."""


class Settler:
    """A collector of verdicts, which it settles on the worker's own connection."""

    def __init__(self, session: DjangoSession, holding: Holding, board: Board) -> None:
        self._session = session
        self._holding = holding
        self._board = board
        self._finish = Finisher(session, holding, board)
        self._acks: dict[tuple[str, bool], Acks] = {}
        """By what an ack does to the row, and whether a result is kept with it."""
        self._others: list[tuple[Delivery, Verdict]] = []
        self._sent: Acks = []
        self._sent_before: set[int] = set()
        self._sent_at = 0.0
        self._unstarted: list[Delivery] = []
        log_events.connect_successes()

    def __len__(self) -> int:
        return sum(map(len, self._acks.values())) + len(self._others) + len(self._unstarted)

    def add(self, delivery: Delivery, verdict: Verdict, seconds: float) -> None:
        """Take in a verdict."""
        is_settled = delivery.message.settled
        if is_settled or verdict.verb == "nothing" or delivery.cancelled_at is not None:
            self._holding.drop(delivery)
            if delivery.message.suspended is not None:
                self._finish.suspended(delivery, verdict)
            elif is_settled:
                self._finish.settled_by_its_handler(delivery, verdict, seconds)
        elif delivery.superseded:
            self._holding.drop(delivery)
        elif verdict.verb == "ack":
            delivery.result = verdict.result
            kind = (delivery.options.on_ack, verdict.result is not None)
            if (acks := self._acks.get(kind)) is None:
                acks = self._acks[kind] = []
            acks.append((delivery, seconds))
        else:
            self._others.append((delivery, verdict))

    def let_go(self, delivery: Delivery) -> None:
        """Drop a delivery whose message this child has claimed again: it is lost, and nothing is sent for it."""
        if not delivery.message.settled:
            delivery.lose("claim")
        before = len(self)
        self._acks = {kind: [each for each in acks if each[0] is not delivery] for kind, acks in self._acks.items()}
        self._others = [each for each in self._others if each[0] is not delivery]
        if len(self) < before:
            self._holding.drop(delivery)

    def release(self, deliveries: list[Delivery]) -> None:
        """Take in what has not started and is to be released, uncharged."""
        self._unstarted += deliveries

    def flush(self) -> None:
        """Settle all that was collected; what a database error left undone stays collected."""
        for acks in self._acks.values():
            self._flush_acks(acks)
        self.flush_all_but_acks()

    def flush_all_but_acks(self) -> None:
        """Settle all that can't wait for a claim's transaction."""
        if any(each.is_in_a_row for each in (*self._unstarted, *(each for each, _ in self._others))):
            for acks in self._acks.values():
                self._flush_acks(acks)  # first, so that their group's ticket is with the one that comes back
        while self._unstarted:
            apart(self._unstarted[:MAX_IDS], self._release_some, self._leave)
        while self._others:
            delivery, verdict = self._others[0]
            work = partial(self._settle_other, delivery, verdict)
            if hooks.active is None:
                work()
            else:
                hooks.active.settle(verdict.verb, delivery.message.queue, self._session.using, [delivery], work)

    def _release_some(self, unstarted: list[Delivery]) -> None:
        settle_claims(
            self._session,
            moves_sql.release(self._session.server),
            [delivery.claim for delivery in unstarted],
            ties=_ties_of(unstarted),
        )
        del self._unstarted[: len(unstarted)]
        for delivery in unstarted:
            self._holding.drop(delivery)
        self._board.count("given_back", len(unstarted))

    def _leave(self, delivery: Delivery, error: DatabaseError) -> None:
        self._settle_otherwise(delivery, Verdict("release"), error)
        del self._unstarted[0]

    def _settle_otherwise(self, delivery: Delivery, verdict: Verdict, error: Error, seconds: float = 0.0) -> None:
        ties = _ties_of([delivery])
        settle_otherwise(self._finish, delivery, verdict, error, seconds=seconds, ties=ties)

    def _settle_other(self, delivery: Delivery, verdict: Verdict) -> None:
        session, claim = self._session, delivery.claim
        refusal: DatabaseError | None = None
        try:
            change = with_failures(session, change_of(session.server, verdict), [delivery.message.queue])
            held = bool(settle_claims(session, change, [claim], ties=_ties_of([delivery])))
        except DatabaseError as error:
            if not is_refused(error):
                raise
            refusal = error
        if refusal is not None:  # what is reported now is not this error's doing
            self._settle_otherwise(delivery, verdict, refusal)
            del self._others[0]
            return
        settled, gone = self._settled_before([] if held else [claim])
        del self._others[0]
        if settled:
            self._finish.done_before(delivery, verdict)
        elif gone and delivery.options.on_ack == conf.DELETE and delivery.consumer.transactional:
            self._finish.undecided(delivery)
        else:
            self._finish.other(delivery, verdict, held=held)

    def sendable(self) -> Counter[Kind]:
        """Count the acks that the next claim's transaction can take along, by their kind of consumers."""
        return Counter([delivery.consumer.kind for delivery, _ in self._next_acks()])

    def _next_acks(self) -> Acks:
        for (_, keeps), acks in self._acks.items():
            if acks:
                most = room(self._session) if keeps else 0
                return acks[: fitting((each.result for each, _ in acks if each.result), most) if keeps else MAX_IDS]
        return []

    def send(self) -> Prelude | None:
        """Return acks that go into a claim's transaction; it raises FewerHeld if one is no longer held."""
        self._sent = self._next_acks()
        if not self._sent or not fits(self._session, _results_of(self._sent)):
            self._sent = []
            return None
        self._sent_before = _sent_of(self._sent)
        self._sent_at = time.monotonic()
        for delivery, _ in self._sent:
            delivery.ack_sent = True
        session, results = self._session, _results_of(self._sent)
        change = ack_of(session, self._sent[0][0].message.queue)  # all have one on_ack, so that one queue is enough
        then = results_sql.insert(session.server, list(results.items())) if results else None
        sent = [delivery for delivery, _ in self._sent]
        return settling_all(session, change, [delivery.claim for delivery in sent], _ties_of(sent), then)

    def refused(self) -> None:
        """Settle on its own what could not be sent with a claim, and was undone."""
        self.undone()
        self.flush()

    def undone(self) -> None:
        """Note that the server undid it, so no reply to it was lost."""
        _unsend(self._sent, self._sent_before)
        self._sent = []

    def committed(self) -> None:
        """Note that what was sent is committed."""
        sent, self._sent = self._sent, []
        if sent:
            del next(filter(None, self._acks.values()))[: len(sent)]
            self._finish.acked(sent, time.monotonic() - self._sent_at)

    def _flush_acks(self, acks: Acks) -> None:
        while acks:
            self._flush_some(acks, acks[:MAX_IDS])

    def _flush_some(self, acks: Acks, part: Acks) -> None:
        """Settle the first of the acks, ``part``."""
        session = self._session
        change, results = ack_of(session, part[0][0].message.queue), _results_of(part)
        sent_before = _sent_of(part)
        self._sent_at = time.monotonic()
        for delivery, _ in part:
            delivery.ack_sent = True
        claims = [delivery.claim for delivery, _ in part]
        refusal: Error | None = None
        try:
            then = partial(keep, session, results) if results else None
            ties = _ties_of(delivery for delivery, _ in part)
            done = {claim.id for claim in settle_claims(session, change, claims, ties=ties, then=then)}
        except Error as error:
            if is_passing(error) or is_refused(error):
                _unsend(part, sent_before)
            if not is_refused(error):
                raise
            refusal = error
        if refusal is not None:
            self._flush_apart(acks, part, refusal)
            return
        settled, gone = self._settled_before([claim for claim in claims if claim.id not in done])
        del acks[: len(part)]
        done |= settled
        acked = [(delivery, seconds) for delivery, seconds in part if delivery.claim.id in done]
        self._finish.acked(acked, time.monotonic() - self._sent_at)
        for delivery in (each for each, _ in part if each.claim.id not in done):
            if change.removes and delivery.claim.id in gone & sent_before:
                self._finish.undecided(delivery)
            else:
                self._holding.drop(delivery)
                self._holding.let_none_follow(delivery)
                delivery.lose("ack")

    def _flush_apart(self, acks: Acks, part: Acks, error: Error) -> None:
        """Settle the first of the acks, which the server refuses together, in halves, and the one that it refuses."""
        if len(part) > 1:
            half = len(part) // 2
            self._flush_some(acks, part[:half])
            self._flush_some(acks, part[half:])
            return
        [(delivery, seconds)] = part
        self._settle_otherwise(delivery, Verdict("ack", result=delivery.result), error, seconds)
        del acks[0]

    def _settled_before(self, claims: list[Claim]) -> tuple[set[int], set[int]]:
        """Return the ids done under our own token (acked by the handler, or the reply was lost), and those absent."""
        if not claims:
            return set(), set()
        server, tokens = self._session.server, dict(claims)
        rows = self._session.fetch(moves_sql.states(server, [claim.id for claim in claims]))
        done = {row[0] for row in rows if row[1] == DONE and row[2] == tokens[row[0]]}
        gone = tokens.keys() - {row[0] for row in rows}
        if gone:
            history = ArchivedMessage.objects.using(self._session.using).filter(message_id__in=gone, outcome="done")
            done |= {id_ for id_, token in history.values_list("message_id", "claim_token") if token == tokens[id_]}
        return done, gone - done


def _results_of(acks: Acks) -> dict[int, Kept]:
    return {delivery.claim.id: delivery.result for delivery, _ in acks if delivery.result is not None}


def _ties_of(deliveries: Iterable[Delivery]) -> dict[int, Tie]:
    """Return the ties of those that are in a lane or a flow, by id."""
    tied = (each for each in deliveries if each.lane is not None or each.flow is not None)
    return {each.claim.id: Tie(each.claim.id, each.consumer.queue, each.lane, each.flow) for each in tied}


def _sent_of(acks: Acks) -> set[int]:
    """Return the ids of those whose ack was sent to the database before."""
    return {delivery.claim.id for delivery, _ in acks if delivery.ack_sent}


def _unsend(acks: Acks, sent_before: set[int]) -> None:
    for delivery, _ in acks:
        delivery.ack_sent = delivery.claim.id in sent_before
