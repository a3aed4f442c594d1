"""What happened to messages out of the ordinary: failures, rescues and operator actions, one row each."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from django_dbqueue.failures.fingerprint import names_class
from django_dbqueue.models.aliases import OwnDatabaseModel
from django_dbqueue.models.fields import AsciiField, DbNow, ExactTextField, KeyField, UTCDateTimeField


class Failure(OwnDatabaseModel):
    """A kind of failure in one queue: the class of the exception and the place that raised it."""

    id = models.BigAutoField(primary_key=True)
    queue = AsciiField(_("queue"), max_length=64)
    fingerprint = AsciiField(_("fingerprint"), max_length=64)
    exception = KeyField(_("exception"), max_length=200)
    place = KeyField(_("place"), max_length=300)
    first_at = UTCDateTimeField(_("first seen"), db_default=DbNow())

    class Meta:
        verbose_name = _("failure")
        verbose_name_plural = _("failures")
        default_permissions = ("view",)
        constraints = (models.UniqueConstraint(fields=("queue", "fingerprint"), name="dbqueue_failure"),)
        indexes = (models.Index(fields=("queue", "id"), name="dbqueue_failure_newest"),)

    def __str__(self) -> str:
        """Return the class, or the number if free text stands in for the class: that text may quote payloads."""
        known = names_class(self.exception, self.place, "exception")
        return f"{self.exception if known else f'#{self.pk}'} in {self.queue}"


class MessageEvent(OwnDatabaseModel):
    """One event in the life of a message, written by the transaction that caused it.

    The ordinary (sent, claimed, done) costs no row: the message's own columns show it.
    """

    id = models.BigAutoField(primary_key=True)
    message_id = models.BigIntegerField(_("message"))
    queue = AsciiField(_("queue"), max_length=64)
    kind = AsciiField(_("kind"), max_length=16)
    at = UTCDateTimeField(_("at"), db_default=DbNow())
    read_count = models.PositiveIntegerField(_("reads"), null=True)
    claimed_at = UTCDateTimeField(_("claimed at"), null=True)
    conn_id = models.BigIntegerField(_("database session"), null=True)
    worker = KeyField(_("worker"), max_length=300, null=True)
    actor = KeyField(_("by"), max_length=200, null=True)
    detail = ExactTextField(_("detail"), null=True)
    failure_id = models.BigIntegerField(_("failure"), null=True)
    exception = KeyField(_("exception"), max_length=300, null=True)
    """The dotted path of the class of what ended it, where that is known; it is never read out of ``detail``."""

    class Meta:
        verbose_name = _("event")
        verbose_name_plural = _("events")
        default_permissions = ()
        indexes = (
            models.Index(fields=("message_id", "id"), name="dbqueue_event_message"),
            models.Index(fields=("failure_id", "id"), name="dbqueue_event_failure"),
            models.Index(fields=("at",), name="dbqueue_event_at"),
        )

    def __str__(self) -> str:
        return f"{self.kind} #{self.message_id}"
