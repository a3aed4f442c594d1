"""What follows a settlement: the delivery is dropped and counted, and instruments and signals are told."""

from __future__ import annotations

import logging
import time

from django_dbqueue import conf, hooks, signals
from django_dbqueue.models import Message
from django_dbqueue.sessions.django_session import DjangoSession
from django_dbqueue.statements.steps_sql import forget_steps
from django_dbqueue.states.spent import is_spent
from django_dbqueue.worker import log_events
from django_dbqueue.worker.board import Board
from django_dbqueue.worker.delivery import Delivery
from django_dbqueue.worker.execution import Verdict
from django_dbqueue.worker.holding import Holding

logger = logging.getLogger("django_dbqueue.worker")


class Finisher:
    """Finishes deliveries by what has become of their settlement."""

    def __init__(self, session: DjangoSession, holding: Holding, board: Board) -> None:
        self.session = session
        self._holding = holding
        self._board = board

    def acked(self, acked: list[tuple[Delivery, float]], took: float) -> None:
        """Finish deliveries that one statement acked, which took that many seconds."""
        self._holding.drop(*(delivery for delivery, _ in acked))
        self._board.count("done", len(acked))
        if hooks.active is not None and acked:
            hooks.acked([delivery for delivery, _ in acked], self.session.using, took)
        if acked and acked[0][0].options.on_ack == conf.DELETE:
            stepped = [delivery.claim.id for delivery, _ in acked if delivery.message.has_steps]
            forget_steps(self.session, stepped)
        if signals.message_done.has_listeners(Message):
            for delivery, seconds in acked:
                self._send_done(delivery, seconds)
        for delivery, _ in acked:
            if delivery.when_ended is not None:
                _notify_runner(delivery)

    def settled_by_its_handler(self, delivery: Delivery, verdict: Verdict, seconds: float) -> None:
        """Finish a delivery whose handler settled its message itself, or in one commit with its rows."""
        message = delivery.message
        change = message.settlement
        if verdict.error:
            logger.warning(
                "message %s was already settled by its handler when that ended with: %s",
                message.pk, log_events.first_line(verdict.error),
            )  # fmt: skip
        if message.is_acked:
            self._board.count("done")
            self._send_done(delivery, seconds)
            _notify_runner(delivery)
        elif change.gives_back:
            self._board.count("given_back")
        else:
            self._ended_badly(delivery, change.event.text or "", change.delay, dies=not change.event.may_die)

    def _send_done(self, delivery: Delivery, seconds: float) -> None:
        message = delivery.message
        signals.message_done.send(Message, queue=message.queue, message_id=message.pk, seconds=seconds)

    def suspended(self, delivery: Delivery, verdict: Verdict) -> None:
        """Finish a delivery whose handler suspended its message."""
        self._board.count("suspended")
        self._board.expect_retry(time.monotonic() + delivery.message.suspended)
        if verdict.verb != "nothing":
            logger.error("message %s is suspended, but its handler caught Suspended and went on", delivery.claim.id)

    def done_before(self, delivery: Delivery, verdict: Verdict) -> None:
        """Finish a delivery whose handler's own commit succeeded before its reply, or a commit hook, failed."""
        self._holding.drop(delivery)
        self._board.count("done")
        text = log_events.first_line(verdict.error)
        logger.warning("message %s was already done when its handler ended with: %s", delivery.message.pk, text)
        _notify_runner(delivery)

    def undecided(self, delivery: Delivery) -> None:
        """Finish a delivery whose ack got no reply, and whose row, which would show the outcome, is gone."""
        message = delivery.message
        self._holding.drop(delivery)
        if not message.lease_lost:
            self._board.count("done")
            signals.ack_undecided.send(Message, queue=message.queue, message_id=message.pk)

    def left(self, delivery: Delivery) -> None:
        """Let go of a delivery of which the database refused to record any end: its lease ends."""
        delivery.when_ended = None
        self._holding.drop(delivery)
        self._holding.let_none_follow(delivery)

    def other(self, delivery: Delivery, verdict: Verdict, *, held: bool) -> None:
        """Finish a delivery whose end was no ack, and was settled if its claim was still ``held``."""
        message = delivery.message
        self._holding.drop(delivery)
        self._holding.let_none_follow(delivery)
        if verdict.verb != "drop" or not held:
            delivery.when_ended = None
        if not held:
            delivery.lose(verdict.verb)
            return
        message.lease_lost = False  # whatever reported it lost was in a transaction that was rolled back
        if verdict.verb == "release":
            self._board.count("given_back")
        elif verdict.verb == "drop":
            self._board.count("done")
            _notify_runner(delivery)
        elif verdict.verb == "cut off":
            was_cut_off(self._board, message, delivery.name, verdict.error)
        else:
            self._ended_badly(delivery, verdict.error, verdict.delay, dies=verdict.verb == "reject")

    def _ended_badly(self, delivery: Delivery, error: str, delay: float | None, *, dies: bool) -> None:
        message = delivery.message
        fields = {
            "queue": message.queue, "message_id": message.pk, "error": error, "attempt": delivery.reads,
            "exception": delivery.raised,
        }  # fmt: skip
        if dies or delivery.is_last:
            self._board.count("died")
            signals.message_died.send(Message, **fields, using=self.session.using)
        else:
            self._board.count("failed")
            self._board.expect_retry(time.monotonic() + (delay or 0.0))
            signals.message_failed.send(Message, **fields, delay=delay)


def was_cut_off(board: Board, message: Message, handler: str, error: str) -> None:
    """Tell of a message that went back charged, or died, because its process had to end."""
    board.count("cut_off")
    if is_spent(message.read_count, message.max_reads):
        board.count("died")
        fields = {"queue": message.queue, "message_id": message.pk, "error": error, "attempt": message.read_count}
        signals.message_died.send(Message, **fields, using=message._state.db)
    else:
        log_events.cut_off(message, handler)


def _notify_runner(delivery: Delivery) -> None:
    """Let its runner do what it does at a committed end, once. Nothing that this raises undoes the end."""
    notify, delivery.when_ended = delivery.when_ended, None
    if notify is not None:
        try:
            notify()
        except (Exception, SystemExit):
            logger.exception("message %s has ended, but telling of it failed", delivery.claim.id)
