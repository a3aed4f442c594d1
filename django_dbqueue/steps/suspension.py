"""Sleeps and waits: run → n, uncharged, until a moment or an event; the handler ends there, and replays its steps.

The step and the move are one commit. A message that waits for an event is due soon at first. Only a check for the
event, after that commit, lets it rest until its timeout, or for ever: so if its handler dies in between, it is
delivered again and looks once more. Who emits an event looks for waiters after the commit, too. Of two that look after
their commits, one sees the other.
"""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from math import inf
from typing import Any, Final

from django_dbqueue.codecs import Json
from django_dbqueue.databases import Change, Statement
from django_dbqueue.envelope import check_seconds
from django_dbqueue.exceptions import EventTimedOut, InvalidMessage, InvalidStep, Suspended
from django_dbqueue.lifecycle import moves
from django_dbqueue.statements import moves_sql, steps_sql
from django_dbqueue.statements.steps_sql import EVENT, GRACE, SLEEP, TIMED_OUT, WAIT, Remembered
from django_dbqueue.steps import event_values_sql
from django_dbqueue.steps.emitting import hash_of_event, wake_these
from django_dbqueue.steps.step_memory import Steps, StoredStep, check_name

_SENTENCES: Final = {
    "batch": "a batch consumer can't {verb}: its messages are one call, and the others would have to wait with this "
    "one. Give those that {verb} a queue and a consumer of their own.",
    "transaction": "{verb} was called inside a transaction (of a transactional consumer, message.transaction(), a step "
    "or atomic()), which would have to stay open until then. Put what must be one commit into a step, and {verb} "
    "between steps.",
}


def sleep(steps: Steps, name: str, length: float | timedelta) -> None:
    """Return if the sleep is over, else suspend the message until then."""
    seconds = _seconds(steps, name, "for_", length)
    found = _begin(steps, "sleep", name, SLEEP)
    if found is not None and found.has_ended:
        return
    new = Remembered(name, SLEEP, seconds=seconds) if found is None else None
    if new is not None and not seconds:
        steps.write(new)
        return
    session, change = steps.session, steps_sql.sleep(steps.session.server, steps.message.pk, name)
    session.outermost(partial(_suspend, steps, change, new))
    raise _suspended(steps, change, seconds, f"sleeps: {name}")


def wait_for(steps: Steps, event: str, timeout: float | timedelta | None, name: str | None) -> Json:
    """Return the event's payload if it was emitted, else suspend the message; EventTimedOut after the timeout."""
    check_name(event, "an event")
    name = event if name is None else name
    seconds = None if timeout is None else _seconds(steps, name, "timeout", timeout)
    found = _begin(steps, "wait", name, WAIT, EVENT, TIMED_OUT)
    if found is not None and found.kind == EVENT:
        return found.value
    if found is not None and found.kind == TIMED_OUT:
        raise EventTimedOut(steps.message.pk, event)
    is_new = found is None
    if (came := _value(steps, event)) is not None:
        _end(steps, Remembered(name, EVENT, came.body, came.content_type, came.types), event, is_new=is_new)
        return came.value
    if (found is not None and found.has_ended) or (is_new and seconds == 0):
        _end(steps, Remembered(name, TIMED_OUT), event, is_new=is_new)
        raise EventTimedOut(steps.message.pk, event)
    change = _wait(steps, Remembered(name, WAIT, event, seconds=seconds), event, is_new=is_new)
    raise _suspended(steps, change, inf if seconds is None else seconds, f"waits for event {event!r}")


def _seconds(steps: Steps, name: str, argument: str, value: object) -> float:
    """Return a length in seconds; InvalidStep if it is none, since another attempt would give the same."""
    try:
        return check_seconds(argument, value)
    except InvalidMessage as error:
        raise InvalidStep(f"message {steps.message.pk}, {name!r}: {error}") from None


def _begin(steps: Steps, verb: str, name: str, *kinds: str) -> StoredStep | None:
    connection: Any = steps.session.connection
    why = "batch" if steps.message.in_batch else None
    if not connection.in_atomic_block and not connection.get_autocommit():
        why = "transaction"
    elif connection.in_atomic_block and not all(block._from_testcase for block in connection.atomic_blocks):
        why = why or "transaction"
    if why is not None:
        sentence = _SENTENCES[why].format(verb=verb)
        raise InvalidStep(f"message {steps.message.pk}, {name!r}: {sentence}")
    return steps.begin(name, *kinds)


def _suspend(steps: Steps, change: Change, new: Remembered | None, event: str | None = None) -> None:
    """Write the step, who waits, and the move, in one transaction."""
    session, claim = steps.session, steps.message.claim
    with session.transaction():
        if new is not None:
            steps.write(new)
        if not moves.settle(session, change, [claim], moves.ties_known([steps.message])):
            raise steps.lost("suspend")
        if event is not None:
            session.run(event_values_sql.wait(session.server, hash_of_event(event), claim))


def _suspended(steps: Steps, change: Change, seconds: float, why: str) -> Suspended:
    message = steps.message
    message.suspended = seconds
    message.forget(change, settled=True)
    return Suspended(message.pk, why)


def _value(steps: Steps, event: str) -> StoredStep | None:
    rows = steps.session.fetch(event_values_sql.value(steps.session.server, hash_of_event(event)))
    return StoredStep(EVENT, rows[0][0], rows[0][1], rows[0][2], has_ended=True) if rows else None


def _end(steps: Steps, step: Remembered, event: str, *, is_new: bool) -> None:
    """Remember how a wait ended."""
    session, pk = steps.session, steps.message.pk
    if is_new:
        steps.write(step)
        return

    def work() -> None:
        with session.transaction():
            steps.lock()
            session.run(steps_sql.resolve(session.server, pk, step))
            session.run(event_values_sql.wait_no_more(session.server, pk, hash_of_event(event)))

    session.outermost(work)


def _wait(steps: Steps, step: Remembered, event: str, *, is_new: bool) -> Change:
    session, claim = steps.session, steps.message.claim
    change = steps_sql.suspend(session.server, GRACE)
    session.outermost(partial(_suspend, steps, change, step if is_new else None, event))
    if _value(steps, event) is not None:
        wake_these(session, hash_of_event(event), [claim.id])
    else:
        session.outermost(partial(_rest, steps, step.name))
    return change


def _rest(steps: Steps, name: str) -> None:
    """Let the message rest until the wait of this name is over."""
    session, claim = steps.session, steps.message.claim
    with session.transaction():
        # first: who waits for the row in one statement sees the step that a sender of new content has deleted
        session.fetch(moves_sql.lock(session.server, Statement("id = %s", (claim.id,))))
        session.run(steps_sql.park(session.server, claim, name))
