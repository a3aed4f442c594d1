"""The history: finished messages, appended and never changed."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from django_dbqueue import codecs
from django_dbqueue.codecs import Json
from django_dbqueue.models.aliases import OwnDatabaseManager
from django_dbqueue.models.fields import AsciiField, DbNow, ExactTextField, KeyField, UTCDateTimeField
from django_dbqueue.models.message_row import MessageRow
from django_dbqueue.states.table import Stage


def outcome_of(row: MessageRow | ArchivedMessage) -> str:
    """Return how a message ended, still in the queue's table or not: done, dropped or dead; '' if it hasn't yet."""
    if isinstance(row, ArchivedMessage):
        return str(row.outcome)
    if row.stage is Stage.FINISHED:
        return "done" if row.error is None else "dropped"
    return "dead" if row.is_dead else ""


class ArchivedMessage(models.Model):
    """A message that left the hot table, and how it ended."""

    id = models.BigAutoField(primary_key=True)
    message_id = models.BigIntegerField(_("message"), db_index=True)
    outcome = AsciiField(_("outcome"), max_length=8)
    queue = AsciiField(_("queue"), max_length=64)
    key = KeyField(_("key"), max_length=200, null=True)
    claim_token = models.BigIntegerField(_("claim token"), null=True)
    due_at = UTCDateTimeField(_("due at"))
    priority = models.SmallIntegerField(_("priority"))
    read_count = models.PositiveIntegerField(_("reads"))
    max_reads = models.PositiveIntegerField(_("reads allowed"), null=True)
    crashes = models.PositiveIntegerField(_("crashes"))
    body = ExactTextField(_("body"))
    content_type = AsciiField(_("content type"), max_length=16)
    headers_text = ExactTextField(_("headers"), null=True, db_column="headers")
    group_name = KeyField(_("group"), max_length=200, null=True)
    flow = models.BigIntegerField(_("flow"), null=True)
    created_at = UTCDateTimeField(_("created at"))
    claimed_at = UTCDateTimeField(_("claimed at"), null=True)
    finished_at = UTCDateTimeField(_("finished at"))
    error = ExactTextField(_("error"), null=True)
    archived_at = UTCDateTimeField(_("archived at"), db_default=DbNow())

    objects = OwnDatabaseManager["ArchivedMessage"]()

    class Meta:
        verbose_name = _("archived message")
        verbose_name_plural = _("archived messages")
        default_permissions = ("view",)
        indexes = (models.Index(fields=("finished_at",), name="dbqueue_history_end"),)

    def __str__(self) -> str:
        return f"{self.queue} #{self.message_id}"

    @property
    def payload(self) -> Json:
        """The body, decoded on each access; UndecodableMessage if that fails."""
        return codecs.decode(self.body or "", self.content_type, codecs.types_among(self.headers_text))
