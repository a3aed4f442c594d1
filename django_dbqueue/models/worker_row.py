"""The processes that run consumers, as they report themselves: one row each, beaten while alive."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from django.db import models
from django.utils.translation import gettext_lazy as _

from django_dbqueue.models.aliases import OwnDatabaseModel
from django_dbqueue.models.fields import DbNow, ExactTextField, KeyField, UTCDateTimeField

ALIVE_WITHIN: Final = timedelta(seconds=30)
"""A worker beats every second while it holds messages, every ten seconds when idle; three missed are silence.

One that rests beats seldom, and its row says when the next beat is due.
"""


class Worker(OwnDatabaseModel):
    """One child process of a worker; its random number is in the rows that it claims."""

    id = models.BigIntegerField(primary_key=True)
    host = KeyField(_("host"), max_length=255)
    pid = models.BigIntegerField(_("process"))
    conn_id = models.BigIntegerField(_("database session"), null=True)
    queues = ExactTextField(_("queues"))
    threads = models.PositiveIntegerField(_("threads"))
    session_lock = models.BigIntegerField(_("named lock of the session"), null=True)
    """The number of the lock that the session was seen to hold; NULL if it holds none."""
    server = KeyField(_("server of the session"), max_length=200, default="", db_default="")
    """Where the session was proven to be this worker's own; '' if it was not, so that nobody judges by it."""
    held = models.PositiveIntegerField(_("messages held"), default=0, db_default=0)
    is_called = models.BooleanField(_("called"), default=False, db_default=False)
    """Whether something that it ran was cancelled: its next beat finds that, and checks what it holds."""
    started_at = UTCDateTimeField(_("started at"), db_default=DbNow())
    beat_at = UTCDateTimeField(_("last beat"), db_default=DbNow())
    beat_every = models.PositiveSmallIntegerField(_("seconds between beats"), default=10, db_default=10)
    """The promised interval to the next beat: shorter while it holds messages."""
    late_at = UTCDateTimeField(_("next beat is late from"), db_default=DbNow())

    class Meta:
        verbose_name = _("worker")
        verbose_name_plural = _("workers")
        default_permissions = ("view",)
        indexes = (models.Index(fields=("server", "late_at"), name="dbqueue_worker_late"),)

    def __str__(self) -> str:
        return f"{self.host}:{self.pid}"

    def beats(self, now: datetime) -> bool:
        """Return whether it is alive by its last beat, at this moment of the database's clock."""
        return bool(now - self.beat_at <= ALIVE_WITHIN or now <= self.late_at)


def beating(now: datetime | DbNow) -> models.Q:
    """Return the condition that a worker is alive by its last beat, at this moment of the database's clock."""
    return models.Q(beat_at__gte=now - ALIVE_WITHIN) | models.Q(late_at__gte=now)
