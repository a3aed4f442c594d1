"""What operators set for a queue: paused or not, by whom, why. A queue without a row is open."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from django_dbqueue.models.fields import AsciiField, DbNow, UTCDateTimeField
from django_dbqueue.models.querysets import QueueManager


class Queue(models.Model):
    """A queue with a row of its own; rows also appear by themselves when the admin lists queues."""

    name = AsciiField(_("name"), max_length=64, primary_key=True)
    is_paused = models.BooleanField(_("paused"), default=False, db_default=False)
    paused_at = UTCDateTimeField(_("paused at"), null=True, blank=True)
    paused_by = models.CharField(_("paused by"), max_length=150, blank=True, default="", db_default="")
    pause_reason = models.CharField(_("reason"), max_length=500, blank=True, default="", db_default="")
    created_at = UTCDateTimeField(_("created at"), db_default=DbNow())

    objects: ClassVar[QueueManager] = QueueManager()

    class Meta:
        verbose_name = pgettext_lazy("queue", "queue")
        verbose_name_plural = pgettext_lazy("queue", "queues")
        default_permissions = ("view",)
        permissions = (("pause_queue", _("Can pause and resume queues")),)

    def __str__(self) -> str:
        return str(self.name)
