"""Applying a verb to the messages that a page showed, and to no others.

A confirmation page carries a pin for each message: id, token, stage, due time and queue, at least one of which every
claim, move and update changes. Here the rows are locked, compared with their pins, and moved by the fenced statements
under the pinned token; what doesn't match is left alone and reported. Moves and their entries in the admin log are one
commit, if both tables are in one database.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Self

from django.contrib.admin.models import CHANGE
from django.contrib.auth.base_user import AbstractBaseUser
from django.utils.translation import gettext as _

from django_dbqueue.admin import logbook
from django_dbqueue.databases.statement import chunks
from django_dbqueue.exceptions import DBQueueError, DuplicateKey, InvalidMessage
from django_dbqueue.models import Message
from django_dbqueue.operations import operator_moves
from django_dbqueue.operations.change_queue import change_queue
from django_dbqueue.operations.verbs import Verb
from django_dbqueue.sessions.django_session import session_of
from django_dbqueue.typed_values import MAX_ID

CHUNK = 50
"""Messages per transaction: few enough to hold no row for long."""


@dataclass(frozen=True, slots=True)
class Pin:
    """The state of a message when its page was made."""

    id: int
    token: int | None
    stage: str
    due_at: str
    queue: str

    @classmethod
    def of(cls, message: Message) -> Self:
        due: datetime = message.due_at
        return cls(message.pk, message.claim_token, message.stage, f"{due:%Y%m%d%H%M%S%f}", message.queue)

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Return the pin from a form field; None if it isn't one."""
        try:
            number, token, stage, due, queue = text.split(":", 4)
            pin = cls(int(number), int(token) if token else None, stage, due, queue)
        except ValueError:
            return None
        return pin if 0 < pin.id <= MAX_ID else None

    def __str__(self) -> str:
        return f"{self.id}:{'' if self.token is None else self.token}:{self.stage}:{self.due_at}:{self.queue}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one message: moved, or why not."""

    id: int
    name: str
    moved: bool
    why: str = ""


def apply_verb(
    verb: Verb, pins: Iterable[Pin], *, using: str, user: Any, reason: str, queue: str = ""
) -> list[Outcome]:
    """Apply the verb to each message that is still as pinned; write the admin log; return what became of each."""
    outcomes: list[Outcome] = []
    ordered = sorted(set(pins), key=lambda pin: pin.id)  # locks are always taken in the same order
    for chunk in chunks(ordered, CHUNK):
        work = partial(_apply_to_chunk, verb, chunk, using, user, reason, queue)
        outcomes += session_of(using).outermost(work)
    return outcomes


def _apply_to_chunk(
    verb: Verb, pins: list[Pin], using: str, user: AbstractBaseUser, reason: str, queue: str
) -> list[Outcome]:
    outcomes: list[Outcome] = []
    moved: list[Any] = []
    with session_of(using).transaction():
        rows = _locked(pins, using)
        for pin in pins:
            message = rows.get(pin.id)
            outcome = _apply_to_one(verb, pin, message, using, user, reason, queue)
            if outcome.moved:
                moved.append(message)
            outcomes.append(outcome)
        if moved:
            logbook.note(user, moved, CHANGE, verb.done % {"reason": reason, "queue": queue})
    return outcomes


def _locked(pins: list[Pin], using: str) -> dict[int, Message]:
    rows = Message.objects.using(using).select_for_update().filter(pk__in=[pin.id for pin in pins])
    return {message.pk: message for message in rows.defer("body", "headers_text", "error").order_by("pk")}


def _apply_to_one(
    verb: Verb, pin: Pin, message: Message | None, using: str, user: AbstractBaseUser, reason: str, queue: str
) -> Outcome:
    if message is None:
        return Outcome(pin.id, f"#{pin.id}", moved=False, why=_("is no longer here (archived), left alone"))
    name = str(message)
    if Pin.of(message) != pin or pin.stage not in verb.stages:
        return Outcome(pin.id, name, moved=False, why=_("changed in the meantime, left alone"))
    message.held_token = pin.token
    try:
        moved = _move(verb, message, using, user.get_username(), reason, queue)
    except DuplicateKey as error:
        why = _("a newer live message has its key %(key)r") % {"key": error.key}
        return Outcome(pin.id, name, moved=False, why=why)
    except DBQueueError as error:
        return Outcome(pin.id, name, moved=False, why=str(error))
    return Outcome(pin.id, name, moved=moved, why="" if moved else _("changed in the meantime, left alone"))


def _move(verb: Verb, message: Message, using: str, actor: str, reason: str, queue: str) -> bool:
    """Apply the verb to the row as pinned; return whether it moved, or raise what was in the way."""
    changed: operator_moves.Changed
    if verb.asks_queue:
        if message.queue == queue:
            raise InvalidMessage(_("is in that queue already"))
        changed = change_queue(session_of(using), [message], queue, actor=actor)
    elif verb.move is None:
        changed = Message.objects.using(using).filter(pk=message.pk).send_again(by=actor)
    else:
        changed = operator_moves.apply(
            session_of(using), verb, [message], reason=verb.said_by(actor, reason), actor=actor
        )
    if changed.conflicts:
        raise changed.conflicts[0]
    return changed == 1
