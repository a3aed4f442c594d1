"""The life of a message: who held it, when, and with what result, from its row and its recorded events."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.utils.translation import gettext as _
from django.utils.translation import pgettext

from django_dbqueue.admin import display
from django_dbqueue.models import ArchivedMessage, Message, MessageEvent
from django_dbqueue.models.archived_message import outcome_of
from django_dbqueue.redaction import stored_texts
from django_dbqueue.statements import events_sql as kinds
from django_dbqueue.statuses import RUNNING

EVENTS: Final = 200
"""Events of one message that are shown: the latest."""

Shown = Callable[[str], str]
"""Returns what may be shown of a text that a consumer wrote."""

_SYMBOLS: Final = {
    kinds.FAILED: ("stuck", "↺"),
    kinds.INTERRUPTED: ("quiet", "❚❚"),
    kinds.RESCUED: ("stuck", "⚠"),
    kinds.DIED: ("dead", "✕"),
    kinds.REJECTED: ("dead", "✕"),
    kinds.CANCELLED: ("dead", "⊘"),
    kinds.RELEASED: ("quiet", "↩"),
    kinds.REQUEUED: ("ready", "↻"),
    kinds.HASTENED: ("ready", "»"),
    kinds.MOVED: ("quiet", "⇢"),
    kinds.RESENT: ("ready", "⎘"),
    kinds.DROPPED: ("quiet", "–"),
    kinds.FORGOTTEN: ("quiet", "⌫"),
    kinds.RESULT_FORGOTTEN: ("quiet", "⌫"),
}
_OURS: Final = (kinds.RESCUED, kinds.RESENT, kinds.RELEASED, kinds.FORGOTTEN, kinds.MOVED)
"""Kinds whose detail is always our own text, and so quotes no payload."""
_NO_MOVES: Final = (kinds.RESENT, kinds.FORGOTTEN, kinds.RESULT_FORGOTTEN)
"""Kinds after which a message is where it was."""


@dataclass(frozen=True, slots=True)
class LifeStep:
    """One line: when, what (with the symbol and colour of its badge), by whom, and the accompanying text."""

    at: datetime
    kind: str
    symbol: str
    label: str
    by: str = ""
    detail: str = ""
    forget_url: str = ""
    """Where this user can make the message forget the step that this is."""
    comes_last: int = 0
    """Orders steps of the same moment, as clocks may count in milliseconds."""


@dataclass(frozen=True, slots=True)
class Life:
    """The steps in order of time.

    ``is_cut`` if earlier ones are not shown; ``untold`` counts the deliveries without a remaining event.
    """

    steps: tuple[LifeStep, ...]
    is_cut: bool
    untold: int

    @property
    def timed(self) -> Iterator[tuple[LifeStep, str]]:
        """Yield each step with the time since the one before it, as text."""
        for before, step in zip((None, *self.steps), self.steps, strict=False):
            yield step, "" if before is None else display.gap(step.at - before.at)


def life_of(
    message: Message | ArchivedMessage, message_id: int, *, using: str, shown: Shown, steps: Sequence[LifeStep] = ()
) -> Life:
    """Return the life of a message, or of an archived one; ``steps`` are what its handler has done."""
    found = MessageEvent.objects.using(using).filter(message_id=message_id).order_by("-id")[: EVENTS + 1]
    events = list(found)[:EVENTS][::-1]
    steps = [LifeStep(message.created_at, "quiet", "●", _("Sent")), *steps]
    covered: set[tuple[datetime, int | None]] = set()
    for event in events:
        if event.claimed_at is not None and (event.claimed_at, event.read_count) not in covered:
            covered.add((event.claimed_at, event.read_count))
            steps.append(_claim(event.claimed_at, event.worker, event.conn_id, event.read_count))
        steps.append(_event(event, shown))
    last = message.claimed_at
    if last is not None and not _is_covered(message, covered):
        covered.add((last, message.read_count))
        worker, conn_id = getattr(message, "worker", None), getattr(message, "conn_id", None)
        steps.append(_claim(last, None if worker is None else str(worker), conn_id, message.read_count))
    steps += _end(message, events, shown)
    is_cut = len(found) > EVENTS
    steps.sort(key=lambda step: (step.at, step.comes_last))
    untold = 0 if is_cut or any(event.kind == kinds.REQUEUED for event in events) else message.read_count - len(covered)
    return Life(tuple(steps), is_cut, max(0, untold))


def _is_covered(message: Message | ArchivedMessage, covered: set[tuple[datetime, int | None]]) -> bool:
    """Return whether an event covers the last claim; an uncharged return has changed the read count since."""
    if outcome_of(message) == "done" or getattr(message, "status", "") == RUNNING:
        return (message.claimed_at, message.read_count) in covered
    return message.claimed_at in {claimed_at for claimed_at, _reads in covered}


def _claim(at: datetime, worker: str | None, conn_id: int | None, reads: int | None) -> LifeStep:
    by = [] if worker is None else [_("worker %(worker)s") % {"worker": worker}]
    if conn_id is not None:
        by.append(_("session %(id)s") % {"id": conn_id})
    detail = "" if not reads else _("delivery %(number)d") % {"number": reads}
    return LifeStep(at, "running", "▶", pgettext("life of a message", "Claimed"), ", ".join(by), detail)


def _event(event: MessageEvent, shown: Shown) -> LifeStep:
    kind, symbol = _SYMBOLS.get(event.kind, ("quiet", "•"))
    detail, after = detail_of(event, shown), event.kind == kinds.RESENT
    return LifeStep(event.at, kind, symbol, label_of(event.kind), event.actor or "", detail, comes_last=int(after))


def detail_of(event: MessageEvent, shown: Shown) -> str:
    """Return what an event says as it may be shown: of an error its class and message."""
    detail = event.detail or ""
    if event.actor is not None or event.kind in _OURS:
        return stored_texts.translated(detail)
    # Of a task's error the record has the traceback too, which is shown beside its other attempts.
    return shown(detail.partition("\n\n")[0])


def label_of(kind: str) -> str:
    """Return what an event's kind is called."""
    return {
        kinds.FAILED: pgettext("life of a message", "Failed, to be retried"),
        kinds.INTERRUPTED: pgettext("life of a message", "Interrupted, to be retried"),
        kinds.RESCUED: pgettext("life of a message", "Rescued, to be retried"),
        kinds.DIED: pgettext("life of a message", "Dead: no deliveries were left"),
        kinds.REJECTED: pgettext("life of a message", "Rejected: moved to the dead letters"),
        kinds.CANCELLED: pgettext("life of a message", "Cancelled: moved to the dead letters"),
        kinds.RELEASED: pgettext("life of a message", "Released"),
        kinds.REQUEUED: pgettext("life of a message", "Requeued, as if new"),
        kinds.MOVED: pgettext("life of a message", "Moved to another queue"),
        kinds.HASTENED: pgettext("life of a message", "Made due now"),
        kinds.RESENT: pgettext("life of a message", "Sent again as a new message"),
        kinds.DROPPED: pgettext("life of a message", "Dropped"),
        kinds.FORGOTTEN: pgettext("life of a message", "Step forgotten"),
        kinds.RESULT_FORGOTTEN: pgettext("life of a message", "Result deleted: kept long enough"),
    }.get(kind, kind)


def _end(message: Message | ArchivedMessage, events: Sequence[MessageEvent], shown: Shown) -> list[LifeStep]:
    """Return how it ended according to the row itself, if no event shows it; and when it was archived."""
    steps: list[LifeStep] = []
    last_kind = next((event.kind for event in reversed(events) if event.kind not in _NO_MOVES), "")
    outcome = outcome_of(message)
    if outcome == "done":
        steps.append(LifeStep(message.finished_at, "ready", "✓", pgettext("life of a message", "Done")))
    elif outcome == "dropped" and last_kind != kinds.DROPPED:
        steps.append(
            LifeStep(message.finished_at, "quiet", "–", label_of(kinds.DROPPED), detail=shown(message.error or ""))
        )
    elif outcome == "dead" and last_kind not in kinds.DEADLY:
        label = pgettext("life of a message", "Died")
        steps.append(LifeStep(message.finished_at, "dead", "✕", label, detail=shown(message.error or "")))
    if isinstance(message, ArchivedMessage):
        label = pgettext("life of a message", "Moved to the history")
        steps.append(LifeStep(message.archived_at, "quiet", "▤", label, comes_last=2))
    return steps
