"""One log line for each failure, death, rescue, lost lease and operator action; begins and successes at DEBUG.

Payloads are never logged; what a handler raised is, with the texts of its exceptions.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from django_dbqueue import conf, signals
from django_dbqueue.consumers import Reject, Retry
from django_dbqueue.states.counts import counted

if TYPE_CHECKING:  # Django imports this module as it starts, also where no worker runs
    from django_dbqueue.worker.delivery import Delivery
    from django_dbqueue.worker.execution import Verdict

_WITHOUT_A_LINE: Final = {
    "release": "the message is released",
    "drop": "the message is dropped",
    "cut off": "it was cut off",
    "nothing": "the message is suspended, or its lease is lost",
}
"""What becomes of a message by a verdict of which no signal tells."""

logger = logging.getLogger("django_dbqueue")


def connect() -> None:
    """Start listening to everything except successes; connecting twice changes nothing."""
    for signal, listener in (
        (signals.message_failed, _failed),
        (signals.message_died, _died),
        (signals.message_rescued, _rescued),
        (signals.lease_lost, _lease_lost),
        (signals.ack_undecided, _ack_undecided),
        (signals.operator_acted, _operator_acted),
    ):
        signal.connect(listener, dispatch_uid=f"django_dbqueue.log.{listener.__name__}")


def connect_successes() -> None:
    """Listen to successes too, if they are logged: even a listener that logs nothing costs each message 2 µs."""
    if logger.isEnabledFor(logging.DEBUG):
        signals.message_done.connect(_done, dispatch_uid="django_dbqueue.log._done")


def begun(deliveries: Iterable[Delivery]) -> None:
    """Log that the handler of these begins, if that is asked for."""
    if logger.isEnabledFor(logging.DEBUG):
        for each in deliveries:
            message = each.message
            _log(
                logging.DEBUG, "begun", "message %s of %s begun%s by %s",
                message.pk, message.queue, _at(each.reads), each.name,
                queue=message.queue, message_id=message.pk, attempt=each.reads, handler=each.name,
            )  # fmt: skip


def ended(ends: Iterable[tuple[Delivery, Verdict]]) -> None:
    """Log how handlers ended that leave no other line: those that are acked, fail or die have one after the commit."""
    if logger.isEnabledFor(logging.DEBUG):
        for each, verdict in ends:
            message = each.message
            verb = verdict.verb
            if message.settled and message.suspended is None:  # by the handler
                verb = "release" if message.settlement.gives_back else "acked"
            if (how := _WITHOUT_A_LINE.get(verb)) is not None:
                _log(
                    logging.DEBUG, "handler_ended", "the handler of message %s of %s has ended: %s",
                    message.pk, message.queue, how, queue=message.queue, message_id=message.pk,
                )  # fmt: skip


def cut_off(message: Any, handler: str) -> None:
    """Log that a handler was cut off, and its message goes back."""
    _log(
        logging.WARNING, "cut_off", "message %s of %s was cut off at attempt %s, and runs again: %s",
        message.pk, message.queue, message.read_count, handler,
        queue=message.queue, message_id=message.pk, attempt=message.read_count, handler=handler,
    )  # fmt: skip


def cancelled(delivery: Delivery, why: str) -> None:
    """Log that something which this worker holds was cancelled, by whom and why."""
    message = delivery.message
    when = "before it began" if delivery.started_at is None else f"while {delivery.name} runs it"
    _log(
        logging.WARNING, "cancelled", "message %s of %s was cancelled %s (%s)",
        message.pk, message.queue, when, first_line(why),
        queue=message.queue, message_id=message.pk, handler=delivery.name,
    )  # fmt: skip


def _log(
    level: int, event: str, text: str, *args: object, raised: BaseException | None = None, **fields: object
) -> None:
    logger.log(level, text, *args, exc_info=raised, extra={"event": event, "fields": fields})


def _unless_decided(exception: BaseException | None) -> BaseException | None:
    return None if isinstance(exception, Retry | Reject) else exception


def _done(*, queue: str, message_id: int, seconds: float, **_: object) -> None:
    _log(
        logging.DEBUG, "done", "message %s of %s done in %.3f s", message_id, queue, seconds,
        queue=queue, message_id=message_id, seconds=seconds,
    )  # fmt: skip


def _failed(
    *, queue: str, message_id: int, error: str, delay: float | None, attempt: int | None = None,
    exception: BaseException | None = None, **_: object,
) -> None:  # fmt: skip
    again = "at once" if delay is None else f"in {delay:.1f} s"
    with_trace = conf.get("LOG_RETRIES") == conf.TRACEBACK or logger.isEnabledFor(logging.DEBUG)
    _log(
        logging.WARNING, "failed", "message %s of %s failed%s, retried %s: %s",
        message_id, queue, _at(attempt), again, first_line(error),
        raised=_unless_decided(exception) if with_trace else None,
        queue=queue, message_id=message_id, attempt=attempt, error=first_line(error), delay=delay,
    )  # fmt: skip


def _died(
    *, queue: str, message_id: int, error: str, attempt: int | None = None, exception: BaseException | None = None,
    **_: object,
) -> None:  # fmt: skip
    _log(
        logging.ERROR, "died", "message %s of %s is dead%s: %s", message_id, queue, _at(attempt), first_line(error),
        raised=_unless_decided(exception),
        queue=queue, message_id=message_id, attempt=attempt, error=first_line(error),
    )  # fmt: skip


def _at(attempt: int | None) -> str:
    return "" if attempt is None else f" at attempt {attempt}"


def _rescued(*, queue: str, message_ids: list[int], evidence: str, **_: object) -> None:
    _log(
        logging.WARNING, "rescued", "%s of %s rescued (%s): %s", counted(len(message_ids), "message"), queue, evidence,
        ", ".join(map(str, message_ids[:20])) + (" …" if len(message_ids) > 20 else ""),
        queue=queue, message_ids=message_ids, evidence=evidence,
    )  # fmt: skip


def _lease_lost(*, queue: str, message_id: int, verb: str, **_: object) -> None:
    if verb == "cancel":  # ``cancelled`` has more to say
        return
    _log(
        logging.WARNING, "lease_lost", "%s of message %s of %s refused: its claim was lost", verb, message_id, queue,
        queue=queue, message_id=message_id, verb=verb,
    )  # fmt: skip


def _ack_undecided(*, queue: str, message_id: int, **_: object) -> None:
    _log(
        logging.WARNING, "ack_undecided",
        "the reply to the ack of message %s of %s was lost, and its row is gone: removed by that ack, or after "
        "another delivery, if the lease had expired in the meantime; on_ack='delete' leaves nothing that could show "
        "which",
        message_id, queue, queue=queue, message_id=message_id,
    )  # fmt: skip


def _operator_acted(
    *, verb: str, queue: str, by: str, reason: str, count: int, group: str | None = None, **_: object
) -> None:
    whole = f"queue {queue}" if group is None else f"group {group!r} of queue {queue}"
    what = f"{counted(count, 'message')} of {queue}" if count else whole
    fields: dict[str, Any] = {} if group is None else {"group": group}
    _log(
        logging.INFO, "operator", "%s by %s: %s%s", verb, by, what, f" ({reason})" if reason else "",
        verb=verb, queue=queue, by=by, reason=reason, count=count, **fields,
    )  # fmt: skip


def first_line(error: str) -> str:
    """Return the first line of an error's text, at most 500 characters of it."""
    return error.splitlines()[0][:500] if error else ""
