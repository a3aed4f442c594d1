"""What an operator may do to messages: the one table that the admin, bulk operations and commands read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from django_dbqueue import conf
from django_dbqueue.databases import Change, Server
from django_dbqueue.envelope import check_queue
from django_dbqueue.exceptions import InvalidMessage
from django_dbqueue.failures.error_texts import error_text
from django_dbqueue.redaction import stored_texts
from django_dbqueue.statements import moves_sql
from django_dbqueue.statements.events_sql import CANCELLED, CANCELS
from django_dbqueue.states.table import Stage

if TYPE_CHECKING:
    from django.utils.functional import _StrPromise as StrPromise


@dataclass(frozen=True, slots=True)
class Verb:
    """One thing that can be done."""

    name: str
    """As URLs and commands write it."""
    permission: str
    stages: tuple[Stage, ...]
    label: StrPromise
    many: StrPromise
    question: StrPromise
    done: str
    """What Django's admin log keeps: English, as of Django's own entries."""
    move: Callable[[Server, str, str | None], Change] | None
    """The change, by the reason and the actor; None: more than a change of the row."""
    stored_text: str = ""
    """What the row's ``error`` keeps of the actor and the reason, which is asked for; '' if it keeps nothing."""
    asks_queue: bool = False
    """Whether a person must name a queue, into which the messages go."""
    only: str = ""
    """The one state of its stages whose messages it is for; '' for all."""
    such: Callable[[Server], str] | None = None
    """A further condition on the rows: that they are due later than now."""

    @property
    def codename(self) -> str:
        """The permission as Django names it."""
        return f"{self.permission}_message"

    @property
    def asks_reason(self) -> bool:
        """Whether a person must give a reason."""
        return bool(self.stored_text)

    @property
    def once(self) -> bool:
        """Whether it leaves no mark on the row, so that the session has to remember that a confirmation was used."""
        return self.move is None and not self.asks_queue

    @property
    def states(self) -> tuple[str, ...]:
        """The states whose messages it applies to."""
        return (self.only,) if self.only else tuple(state for stage in self.stages for state in stage.states)

    @property
    def stage_fence(self) -> str:
        """The condition that a row is of a stage it applies to."""
        return f"({' OR '.join(stage.sql for stage in self.stages)})"

    def fence(self, server: Server) -> str:
        """Return the condition on the rows it applies to."""
        return self.stage_fence if self.such is None else f"({self.stage_fence} AND {self.such(server)})"

    def ordered(self, by: str, reason: str, queue: str = "") -> Order:
        """Return the order that a person gives."""
        return Order(self, by, self.stored_text % {"user": by, "reason": reason}, queue)

    def change(self, server: Server, reason: str, actor: str | None) -> Change:
        """Return what it does to a row."""
        assert self.move is not None, f"{self.name} moves no row"
        return self.move(server, reason, actor)


@dataclass(frozen=True, slots=True)
class Order:
    """A verb, and by whom, why and where to."""

    verb: Verb
    by: str | None
    """The person who does it, if one does."""
    error: str = ""
    """What the row's ``error`` is to keep."""
    queue: str = ""
    """Into which messages go, if the verb asks for it."""


def cancelling(reason: str, by: str | None) -> Order:
    """Return the order to cancel, by a person or, for None, by its sender."""
    verb = VERBS["cancel"]
    return (
        verb.ordered(by, reason)
        if by
        else Order(verb, None, stored_texts.CANCELLED_WITHOUT_A_NAME % {"reason": reason})
    )


def check_target(queue: str) -> str:
    """Return the name of a queue into which messages may be moved, or raise InvalidMessage."""
    if check_queue(queue) == conf.get("OPERATIONS_QUEUE"):
        raise InvalidMessage(f"The queue {queue!r} is for the steps of bulk operations: move messages elsewhere.")
    return queue


def _kept(reason: str) -> str:
    """Return a reason for the column ``error``; never empty, since it distinguishes dropped rows from done ones."""
    return error_text(reason) or "by an operator, who gave no reason"


VERBS: Final = {
    verb.name: verb
    for verb in (
        Verb(
            name="requeue",
            permission="requeue",
            stages=(Stage.CLAIMED, Stage.DEAD),
            label=pgettext_lazy("verb", "Requeue"),
            many=_("Requeue selected messages"),
            question=_(
                "The message becomes ready at once, as if new: its counts start at zero. A holder that still works "
                "on it loses its claim, and what it says about it later changes nothing."
            ),
            done="Requeued.",
            move=lambda server, _reason, actor: moves_sql.requeue(server, actor=actor),
        ),
        Verb(
            name="due-now",
            permission="hasten",
            stages=(Stage.UNCLAIMED,),
            label=pgettext_lazy("verb", "Due now"),
            many=_("Make selected messages due now"),
            question=_(
                "The message becomes due at once, and its counts stay. A message of a group still waits for its turn."
            ),
            done="Made due now.",
            move=lambda server, _reason, actor: moves_sql.due_now(server, actor=actor),
            only="delayed",
            such=lambda server: moves_sql.is_early(server),
        ),
        Verb(
            name="release",
            permission="release",
            stages=(Stage.CLAIMED,),
            label=pgettext_lazy("verb", "Release"),
            many=_("Release selected messages"),
            question=_(
                "The message goes back to where it stood in the queue; the interrupted delivery is not counted."
            ),
            done="Released.",
            move=lambda server, _reason, actor: moves_sql.release(server, actor=actor),
        ),
        Verb(
            name="cancel",
            permission="cancel",
            stages=(Stage.UNCLAIMED, Stage.CLAIMED),
            label=pgettext_lazy("verb", "Cancel"),
            many=_("Cancel selected messages"),
            question=_(
                "The message goes to the dead letters at once, with your reason, and can be requeued from there. What "
                "runs it is interrupted within two seconds, and changes nothing more; if it does not end, its process "
                "is replaced."
            ),
            done="Cancelled: %(reason)s",
            move=lambda server, reason, actor: moves_sql.reject(
                server, _kept(reason), CANCELS, actor=actor, kind=CANCELLED
            ),
            stored_text=stored_texts.CANCELLED,
        ),
        Verb(
            name="reject",
            permission="reject",
            stages=(Stage.UNCLAIMED, Stage.CLAIMED),
            label=pgettext_lazy("verb", "Reject"),
            many=_("Reject selected messages"),
            question=_("The message goes to the dead letters, with your reason. It can be requeued from there."),
            done="Rejected: %(reason)s",
            move=lambda server, reason, actor: moves_sql.reject(server, _kept(reason), actor=actor),
            stored_text=stored_texts.REJECTED,
        ),
        Verb(
            name="send-again",
            permission="resend",
            stages=(Stage.DEAD, Stage.FINISHED),
            label=pgettext_lazy("verb", "Send again"),
            many=_("Send selected messages again"),
            question=_("A new message with the same payload, key and headers is sent; the old one stays as it is."),
            done="Sent again.",
            move=None,
        ),
        Verb(
            name="move",
            permission="move",
            stages=(Stage.UNCLAIMED, Stage.DEAD),
            label=pgettext_lazy("verb", "Move"),
            many=_("Move selected messages to another queue"),
            question=_(
                "The message goes to the queue that you name, with its key, its group and its due time. A dead one "
                "becomes ready there, as if new."
            ),
            done="Moved to %(queue)s.",
            move=None,
            asks_queue=True,
        ),
        Verb(
            name="drop",
            permission="drop",
            stages=(Stage.UNCLAIMED, Stage.CLAIMED, Stage.DEAD),
            label=pgettext_lazy("verb", "Drop"),
            many=_("Drop selected messages"),
            question=_("The message is marked done without being processed, with your reason. This can't be undone."),
            done="Dropped: %(reason)s",
            move=lambda server, reason, actor: moves_sql.drop(server, _kept(reason), actor=actor),
            stored_text=stored_texts.DROPPED,
        ),
    )
}
"""By name."""
