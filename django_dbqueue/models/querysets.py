"""The single entry point: everything that changes a message goes through here. Adjectives select, verbs change."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import takewhile
from typing import Self

from django.db import models

from django_dbqueue.codecs import Json
from django_dbqueue.envelope import check_queue, check_whole, hash_of_key
from django_dbqueue.exceptions import DBQueueError, InvalidMessage
from django_dbqueue.lifecycle import archive
from django_dbqueue.models.editing import send_edited
from django_dbqueue.models.fields import DbNow
from django_dbqueue.models.message_row import AnyMessage
from django_dbqueue.models.message_verbs import MAX_CLAIM, Verbs
from django_dbqueue.operations.mover import move_all
from django_dbqueue.operations.outcome import Changed
from django_dbqueue.operations.seen import Seen
from django_dbqueue.operations.verbs import VERBS, Order, cancelling, check_target
from django_dbqueue.sessions.django_session import session_of
from django_dbqueue.states.ranges_in_use import priorities_in_use
from django_dbqueue.states.selections import ordering_of, q_of
from django_dbqueue.states.stream_claim_states import overdue_tokens
from django_dbqueue.states.table import STATES, Stage


class MessageQuerySet(Verbs[AnyMessage], models.QuerySet[AnyMessage]):
    """Messages selected by state, and what an operator may do to them."""

    _db: str | None
    _hints: dict[str, models.Model]

    # -- adjectives ---------------------------------------------------------------------------------------

    def in_queue(self, queue: str | None) -> Self:
        """Select those of this queue; of all for None."""
        return self if queue is None else self.filter(queue=check_queue(queue))

    def in_state(self, state: str, queue: str | None = None) -> Self:
        """Select those in this state. This call determines which stream leases have expired."""
        overdue = overdue_tokens(session_of(self.db)) if STATES[state].stage is Stage.CLAIMED else ()
        return self.in_queue(queue).filter(q_of(state, DbNow(), overdue))

    def ready(self, queue: str | None = None) -> Self:
        """Select those that are not taken, and due."""
        return self.in_state("ready", queue)

    def delayed(self, queue: str | None = None) -> Self:
        """Select those that are not taken, and due later."""
        return self.in_state("delayed", queue)

    def waiting(self, queue: str | None = None) -> Self:
        """Select those that wait until their group lets them run, or until an event comes."""
        return self.in_state("waiting", queue)

    def running(self, queue: str | None = None) -> Self:
        """Select taken ones whose lease has not expired."""
        return self.in_state("running", queue)

    def stuck(self, queue: str | None = None) -> Self:
        """Select taken ones with an expired lease: they wait for a rescue or, if a stream holds them, for its query."""
        return self.in_state("stuck", queue)

    def done(self, queue: str | None = None) -> Self:
        """Select finished ones."""
        return self.in_state("done", queue)

    def dead(self, queue: str | None = None) -> Self:
        """Select those out of reads, rejected or undecodable: visible, and can be requeued."""
        return self.in_state("dead", queue)

    def with_key(self, queue: str, key: str) -> Self:
        """Select those of this queue and key, compared byte by byte, including finished ones."""
        return self.filter(key_hash=hash_of_key(queue, key))

    def get_by_key(self, queue: str, key: str) -> AnyMessage | None:
        """Return the live message of this queue and key, or None; at most one is live, ``with_key`` has the others."""
        return next(iter(self.with_key(queue, key).filter(live=1)), None)

    def peek(self, queue: str, *, state: str = "ready", limit: int = 10) -> list[AnyMessage]:
        """Return the next messages of a queue in this state without claiming them, in the order of a claim.

        Dead and done ones come latest first within each priority. No more rows are read than are returned.
        """
        if state not in STATES:
            raise InvalidMessage(f"state must be one of {', '.join(STATES)}, not {state!r}.")
        check_whole("limit", limit, low=1, high=MAX_CLAIM)
        session, found = session_of(self.db), list[AnyMessage]()
        order = ordering_of(state, session.server)
        for priority in priorities_in_use(session, check_queue(queue), STATES[state].stage.status):
            rows = self.in_state(state, queue).filter(priority=priority).order_by(*order)
            found += rows[: limit - len(found)]
            if len(found) >= limit:
                break
        return found

    # -- verbs of operators -------------------------------------------------------------------------------

    def _each(self) -> Iterator[Seen]:
        """Return what is seen of them, read page by page: no cursor stays open while rows change underneath it."""
        if self.query.is_sliced:
            raise TypeError(
                "What changes messages reads them page by page, and can't do that with a slice. Select them by their "
                'ids: Message.objects.filter(pk__in=list(selected[:100].values_list("pk", flat=True))).'
            )
        return self._pages()

    def _pages(self) -> Iterator[Seen]:
        last = 0
        rows = self.using(self._session().using).order_by("id").values_list("id", "claim_token", "queue")
        while page := [Seen(*row) for row in rows.filter(id__gt=last)[:500]]:
            yield from page
            last = page[-1].id

    def _move(self, order: Order, seen: Iterator[Seen]) -> Changed:
        """Move those that are as they were seen: whoever waits for one of their locks waits for a few of them."""
        moved, conflicts = 0, list[DBQueueError]()
        for outcome in move_all(self.model, self._session(), order, seen):
            moved += len(outcome.moved)
            conflicts += outcome.errors
        return Changed(moved, conflicts)

    def requeue(self, *, by: str | None = None) -> Changed:
        """Reset running and dead ones to new; return how many, with ``conflicts`` where the key was taken.

        ``by``, here and below, names the person; the message's life shows it.
        """
        return self._move(Order(VERBS["requeue"], by), self._each())

    def due_now(self, *, by: str | None = None) -> Changed:
        """Make delayed ones due now, those that wait for a retry included; return how many.

        One of a group stays where it stands in its line, and is due when it is its turn.
        """
        return self._move(Order(VERBS["due-now"], by), self._each())

    def move_to(self, queue: str, *, by: str | None = None) -> Changed:
        """Move ready, delayed, waiting and dead ones to another queue; return how many.

        Each takes its key, its group and its due time along; a dead one becomes as if new. ``conflicts`` reports
        those whose key a live message of that queue has, or which can't be in it.
        """
        return self._move(Order(VERBS["move"], by, queue=check_target(queue)), self._each())

    def drop_all(self, reason: str, *, by: str | None = None) -> Changed:
        """Mark live and dead ones done, with the reason; return how many."""
        return self._move(Order(VERBS["drop"], by, reason), self._each())

    def cancel_all(self, reason: str, *, by: str | None = None) -> Changed:
        """Send live ones to the dead, with the reason, and interrupt those that run; return how many."""
        return self._move(cancelling(reason, by), self._each())

    def reject_waiting(self, reason: str, *, by: str | None = None) -> Changed:
        """Send ready and delayed ones to the dead, with the reason; return how many."""
        return self._move(Order(replace(VERBS["reject"], stages=(Stage.UNCLAIMED,)), by, reason), self._each())

    def send_again(self, *, by: str | None = None) -> Changed:
        """Send a new message for each, with a header that names the one it repeats; return how many.

        If a live message has the key already, or the row can't be decoded, none is sent; ``conflicts`` reports it, and
        the others proceed.
        """
        newest = self.model._base_manager.using(self._session().using).aggregate(pk=models.Max("pk"))["pk"] or 0
        # A selection that matches what it sends would never end
        seen = takewhile(lambda each: each.id <= newest, self._each())
        return self._move(Order(replace(VERBS["send-again"], stages=tuple(Stage)), by), seen)

    def send_edited(self, message: AnyMessage, payload: Json, *, by: str | None = None) -> AnyMessage:
        """Send a new message with this payload in place of one that nobody has taken; return the new one.

        It has the old one's queue, key, group, priority, headers and due time, and a header that names it. In the same
        transaction the old one is dropped, unless it is done already. MessageChanged if it isn't any more as
        ``message`` has it, or is taken; InvalidMessage if the payload can't be stored; DuplicateKey if a live message
        has the key. Then nothing is written.
        """
        session = self._session()
        return session.outermost(lambda: send_edited(self, session, message, payload, by=by))

    def purge(self) -> int:
        """Move the done and dead ones into the history now; return how many.

        It waits for its turn, as ``archive`` does, and keeps it until your transaction ends.
        """
        finished = (seen.id for seen in self._each())
        return archive.purge(self._session(), finished)


_MessageManager = models.Manager.from_queryset(MessageQuerySet)


class MessageManager(Verbs[AnyMessage], _MessageManager[AnyMessage]):
    """``Message.objects``: the verbs directly, the adjectives through a queryset."""

    _hints: dict[str, models.Model]

    def get_queryset(self) -> MessageQuerySet[AnyMessage]:
        """Return messages from the database they are written to."""
        return MessageQuerySet(self.model, using=self._session().using, hints=self._hints)
