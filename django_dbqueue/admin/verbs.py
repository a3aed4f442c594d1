"""What an operator may do to a message: five verbs, each with its permission, its stages and its fenced move."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from django_dbqueue.admin.states import DEAD, FINISHED, TAKEN, WAITING
from django_dbqueue.lifecycle import requeue, settle
from django_dbqueue.lifecycle.session import DjangoSession
from django_dbqueue.models import Message
from django_dbqueue.statuses import RUNNING


@dataclass(frozen=True, slots=True)
class Verb:
    """One thing that can be done. ``move`` takes (alias, message, reason, actor) and returns whether the row moved.

    It raises DuplicateKey if a newer live message has the key, and other DBQueueErrors that say what to do.
    """

    name: str
    permission: str
    stages: frozenset[str]
    label: Any
    many: Any
    question: Any
    done: Any
    move: Callable[[str, Any, str, str], bool]
    asks_reason: bool = False
    once: bool = False
    """Whether it leaves no mark on the row, so that the session has to remember that a confirmation was used."""


def _requeue(using: str, message: Any, _reason: str, actor: str) -> bool:
    changed = requeue.requeue(DjangoSession(using), [message], actor=actor)
    if changed.conflicts:
        raise changed.conflicts[0]
    return changed == 1


def _release(using: str, message: Any, _reason: str, actor: str) -> bool:
    return not settle.release_many([message], DjangoSession(using), actor=actor)


def _reject(using: str, message: Any, reason: str, actor: str) -> bool:
    if message.status == RUNNING:
        return not settle.reject_many([message], DjangoSession(using), reason=reason, actor=actor)
    return requeue.reject_waiting(DjangoSession(using), [message], reason=reason, actor=actor) == 1


def _send_again(using: str, message: Any, _reason: str, actor: str) -> bool:
    changed: requeue.Changed = Message.objects.using(using).filter(pk=message.pk).send_again(by=actor)
    if changed.conflicts:
        raise changed.conflicts[0]
    return changed == 1


def _drop(using: str, message: Any, reason: str, actor: str) -> bool:
    return requeue.drop(DjangoSession(using), [message], reason=reason, actor=actor) == 1


VERBS = {
    verb.name: verb
    for verb in (
        Verb(
            name="requeue",
            permission="requeue",
            stages=frozenset({TAKEN, DEAD}),
            label=pgettext_lazy("verb", "Requeue"),
            many=_("Requeue selected messages"),
            question=_(
                "The message becomes ready at once, as if new: its counts start at zero. A holder that still works "
                "on it loses its claim, and what it says about it later changes nothing."
            ),
            done=_("Requeued."),
            move=_requeue,
        ),
        Verb(
            name="release",
            permission="release",
            stages=frozenset({TAKEN}),
            label=pgettext_lazy("verb", "Release"),
            many=_("Release selected messages"),
            question=_(
                "The message goes back to where it stood in the queue; the interrupted delivery is not counted."
            ),
            done=_("Released."),
            move=_release,
        ),
        Verb(
            name="reject",
            permission="reject",
            stages=frozenset({WAITING, TAKEN}),
            label=pgettext_lazy("verb", "Reject"),
            many=_("Reject selected messages"),
            question=_("The message goes to the dead letters, with your reason. It can be requeued from there."),
            done=_("Rejected: %(reason)s"),
            move=_reject,
            asks_reason=True,
        ),
        Verb(
            name="send-again",
            permission="resend",
            stages=frozenset({DEAD, FINISHED}),
            label=pgettext_lazy("verb", "Send again"),
            many=_("Send selected messages again"),
            question=_("A new message with the same payload, key and headers is sent; the old one stays as it is."),
            done=_("Sent again."),
            move=_send_again,
            once=True,
        ),
        Verb(
            name="drop",
            permission="drop",
            stages=frozenset({WAITING, TAKEN, DEAD}),
            label=pgettext_lazy("verb", "Drop"),
            many=_("Drop selected messages"),
            question=_("The message is marked done without being processed, with your reason. This can't be undone."),
            done=_("Dropped: %(reason)s"),
            move=_drop,
            asks_reason=True,
        ),
    )
}
"""By the name used in URLs."""
