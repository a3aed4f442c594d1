"""The steps of messages as commands show them."""

from __future__ import annotations

from collections.abc import Iterable

from django.utils.translation import gettext as _

from django_dbqueue.management.console import iso
from django_dbqueue.models import Step
from django_dbqueue.statements.steps_sql import EVENT, SLEEP, STEP, TIMED_OUT, WAIT


def steps_by_message(alias: str, ids: Iterable[int]) -> dict[int, list[Step]]:
    """Return the steps of each of these messages, in order of time."""
    found: dict[int, list[Step]] = {message_id: [] for message_id in ids}
    for step in Step.objects.using(alias).filter(message_id__in=found).order_by("message_id", "at", "name"):
        found[step.message_id].append(step)
    return found


def as_json(step: Step) -> dict[str, object]:
    """Return a step for programs; its result is left out."""
    moments = {"at": iso(step.at), "until": None if step.until is None else iso(step.until)}
    return {"name": step.name, "kind": step.kind, "read_count": step.read_count, **moments}


def as_text(step: Step) -> str:
    """Return a step as a line."""
    kinds = {
        STEP: _("step done"),
        SLEEP: _("sleep until %(until)s"),
        WAIT: _("waits for event %(event)r"),
        EVENT: _("event received"),
        TIMED_OUT: _("wait timed out"),
    }
    said = {"until": "" if step.until is None else iso(step.until), "event": step.body}
    delivery = _("delivery %(number)d") % {"number": step.read_count}
    what = kinds[step.kind] % said if step.kind in kinds else step.kind
    return f"{step.name!r}  {what}  {iso(step.at)}  {delivery}"
