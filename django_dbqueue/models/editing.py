"""Sending a message again with another payload: in one transaction, the new one is stored, the old one is dropped."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext as _

from django_dbqueue.codecs import Json
from django_dbqueue.exceptions import InvalidFlow, MessageChanged
from django_dbqueue.models.message_row import AnyMessage
from django_dbqueue.operations.mover import move
from django_dbqueue.operations.outcome import CHANGED, sentence
from django_dbqueue.operations.seen import Seen
from django_dbqueue.operations.verbs import VERBS, Order
from django_dbqueue.operations.ways import send_copy
from django_dbqueue.redaction import stored_texts
from django_dbqueue.sessions.django_session import DjangoSession
from django_dbqueue.states.table import Stage


def send_edited(
    messages: Any, session: DjangoSession, message: AnyMessage, payload: Json, *, by: str | None
) -> AnyMessage:
    """Send it; see ``MessageQuerySet.send_edited``."""
    with session.transaction():
        old = _locked(messages, session, message)
        if old.flow is not None and old.stage is not Stage.FINISHED:
            raise InvalidFlow(
                f"message {old.pk} is part of flow #{old.flow}: those that wait for it would not wait for the new one. "
                "Requeue it, or drop it and send the flow again."
            )
        if old.stage is not Stage.FINISHED:
            order = Order(VERBS["drop"], by, stored_texts.EDITED % {"user": by or "?"})
            if not move(messages.model, session, order, [Seen.of(old)]).moved:
                raise MessageChanged(sentence(old, CHANGED))
        due = old.due_at if old.stage is Stage.UNCLAIMED else None
        new: AnyMessage = send_copy(messages, session, old, payload, by=by, at=due)
    return new


def _locked(messages: Any, session: DjangoSession, seen: AnyMessage) -> AnyMessage:
    """Return the row, locked, if it is as it was seen and nobody has it."""
    rows = messages.model.objects.using(session.using).select_for_update()
    old: AnyMessage | None = rows.filter(pk=seen.pk).first()
    if old is None or not Seen.of(seen).is_still(old):
        raise MessageChanged(sentence(seen, CHANGED))
    if old.stage is Stage.CLAIMED:
        raise MessageChanged(_("Message #%(id)s is claimed: release it first.") % {"id": seen.pk})
    return old
