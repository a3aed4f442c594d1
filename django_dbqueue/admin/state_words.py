"""The states that people see, each with a symbol next to the word: never colour alone."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from django_dbqueue.operations.verbs import Verb
from django_dbqueue.states.table import state_of

if TYPE_CHECKING:
    from django.utils.functional import _StrPromise as StrPromise


@dataclass(frozen=True, slots=True)
class StateWords:
    """A state for people. ``name`` is the queryset's adjective."""

    name: str
    symbol: str
    label: StrPromise
    title: StrPromise
    none: StrPromise


WORDS = {
    state.name: state
    for state in (
        StateWords(
            "stuck",
            "!",
            pgettext_lazy("message state", "stuck"),
            _("Stuck messages"),
            _("No message is stuck: no lease has expired."),
        ),
        StateWords(
            "dead",
            "✕",
            pgettext_lazy("message state", "dead"),
            _("Dead letters"),
            _("No message is dead."),
        ),
        StateWords(
            "running",
            "▶",
            pgettext_lazy("message state", "running"),
            _("Running messages"),
            _("No message is running."),
        ),
        StateWords(
            "ready",
            "●",
            pgettext_lazy("message state", "ready"),
            _("Ready messages"),
            _("No message is ready."),
        ),
        StateWords(
            "delayed",
            "◷",
            pgettext_lazy("message state", "delayed"),
            _("Delayed messages"),
            _("No message is delayed."),
        ),
        StateWords(
            "waiting",
            "≡",
            pgettext_lazy("message state", "waiting"),
            _("Waiting messages"),
            _("No message is waiting for its group, for others of its flow, or for an event."),
        ),
        StateWords(
            "done",
            "✓",
            pgettext_lazy("message state", "done"),
            _("Done messages"),
            _("No message is done, or all have been archived."),
        ),
    )
}
"""In the order in which they need attention."""


def words_for(message: Any, now: datetime) -> StateWords:
    """Return the words for the state of this row, at that moment of the database's clock."""
    return WORDS[state_of(message, now).name]


def applies(verb: Verb, message: Any, now: datetime) -> bool:
    """Return whether a verb can be applied to this row, at that moment of the database's clock."""
    return message.stage in verb.stages and (verb.such is None or message.due_at > now)
