"""Why a message rests that its own handler has suspended: it sleeps, or waits for an event."""

from __future__ import annotations

from datetime import datetime

from django.utils.translation import gettext as _

from django_dbqueue.insight.answer import Why
from django_dbqueue.models.emitted_event import Waiter
from django_dbqueue.models.message import Message
from django_dbqueue.models.step import Step
from django_dbqueue.statements.steps_sql import SLEEP, WAIT
from django_dbqueue.steps.emitting import hash_of_event


def suspension_of(message: Message, due: datetime) -> Why | None:
    """Return the answer for a message that its handler has suspended until then; None for any other."""
    steps = Step.objects.using(message._state.db).filter(message_id=message.pk)
    waits = list(steps.filter(kind=WAIT))
    hashes = [hash_of_event(step.body or "") for step in waits]
    held = Waiter.objects.using(message._state.db).filter(message_id=message.pk, token=message.claim_token or 0)
    waiting = set(held.values_list("name_hash", flat=True)) if hashes else set()
    for step, name_hash in zip(waits, hashes, strict=True):
        if name_hash in waiting:
            return _waits(message, step)
    sleep = steps.filter(kind=SLEEP, until=due).first()
    if sleep is None:
        return None
    words = {"moment": _utc(due), "name": sleep.name}
    return Why("sleeps", _("It sleeps until %(moment)s: its handler called sleep(“%(name)s”).") % words,
               verbs=("reject", "drop"), error=message.error)  # fmt: skip


def _waits(message: Message, step: Step) -> Why:
    words = {"event": step.body, "moment": "" if step.until is None else _utc(step.until)}
    if step.until is None:
        text = _("It waits for event “%(event)s”, without a timeout.") % words
    else:
        text = _("It waits for event “%(event)s”, until %(moment)s at most.") % words
    advice = _("Event.objects.emit(“%(event)s”) wakes it.") % words
    return Why("waits_for_event", text, verbs=("reject", "drop"), advice=advice, error=message.error)


def _utc(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"
