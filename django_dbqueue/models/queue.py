"""What operators set for a queue: paused or not, until when, by whom, why. A queue without a row is open."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from django_dbqueue.models.fields import AsciiField, DbNow, KeyField, UTCDateTimeField, clock
from django_dbqueue.models.queue_verbs import QueueManager


class Queue(models.Model):
    """A queue that has been paused at some time.

    Once a pause has reached its end, the row still says who set it, when and why, until the next pause or resume.
    """

    is_paused: bool = False
    """Whether the queue is paused, by the database's clock when the row was read."""

    name = AsciiField(_("name"), max_length=64, primary_key=True)
    pause_set = models.BooleanField(_("paused"), default=False, db_default=False, db_column="is_paused")
    paused_at = UTCDateTimeField(_("paused at"), null=True, blank=True)
    paused_until = UTCDateTimeField(_("paused until"), null=True, blank=True)
    paused_by = KeyField(_("paused by"), max_length=150, blank=True, default="", db_default="")
    pause_reason = KeyField(_("reason"), max_length=500, blank=True, default="", db_default="")
    created_at = UTCDateTimeField(_("created at"), db_default=DbNow())

    objects: ClassVar[QueueManager] = QueueManager()

    class Meta:
        verbose_name = pgettext_lazy("queue", "queue")
        verbose_name_plural = pgettext_lazy("queue", "queues")
        default_permissions = ("view",)
        permissions = (("pause_queue", _("Can pause and resume queues")),)

    def __str__(self) -> str:
        return str(self.name)

    def refresh_from_db(self, using: str | None = None, *args: Any, **kwargs: Any) -> None:
        super().refresh_from_db(using, *args, **kwargs)
        end, alias = self.paused_until, self._state.db
        self.is_paused = self.pause_set and (end is None or alias is None or end > clock(alias))
