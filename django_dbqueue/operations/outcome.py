"""What became of messages: moved, or left alone while the others continue, and why, in words for people."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from django.db import DatabaseError
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from django_dbqueue.databases.errors import code_of
from django_dbqueue.exceptions import DBQueueError, DuplicateKey, InvalidMessage
from django_dbqueue.operations.verbs import Verb
from django_dbqueue.sessions.apart import name_refused
from django_dbqueue.sessions.retry import is_duplicate, is_refused, named
from django_dbqueue.states.table import Stage

if TYPE_CHECKING:
    from django.utils.functional import _StrPromise as StrPromise

    Why = StrPromise | DBQueueError

GONE: Final = _("is not there: it may have been archived")
CHANGED: Final = _("changed in the meantime, left alone")
LOCKED: Final = _("is locked by another transaction, try again")
SAME_QUEUE: Final = _("is in that queue already")


@dataclass(slots=True)
class MoveOutcome:
    """What became of messages to which a verb was applied."""

    moved: dict[int, str] = field(default_factory=dict)
    """By id, the queue in which each was."""
    were_dead: set[int] = field(default_factory=set)
    """Those of them that had been dead before."""
    left: dict[int, Why] = field(default_factory=dict)
    """Those that were left alone: by id, why."""
    cursor: str | None = None
    """Where the next page of a selection begins; None after the last."""

    @property
    def errors(self) -> list[DBQueueError]:
        """What was in the way of those that could have been moved."""
        return [why for why in self.left.values() if isinstance(why, DBQueueError)]


class Changed(int):
    """How many messages a verb changed; ``conflicts`` holds the error of each one that it could not change.

    The error is a DuplicateKey if the key was taken, an UndecodableMessage if the row can't be read, and an
    InvalidMessage if the message can't be what was asked, or the database refused it.
    """

    conflicts: list[DBQueueError]

    def __new__(cls, count: int, conflicts: Iterable[DBQueueError] = ()) -> Changed:
        changed = super().__new__(cls, count)
        changed.conflicts = list(conflicts)
        return changed


def not_for(verb: Verb, stage: Stage) -> StrPromise:
    """Return why a verb is not for a message, named by its id, of this stage."""
    if stage is Stage.FINISHED:
        return _("is done already")
    if verb.such is not None:
        return _("is due already") if stage is Stage.UNCLAIMED else _("is not delayed")
    if stage is Stage.DEAD:
        return _("is dead already")
    return _("is claimed") if verb.asks_queue else _("is neither claimed nor dead")


def conflict_of(error: DatabaseError, message: Any, queue: str) -> DBQueueError:
    """Return why this message, in or for this queue, is as it was; raise an error that is about no message."""
    if is_duplicate(error) or (code_of(error) is None and "UNIQUE" in str(error)):
        return DuplicateKey(queue, message.key, message_id=message.pk)
    if not is_refused(error):
        raise error
    name_refused(message.pk, error)
    return InvalidMessage(f"message {message.pk}: the database refused the change ({named(error)}); the log says more.")


def in_words(why: Why) -> str:
    """Return why a message was left alone, as the end of a sentence about it."""
    if isinstance(why, DuplicateKey):
        return gettext("a newer live message has its key %(key)r") % {"key": why.key}
    return str(why)


def sentence(message: object, why: Why) -> str:
    """Return that a message was left alone, and why."""
    return gettext("%(message)s %(why)s.") % {"message": message, "why": in_words(why).rstrip(".")}
