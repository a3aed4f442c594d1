"""The states that people see, each with a symbol next to the word: never colour alone."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from django_dbqueue.lifecycle.expired_streams import PARKED
from django_dbqueue.operations.verbs import Verb, stage_of
from django_dbqueue.statuses import DONE, RUNNING

if TYPE_CHECKING:
    from django.utils.functional import _StrPromise as StrPromise


@dataclass(frozen=True, slots=True)
class State:
    """A state of the life cycle. ``name`` is the queryset's adjective."""

    name: str
    symbol: str
    label: StrPromise
    title: StrPromise
    none: StrPromise


STATES = {
    state.name: state
    for state in (
        State(
            "stuck",
            "!",
            pgettext_lazy("message state", "stuck"),
            _("Stuck messages"),
            _("No message is stuck: no lease has expired."),
        ),
        State(
            "dead",
            "✕",
            pgettext_lazy("message state", "dead"),
            _("Dead letters"),
            _("No message is dead."),
        ),
        State(
            "running",
            "▶",
            pgettext_lazy("message state", "running"),
            _("Running messages"),
            _("No message is running."),
        ),
        State(
            "ready",
            "●",
            pgettext_lazy("message state", "ready"),
            _("Ready messages"),
            _("No message is ready."),
        ),
        State(
            "delayed",
            "◷",
            pgettext_lazy("message state", "delayed"),
            _("Delayed messages"),
            _("No message is delayed."),
        ),
        State(
            "waiting",
            "≡",
            pgettext_lazy("message state", "waiting"),
            _("Waiting messages"),
            _("No message is waiting for its group, for others of its flow, or for an event."),
        ),
        State(
            "done",
            "✓",
            pgettext_lazy("message state", "done"),
            _("Done messages"),
            _("No message is done, or all have been archived."),
        ),
    )
}
"""In the order in which they need attention."""


def state_of(message: Any, now: datetime) -> State:
    """Return the state that people see for this row, at that moment of the database's clock."""
    if message.status == DONE:
        return STATES["done"]
    if message.is_dead:
        return STATES["dead"]
    if message.status == RUNNING:
        return STATES["stuck" if message.lease_until <= now else "running"]
    if message.available_at == PARKED:
        return STATES["waiting"]
    due = message.available_at is not None and message.available_at <= now
    return STATES["ready" if due else "delayed"]


def applies(verb: Verb, message: Any, now: datetime) -> bool:
    """Return whether a verb can be applied to this row, at that moment of the database's clock."""
    return stage_of(message) in verb.stages and (verb.such is None or message.due_at > now)
