"""Events that handlers wait for, and who waits. What happened to messages is in ``event``."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from asgiref.sync import sync_to_async
from django.db import models
from django.utils.translation import gettext_lazy as _

from django_dbqueue import codecs
from django_dbqueue.codecs import Json
from django_dbqueue.envelope import check_seconds
from django_dbqueue.exceptions import InvalidMessage
from django_dbqueue.models.aliases import OwnDatabaseManager, OwnDatabaseModel
from django_dbqueue.models.fields import AsciiField, DbNow, ExactTextField, KeyField, UTCDateTimeField
from django_dbqueue.steps.emitting import emit
from django_dbqueue.steps.step_memory import check_name

KEPT_FOR: Final = timedelta(days=30)


class EventManager(OwnDatabaseManager["Event"]):
    """``Event.objects``: emit."""

    def emit(
        self,
        name: str,
        payload: Json = None,
        *,
        keep_for: float | timedelta = KEPT_FOR,
        using: str | None = None,
    ) -> bool:
        """Let messages that wait for this event, now or later, continue with the payload.

        The first emit of a name wins; return whether this is it. It joins the caller's transaction, and wakes those
        who wait after its commit. The event is kept for ``keep_for`` (seconds or timedelta), whether anybody waits or
        not; after that the name is free again. InvalidMessage says what can't be stored.
        """
        session = self._session(using)
        seconds = check_seconds("keep_for", keep_for)
        return emit(session, check_name(name, "an event", InvalidMessage), payload, keep_seconds=seconds)

    async def aemit(self, name: str, payload: Json = None, **options: Any) -> bool:
        """Run ``emit`` from async code."""
        return await sync_to_async(self.emit)(name, payload, **options)


class Event(models.Model):
    """Something that happened, once, for which handlers wait by its name."""

    name_hash = AsciiField(max_length=64, primary_key=True)
    name = KeyField(_("name"), max_length=200)
    body = ExactTextField(_("body"))
    content_type = AsciiField(_("content type"), max_length=16)
    types = ExactTextField(_("types"), null=True)
    token = models.BigIntegerField(editable=False)
    at = UTCDateTimeField(_("at"), db_default=DbNow())
    wake_from = UTCDateTimeField(_("to be woken from"), null=True)
    expires_at = UTCDateTimeField(_("kept until"))

    objects = EventManager()

    class Meta:
        db_table = "django_dbqueue_eventvalue"
        verbose_name = _("emitted event")
        verbose_name_plural = _("emitted events")
        default_permissions = ()
        indexes = (
            models.Index(fields=("expires_at",), name="dbqueue_eventvalue_end"),
            models.Index(fields=("wake_from",), name="dbqueue_eventvalue_wake"),
        )

    def __str__(self) -> str:
        return str(self.name)

    @property
    def payload(self) -> Json:
        """The payload, decoded on each access; UndecodableMessage if that fails."""
        return codecs.decode_typed(self.body or "", self.content_type, self.types)


class Waiter(OwnDatabaseModel):
    """A message that waits for an event, as it was suspended under this claim."""

    pk = models.CompositePrimaryKey("name_hash", "message_id")
    name_hash = AsciiField(max_length=64)
    message_id = models.BigIntegerField(_("message"))
    token = models.BigIntegerField(_("claim token"))

    class Meta:
        verbose_name = _("waiter")
        verbose_name_plural = _("waiters")
        default_permissions = ()
        indexes = (models.Index(fields=("message_id",), name="dbqueue_waiter_message"),)

    def __str__(self) -> str:
        return f"#{self.message_id}"
