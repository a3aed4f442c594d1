"""Run consumers in a test: claim, handle and settle as a worker does, in this thread, on the test's connections."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextvars import copy_context
from datetime import datetime, timedelta
from typing import Final, Literal

from django.core.exceptions import ImproperlyConfigured
from django.db.models import Value

from django_dbqueue import conf
from django_dbqueue.consumers import Reject, Retry, registry
from django_dbqueue.consumers.near_queues import near_queue
from django_dbqueue.consumers.registry import Consumer, largest_batch
from django_dbqueue.envelope import check_queue, check_whole
from django_dbqueue.exceptions import LeaseLost, Suspended
from django_dbqueue.lifecycle.claimer import Claimer
from django_dbqueue.models import Message, Queue, Step
from django_dbqueue.models.aliases import db_alias
from django_dbqueue.models.fields import DbNow, UTCDateTimeField, clock
from django_dbqueue.sessions.django_session import DjangoSession, refuse_inside_atomic, session_of
from django_dbqueue.states.selections import q_of
from django_dbqueue.states.table import Stage
from django_dbqueue.steps.emitting import wake_left_behind
from django_dbqueue.steps.event_values_sql import LEFT_BEHIND
from django_dbqueue.testing.containment import LostTransaction, in_the_tests_transaction
from django_dbqueue.testing.drained import Drained, EndlessRun, Handled, Outcome
from django_dbqueue.worker.batches import Ended, attempt_batch
from django_dbqueue.worker.board import Board
from django_dbqueue.worker.delivery import Delivery
from django_dbqueue.worker.execution import TIMED_OUT, Verdict, attempt, backoff, timed_out, verdict_after
from django_dbqueue.worker.holding import Holding
from django_dbqueue.worker.keepers import Keepers
from django_dbqueue.worker.settler import Settler

_OUTCOMES: Final[Mapping[Stage, Outcome]] = {
    Stage.UNCLAIMED: "waiting",
    Stage.CLAIMED: "lost",
    Stage.DEAD: "dead",
    Stage.FINISHED: "done",
}
MAX_LIMIT: Final = 1_000_000
MAX_NAMED: Final = 5
"""Queues named in the text of an endless run."""


def run_consumers(
    queues: str | Iterable[str] | None = None,
    *,
    with_delayed: bool = False,
    until: datetime | timedelta | None = None,
    on_error: Literal["raise", "collect"] = "raise",
    limit: int = 1_000,
    using: str | None = None,
) -> Drained:
    """Let the consumers of these queues (None: of all) work until nothing is due, and return what they did.

    Messages are claimed and settled as by a worker, one at a time (for a consumer with ``batch``, as many as it takes),
    from each queue in turn, including those that a consumer enqueues meanwhile. In a ``TestCase`` all of it is undone
    with the test. Commit hooks run at the end of the handler that registered them.

    What is due later, such as retries, stays unless requested: ``with_delayed`` runs all of it, ``until`` what is due
    by then (an aware datetime, or a time from now), each in order of time; no time passes for that, and the rates of
    groups hold nothing back. A message that always fails is dead in the end. Exceptions from a handler other than
    ``Retry`` and ``Reject`` are raised here once its message is settled, or with ``on_error="collect"`` kept in the
    result.

    Raises EndlessRun after ``limit`` deliveries, if there is more to do; ImproperlyConfigured for a queue without a
    consumer; LostTransaction if a consumer breaks the test's transaction.
    """
    if on_error not in ("raise", "collect"):
        raise ValueError(f"on_error must be 'raise' or 'collect', not {on_error!r}.")
    if with_delayed and until is not None:
        raise ValueError("Give with_delayed or until, not both: with_delayed runs everything, until only a part.")
    check_whole("limit", limit, low=1, high=MAX_LIMIT)
    alias = using or db_alias(Message)
    session = session_of(alias)
    refuse_inside_atomic(session, "run_consumers()")
    run = _Run(session, _chosen(queues), later=with_delayed or until is not None, until=_moment(alias, until))
    return run.drain(limit, collects=on_error == "collect")


def _chosen(queues: str | Iterable[str] | None) -> dict[str, Consumer]:
    registry.autodiscover()
    if queues is None:
        return registry.registered()
    chosen, named = {}, [queues] if isinstance(queues, str) else list(queues)
    registered = registry.registered(named)
    for queue in named:
        if check_queue(queue) not in registered:
            near = near_queue(queue)
            hint = f"did you mean {near!r}?" if near else "is its module queue_consumers in an installed app?"
            raise ImproperlyConfigured(f"No consumer is registered for queue {queue!r}: {hint}")
        chosen[queue] = registered[queue]
    return chosen


def _moment(alias: str, until: datetime | timedelta | None) -> datetime | None:
    if isinstance(until, timedelta):
        return clock(alias) + until
    moment: datetime | None = conf.aware(until)
    if moment is not None and moment.tzinfo is None:
        raise ValueError(f"until must be an aware datetime (use django.utils.timezone) or a timedelta, not {until!r}.")
    return moment


class _Run:
    """A worker with one thread, without supervisor, heartbeat and clock."""

    def __init__(
        self, session: DjangoSession, chosen: dict[str, Consumer], *, later: bool, until: datetime | None
    ) -> None:
        self._session = session
        self._consumers = chosen
        self._later = later
        self._until = until
        board = Board(max(1, largest_batch(chosen.values())))
        self._holding = Holding(board)
        self._settler = Settler(session, self._holding, board)

    def drain(self, limit: int, *, collects: bool) -> Drained:
        """Handle one message after the other."""
        for queue in self._consumers:
            Message.objects.rescue(queue, using=self._session.using)
        # In a TestCase, the commit after which they would be woken never comes
        wake_left_behind(self._session, limit=MAX_LIMIT, sooner=LEFT_BEHIND)
        run: list[Handled] = []
        for deliveries in self._deliveries():
            if len(run) + len(deliveries) > limit:
                self._settler.release(deliveries)
                self._settler.flush()
                raise EndlessRun(_endless(run, deliveries[0].message.queue))
            handled = self._handle(deliveries)
            run += handled
            for one in handled:
                _raise_unexpected(one, collects=collects)
        return Drained(run)

    def _deliveries(self) -> Iterator[list[Delivery]]:
        """Claim what each handler gets at once from each queue in turn, until nothing is left; skip paused queues."""
        while True:
            before = clock(self._session.using)
            paused = Queue.objects.using(self._session.using).paused_names()
            working = [consumer for queue, consumer in self._consumers.items() if queue not in paused]
            found = False
            for consumer in working:
                if deliveries := self._claim(consumer):
                    found = True
                    yield deliveries
            if not found and not self._bring_forward([consumer.queue for consumer in working], before):
                return

    def _claim(self, consumer: Consumer) -> list[Delivery]:
        options = consumer.resolved()
        # In a test's own transaction nothing is committed, so nobody has kicked what was sent to groups
        Keepers(self._session).turn()
        self._ignore_rate(consumer.queue)
        # A long-lived claimer remembers where it stood; here each claim must see everything a handler has just sent
        claimer = Claimer(Message, self._session, consumer.queue)
        claimed = claimer.take(consumer.batch or 1, lease=options.lease, max_reads=options.max_reads)
        deliveries = [Delivery(each, self._session, consumer, options, frozenset()) for each in claimed]
        for each in deliveries:
            each.is_watched = False
        self._holding.keep(*deliveries)
        self._holding.offer(*deliveries)
        first = self._holding.take() if deliveries else None
        return [] if first is None else self._holding.fill_batch(first)

    def _ignore_rate(self, queue: str) -> None:
        """Make due what only the rate of its group holds back: no time passes here."""
        rows = Message.objects.using(self._session.using).delayed().filter(queue=queue, lane__isnull=False)
        rows.filter(due_at__lte=DbNow()).update(available_at=DbNow())

    def _bring_forward(self, queues: list[str], before: datetime) -> bool:
        """Make the next message due right now, if later ones are to run; return whether there was one.

        It was not due ``before`` the claims that left nothing, but may have become so after them.
        """
        if not self._later:
            return False
        rows = Message.objects.using(self._session.using).filter(
            q_of("delayed", Value(before, UTCDateTimeField())), queue__in=queues
        )
        if self._until is not None:
            rows = rows.filter(available_at__lte=self._until)
        soonest = rows.order_by("available_at", "-priority", "pk").values_list("pk", flat=True).first()
        if not soonest:
            return False
        rows.delayed().filter(pk=soonest).update(available_at=DbNow())
        steps = Step.objects.using(self._session.using).filter(message_id=soonest, until__gt=DbNow())
        steps.update(until=DbNow())  # no time passes, so that a sleep would not be over
        return True

    def _handle(self, deliveries: list[Delivery]) -> list[Handled]:
        began = time.monotonic()
        if deliveries[0].consumer.batch is None:
            ended = [copy_context().run(_attempt, deliveries[0])]
        else:
            ended = copy_context().run(attempt_batch, deliveries, in_the_tests_transaction)
        for each in ended:
            if isinstance(each.error, LostTransaction):
                raise each.error
        seconds = time.monotonic() - began
        ended = [_too_late(each) if _ran_too_long(each.delivery, seconds) else each for each in ended]
        for delivery, verdict, _ in ended:
            self._settler.add(delivery, verdict, seconds)
        self._settler.flush()
        return [Handled(each.delivery.message, self._outcome(*each[:2]), each.error) for each in ended]

    def _outcome(self, delivery: Delivery, verdict: Verdict) -> Outcome:
        message = delivery.message
        acked = verdict.verb in ("ack", "acked") or message.settled
        try:
            message.refresh_from_db()
        except Message.DoesNotExist:
            return "done" if acked and delivery.options.on_ack == conf.DELETE else "lost"
        if message.lease_lost or message.claim_token != message.held_token:
            return "lost"
        return _OUTCOMES[message.stage]


def _attempt(delivery: Delivery) -> Ended:
    try:
        return Ended(delivery, in_the_tests_transaction(lambda: attempt(delivery)))
    except LostTransaction:
        raise
    except Suspended as error:
        return Ended(delivery, verdict_after(delivery, error))
    except BaseException as error:
        return Ended(delivery, verdict_after(delivery, error), error)


def _too_late(one: Ended) -> Ended:
    delivery = one.delivery
    text = timed_out(delivery.consumer, delivery.options, delivery.message)
    verdict = Verdict("nack", backoff(delivery.options, delivery.reads), text, exception=TIMED_OUT)
    return Ended(delivery, verdict, TimeoutError(text))


def _ran_too_long(delivery: Delivery, seconds: float) -> bool:
    """Return whether a worker would have timed this out; an async handler is cancelled in time, here as there."""
    timeout = delivery.options.timeout
    is_late = timeout is not None and seconds >= timeout
    return is_late and not delivery.consumer.is_async and not delivery.message.settled


def _is_unexpected(one: Handled) -> bool:
    if isinstance(one.error, LeaseLost) and one.error.message_id == one.message.pk:
        return False
    return not isinstance(one.error, Retry | Reject)


def _raise_unexpected(one: Handled, *, collects: bool) -> None:
    if one.error is None or not _is_unexpected(one) or (collects and isinstance(one.error, Exception)):
        return
    one.error.add_note(
        f"It stopped the consumer of queue {one.message.queue!r} at message {one.message.pk}, read "
        f"{one.message.read_count} of {one.message.max_reads or 'any number'}; the message is {one.outcome}."
    )
    raise one.error


def _endless(run: list[Handled], queue: str) -> str:
    counts = Counter(each.message.queue for each in run)
    named = ", ".join(f"{count} of queue {name!r}" for name, count in counts.most_common(MAX_NAMED))
    return (
        f"run_consumers() stopped after {len(run)} deliveries ({named}), and queue {queue!r} has more. Does a "
        "consumer enqueue to its own queue each time, or retry without a delay? If this is intended, give a higher "
        "limit."
    )
