"""What tasks returned: beside the hot table, so that keeping results slows no claim."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from django_dbqueue import codecs
from django_dbqueue.codecs import Json
from django_dbqueue.models.aliases import OwnDatabaseModel
from django_dbqueue.models.fields import AsciiField, ExactTextField, UTCDateTimeField


class Result(OwnDatabaseModel):
    """What a task returned. The row is written by the transaction that acks the message, and by no other.

    A task that returns None writes none: its message alone shows that it is done.
    """

    message_id = models.BigIntegerField(_("message"), primary_key=True)
    body = ExactTextField(_("body"))
    content_type = AsciiField(_("content type"), max_length=16)
    types = ExactTextField(_("types"), null=True)
    expires_at = UTCDateTimeField(_("kept until"))
    flow = models.BigIntegerField(_("flow"), null=True)

    class Meta:
        verbose_name = _("result")
        verbose_name_plural = _("results")
        default_permissions = ("view",)
        indexes = (models.Index(fields=("expires_at",), name="dbqueue_result_end"),)

    def __str__(self) -> str:
        return f"#{self.pk}"

    @property
    def value(self) -> Json:
        """The value, decoded on each access; UndecodableMessage if that fails."""
        return codecs.decode_typed(self.body or "", self.content_type, self.types)
