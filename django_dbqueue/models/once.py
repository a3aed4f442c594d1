"""Senders' tokens: what was enqueued ``once``, and until when another message with the token is ignored."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from django_dbqueue.models.aliases import OwnDatabaseModel
from django_dbqueue.models.fields import AsciiField, UTCDateTimeField


class Once(OwnDatabaseModel):
    """A token of a queue, by the SHA-256 of (queue, NUL, token), and the message that came with it."""

    hash = AsciiField(_("hash"), max_length=64, primary_key=True)
    message_id = models.BigIntegerField(_("message"))
    expires_at = UTCDateTimeField(_("kept until"))

    class Meta:
        verbose_name = _("token")
        verbose_name_plural = _("tokens")
        default_permissions = ("view",)
        indexes = (models.Index(fields=("expires_at",), name="dbqueue_once_end"),)

    def __str__(self) -> str:
        return f"#{self.message_id}"
