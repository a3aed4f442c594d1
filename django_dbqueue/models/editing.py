"""Sending a message anew with another payload: in one transaction, the new one is stored and the old one is dropped."""

from __future__ import annotations

from typing import Any, Final

from django.utils.translation import gettext as _

from django_dbqueue.codecs import Json, decode_headers
from django_dbqueue.envelope import WHOLE_QUEUE
from django_dbqueue.exceptions import InvalidFlow, MessageChanged
from django_dbqueue.lifecycle import moves
from django_dbqueue.models.message_row import AnyMessage, MessageRow
from django_dbqueue.operations import operator_moves
from django_dbqueue.redaction import stored_texts
from django_dbqueue.sessions.django_session import DjangoSession
from django_dbqueue.states.table import Stage

SENT_AGAIN_FROM: Final = "dbqueue.sent_again_from"
"""Header of a message that was sent again: the id of the one it repeats."""


def group_of(message: MessageRow) -> str | None:
    """Return the group that a copy of a message has to name."""
    return None if message.group_name == WHOLE_QUEUE else message.group_name


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
            reason = stored_texts.EDITED % {"user": by or "?"}
            if operator_moves.drop(session, [old], reason=reason, actor=by) != 1:
                raise MessageChanged(_("Message #%(id)s has changed in the meantime.") % {"id": old.pk})
        new: AnyMessage = messages.enqueue(
            payload,
            queue=old.queue,
            key=old.key,
            at=old.due_at if old.stage is Stage.UNCLAIMED else None,
            priority=old.priority,
            max_reads=old.max_reads,
            lease=old.lease_seconds or None,
            headers={**decode_headers(old.headers_text), SENT_AGAIN_FROM: old.pk},
            group=group_of(old),
            on_conflict="error",
            using=session.using,
        )
        moves.resent(session, old, new.pk, actor=by)
    return new


def _locked(messages: Any, session: DjangoSession, seen: AnyMessage) -> AnyMessage:
    """Return the row, locked, if it is as it was seen and nobody has it."""
    rows = messages.model.objects.using(session.using).select_for_update()
    same = {"queue": seen.queue, "claim_token": seen.claim.token, "due_at": seen.due_at, "status": seen.status}
    old: AnyMessage | None = rows.filter(pk=seen.pk, **same).first()
    if old is None or old.stage != seen.stage:
        raise MessageChanged(_("Message #%(id)s has changed in the meantime.") % {"id": seen.pk})
    if old.stage is Stage.CLAIMED:
        raise MessageChanged(_("Message #%(id)s is taken: release it first.") % {"id": seen.pk})
    return old
