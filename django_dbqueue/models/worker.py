"""The processes that run consumers, by their own word: a row each, beaten while alive."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from django_dbqueue.models.fields import DbNow, UTCDateTimeField


class Worker(models.Model):
    """One child process of a worker; its random number stands in the rows that it claims."""

    id = models.BigIntegerField(primary_key=True)
    host = models.CharField(_("host"), max_length=255)
    pid = models.BigIntegerField(_("process"))
    conn_id = models.BigIntegerField(_("database session"), null=True)
    queues = models.TextField(_("queues"))
    threads = models.PositiveIntegerField(_("threads"))
    held = models.PositiveIntegerField(_("messages held"), default=0, db_default=0)
    started_at = UTCDateTimeField(_("started at"), db_default=DbNow())
    beat_at = UTCDateTimeField(_("last beat"), db_default=DbNow())

    class Meta:
        verbose_name = _("worker")
        verbose_name_plural = _("workers")
        default_permissions = ("view",)

    def __str__(self) -> str:
        return f"{self.host}:{self.pid}"
