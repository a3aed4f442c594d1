"""What becomes of a message whose end the database refused to record: something that can be recorded.

Repeating what was refused would hold the worker up for ever. What is recorded instead repeats nothing of it: it is the
error's class and code in a sentence of ASCII. The worker's log has the id and what the server said.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from functools import partial

from django.db import DatabaseError, Error

from django_dbqueue import conf, signals
from django_dbqueue.databases import Claim
from django_dbqueue.databases.errors import code_of
from django_dbqueue.failures.error_texts import class_path
from django_dbqueue.failures.failure_group_rows import with_failures
from django_dbqueue.lifecycle.moves import Ties
from django_dbqueue.lifecycle.result_rows import keep
from django_dbqueue.lifecycle.settle_many import settle_claims
from django_dbqueue.models import Message
from django_dbqueue.sessions.django_session import DjangoSession
from django_dbqueue.sessions.retry import in_one_line, is_refused
from django_dbqueue.statements import moves_sql
from django_dbqueue.statements.events_sql import REJECT
from django_dbqueue.worker.delivery import Delivery
from django_dbqueue.worker.execution import Verdict
from django_dbqueue.worker.finisher import Finisher
from django_dbqueue.worker.verdicts import change_of

logger = logging.getLogger("django_dbqueue.worker")


def settle_otherwise(
    finish: Finisher, delivery: Delivery, verdict: Verdict, error: Error, *, seconds: float, ties: Ties
) -> None:
    """Settle one delivery whose verdict the database refused; leave it to its lease if it refuses everything.

    An outage meanwhile is raised: nothing was settled then, and the caller begins again with the first verdict.
    """
    session, began = finish.session, time.monotonic()
    for other in others(verdict, error, on_ack=delivery.options.on_ack):
        change = moves_sql.ack(session.server) if other.verb == "ack" else change_of(session.server, other)
        then = None
        if other.result is not None:
            then = partial(keep, session, {delivery.claim.id: other.result})
        try:
            change = with_failures(session, change, [delivery.message.queue])
            held = bool(settle_claims(session, change, [delivery.claim], ties=ties, then=then))
        except DatabaseError as again:
            if not is_refused(again):
                raise
            continue
        _log(delivery, verdict, error, other)
        if other.verb == "ack" and held:
            finish.acked([(delivery, seconds)], time.monotonic() - began)
        else:
            finish.other(delivery, other, held=held)
        return
    _log(delivery, verdict, error, None)
    finish.left(delivery)


def settle_refused(session: DjangoSession, claim: Claim, error: Error, *, returned: bool) -> set[Claim]:
    """Settle a claim of a dead child whose end the database refused; return it if it has that end now, or is dead.

    ``returned``: its handler had, so its end was an ack, and where one can be recorded that keeps the row, it is done.
    """
    what = "the ack of this message" if returned else "the end of this message"
    text = _sentence(what, error)
    row = Message.objects.using(session.using).filter(pk=claim.id).values_list("queue", "read_count").first()
    queue, attempt = row or ("", None)
    ends = [(moves_sql.ack(session.server), "kept as done")] if returned else []
    for change, so in (*ends, (moves_sql.reject(session.server, text, class_path(error) or REJECT), "dead")):
        try:
            held = settle_claims(session, with_failures(session, change, [queue]), [claim])
        except DatabaseError as again:
            if not is_refused(again):
                raise
            continue
        logger.error("message %s: the database refused %s, and it is %s (%s)", claim.id, what, so, in_one_line(error))
        if held and returned and so == "dead":
            fields = {"queue": queue, "message_id": claim.id, "error": text, "attempt": attempt}
            signals.message_died.send(Message, **fields, using=session.using)
            return set()
        return held
    logger.error(
        "message %s: the database refused %s, and it is left to its lease (%s)", claim.id, what, in_one_line(error)
    )
    return set()


def others(verdict: Verdict, error: Error, *, on_ack: str) -> Iterator[Verdict]:
    """Yield what may be recorded instead, the nearest to the verdict first.

    Done is done: what can't be deleted is kept, as acked. What returned and can't be acked at all is dead, and doesn't
    run again.
    """
    text, path = sentence(verdict, error), class_path(error)
    if verdict.verb == "ack" and on_ack == conf.DELETE:
        yield verdict
    if verdict.error and verdict.verb != "reject":
        yield verdict._replace(error=text, exception=path, keeps_trace=False)
    if verdict.verb != "release":
        yield Verdict("reject", error=text, exception=path)


def sentence(verdict: Verdict, error: Error) -> str:
    """Say in ASCII what was refused; its own text would be refused again, or quote what was."""
    return _sentence(_what(verdict), error)


def _sentence(what: str, error: Error) -> str:
    code = code_of(error)
    with_code = "" if code is None else f" ({code})"
    return f"{type(error).__name__}: the database refused {what}{with_code}; the worker's log says more."


def _what(verdict: Verdict) -> str:
    if verdict.verb == "ack":
        return "the ack of this message" if verdict.result is None else "the result of this message"
    return "the text of this message's error" if verdict.error else "the release of this message"


def _log(delivery: Delivery, verdict: Verdict, error: Error, other: Verdict | None) -> None:
    """Log the id, the error and what became of the message."""
    if other is None:
        so = "nothing could be recorded, so it comes back when its lease ends"
    elif other.verb == "ack":
        so = "it is kept as done instead of being deleted"
    else:
        so = {"reject": "it is dead", "nack": "it fails"}.get(other.verb, f"it is settled by {other.verb}")
    before = verdict.error.splitlines()[0] if verdict.error else "the handler returned"
    logger.error(
        "message %s of queue %s: the database refused %s, and %s (%s; before that: %s)",
        delivery.claim.id,
        delivery.consumer.queue,
        _what(verdict),
        so,
        in_one_line(error),
        ascii(before)[1:-1][:500],
    )
