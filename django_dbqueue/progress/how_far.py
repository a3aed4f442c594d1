"""How far a flow or a message is, in a few bounded reads, and when to ask again."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from django.db.models import BooleanField, ExpressionWrapper, Q
from django.utils.translation import gettext as _
from django.utils.translation import ngettext, pgettext

from django_dbqueue.flows.flow_progress import estimate_of
from django_dbqueue.models import ArchivedMessage, Flow, Message
from django_dbqueue.models.fields import clock
from django_dbqueue.progress.links import DELETED_MESSAGE, FLOW, Followed
from django_dbqueue.sessions.django_session import session_of
from django_dbqueue.states.counts import grouped
from django_dbqueue.states.spans import span
from django_dbqueue.states.table import Stage

SOONEST: Final = 2.0
LATEST: Final = 30.0
"""Seconds between two checks."""
WAITING, RUNS, ENDED, DROPPED, DEAD = "waiting", "running", "done", "dropped", "dead"
"""States of a message; the last three are the outcomes that the history knows."""


@dataclass(frozen=True, slots=True)
class HowFar:
    """How far something is."""

    finished: int
    dead: int
    total: int
    is_exact: bool
    age: float
    """Seconds since it was sent."""
    state: str = ""
    """Of a message: *waiting*, *running*, *done*, *dropped* or *dead*."""

    @property
    def left(self) -> int:
        """How many have not ended."""
        return max(0, self.total - self.finished - self.dead)

    @property
    def has_ended(self) -> bool:
        """Whether all of it has ended, well or not."""
        return not self.left

    @property
    def eta(self) -> float | None:
        """Seconds until it is over if it continues as it has since it was sent; None if that says nothing."""
        if not self.left or not self.finished or self.dead:
            return None
        return self.age * self.left / self.finished

    @property
    def poll_after(self) -> float | None:
        """Seconds after which it is worth asking again: the older it is, the later, but in time for its end."""
        if self.has_ended:
            return None
        soon = self.age / 20 if self.eta is None else min(self.age / 20, self.eta / 4)
        return round(min(LATEST, max(SOONEST, soon)), 1)

    def document(self) -> dict[str, object]:
        """Return it for programs, and the text for people."""
        return {
            "finished": self.finished,
            "dead": self.dead,
            "left": self.left,
            "total": self.total,
            "exact": self.is_exact,
            "over": self.has_ended,
            "eta": None if self.eta is None else round(self.eta),
            "poll": self.poll_after,
            "text": self.text(),
        }

    def text(self) -> str:
        """Return it for people, in their language."""
        if self.state:
            return self._of_one()
        values = {"finished": grouped(self.finished), "total": grouped(self.total)}
        parts = [(_("%(finished)s of %(total)s") if self.is_exact else _("about %(finished)s of %(total)s")) % values]
        if self.dead:
            failed = ngettext("%(n)s has failed", "%(n)s have failed", self.dead)
            parts.append(failed % {"n": grouped(self.dead)})
        if self.has_ended and not self.dead:
            parts.append(pgettext("progress", "finished"))
        if self.eta is not None:
            parts.append(_("about %(time)s left") % {"time": span(timedelta(seconds=self.eta))})
        return ", ".join(parts)

    def _of_one(self) -> str:
        return {
            WAITING: pgettext("progress", "waiting"),
            RUNS: pgettext("progress", "running"),
            ENDED: pgettext("progress", "finished"),
            DROPPED: pgettext("progress", "cancelled"),
            DEAD: pgettext("progress", "failed"),
        }[self.state]


def how_far(followed: Followed) -> HowFar | None:
    """Look at a flow or a message; None if it isn't there."""
    return _flow(followed) if followed.kind == FLOW else _message(followed)


def _flow(followed: Followed) -> HowFar | None:
    flow = Flow.objects.using(followed.using).filter(pk=followed.number).first()
    if flow is None:
        return None
    age = (clock(followed.using) - flow.created_at).total_seconds()
    seen = estimate_of(session_of(followed.using), flow.pk)
    return HowFar(seen.finished, seen.dead, seen.total, seen.is_exact, age)


def _message(followed: Followed) -> HowFar | None:
    rows = Message.objects.using(followed.using).filter(pk=followed.number)
    was_dropped = ExpressionWrapper(Q(error__isnull=False), output_field=BooleanField())
    row = rows.only("status", "available_at", "created_at").annotate(was_dropped=was_dropped).first()
    if row is None:
        return _gone(followed)
    ended = DROPPED if row.was_dropped else ENDED
    state = {Stage.UNCLAIMED: WAITING, Stage.CLAIMED: RUNS, Stage.DEAD: DEAD, Stage.FINISHED: ended}[row.stage]
    return _in_state(state, age=(clock(followed.using) - row.created_at).total_seconds())


def _gone(followed: Followed) -> HowFar | None:
    """Say how a message ended that has left the queue's table."""
    if followed.kind == DELETED_MESSAGE:
        return _in_state(ENDED)
    history = ArchivedMessage.objects.using(followed.using).filter(message_id=followed.number)
    outcome = history.order_by("-pk").values_list("outcome", flat=True).first()
    return None if outcome is None else _in_state(outcome)


def _in_state(state: str, *, age: float = 0) -> HowFar:
    return HowFar(int(state in (ENDED, DROPPED)), int(state == DEAD), 1, is_exact=True, age=age, state=state)
