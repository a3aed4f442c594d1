"""The threads that run a child's sync consumers, one message after the other, each in a context of its own."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from contextvars import copy_context
from typing import Final

from django_dbqueue import hooks
from django_dbqueue.worker import log_events
from django_dbqueue.worker.batches import execute_batch
from django_dbqueue.worker.delivery import Delivery
from django_dbqueue.worker.detached import Detachment
from django_dbqueue.worker.execution import Verdict, execute, verdict_after
from django_dbqueue.worker.gate import held_back, held_back_of
from django_dbqueue.worker.handover import Handover
from django_dbqueue.worker.holding import Holding
from django_dbqueue.worker.thread_connections import discard_all

_FAILED: Final = "a thread that runs handlers failed; its child is replaced"
_SUCCESSES: Final = ("ack", "acked", "nothing")

logger = logging.getLogger("django_dbqueue.worker")


def start_threads(
    number: int, holding: Holding, handover: Handover, detachment: Detachment, *, failed: Callable[[], None]
) -> None:
    """Start threads that live until the holding is closed; ``failed`` is called if one fails outside a handler."""

    def finish(delivery: Delivery, verdict: Verdict) -> None:
        succeeded = verdict.verb == "ack" and not delivery.timed_out
        holding.ended(delivery, succeeded=succeeded, has_result=verdict.result is not None)
        handover.post(delivery, verdict)

    def serve() -> None:
        try:
            while (delivery := holding.take()) is not None:
                if delivery.consumer.batch is None:
                    finish(delivery, copy_context().run(_execute, delivery, holding, detachment, failed))
                    continue
                deliveries = holding.fill_batch(delivery)
                for each, verdict in copy_context().run(_execute_batch, deliveries, detachment, failed):
                    finish(each, verdict)
            discard_all()
        except BaseException:
            detachment.end_if_forked(succeeded=False)
            logger.critical(_FAILED, exc_info=True)
            failed()

    for _ in range(number):
        threading.Thread(target=serve, daemon=True).start()


def _execute(delivery: Delivery, holding: Holding, detachment: Detachment, failed: Callable[[], None]) -> Verdict:
    """Run a delivery. Any failure outside its handler is the worker's own."""
    watched = None
    try:
        if delivery.is_rated and (held := held_back(delivery, holding)) is not None:
            return held
        log_events.begun([delivery])
        watched = hooks.begin([delivery])
        verdict = execute(delivery)
    except BaseException as error:
        verdict = _failed(delivery, error, failed)
    detachment.end_if_forked(succeeded=verdict.verb in _SUCCESSES)
    hooks.end(watched, [(delivery, verdict)])
    log_events.ended([(delivery, verdict)])
    return verdict


def _execute_batch(
    deliveries: Sequence[Delivery], detachment: Detachment, failed: Callable[[], None]
) -> list[tuple[Delivery, Verdict]]:
    """Run deliveries whose handler gets them at once."""
    watched = None
    held: list[tuple[Delivery, Verdict]] = []
    try:
        held = held_back_of(deliveries)
        if held:
            waiting = {delivery for delivery, _ in held}
            deliveries = [each for each in deliveries if each not in waiting]
        if not deliveries:
            return held
        log_events.begun(deliveries)
        watched = hooks.begin(deliveries)
        ended = [(each.delivery, each.verdict) for each in execute_batch(deliveries)]
    except BaseException as error:
        ended = [(each, _failed(each, error, failed)) for each in deliveries]
    detachment.end_if_forked(succeeded=all(verdict.verb in _SUCCESSES for _, verdict in ended))
    hooks.end(watched, ended)
    log_events.ended(ended)
    return held + ended


def _failed(delivery: Delivery, error: BaseException, failed: Callable[[], None]) -> Verdict:
    """Have the child replaced, and return what becomes of a delivery."""
    logger.critical(_FAILED, exc_info=error)
    failed()
    return verdict_after(delivery, error)
