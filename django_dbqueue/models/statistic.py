"""Roll-ups per queue, by the hour and by the minute, for charts."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from django_dbqueue.models.aliases import OwnDatabaseModel
from django_dbqueue.models.fields import AsciiField, DbNow, ExactTextField, UTCDateTimeField

ALL_QUEUES = ""
"""Takes the place of the queue's name in rows that cover all queues together."""


class QueueStatistic(OwnDatabaseModel):
    """What ended in one queue, or in all (``ALL_QUEUES``), within one hour (UTC).

    Times are in seconds; NULL if nothing was measured.
    """

    id = models.BigAutoField(primary_key=True)
    queue = AsciiField(_("queue"), max_length=64)
    hour = UTCDateTimeField(_("hour"))
    messages = models.BigIntegerField(_("messages"))
    failures = models.BigIntegerField(_("failed deliveries"))
    retries = models.BigIntegerField(_("retries"))
    dead = models.BigIntegerField(_("dead"))
    wait_p50 = models.FloatField(_("median wait"), null=True)
    wait_p95 = models.FloatField(_("wait, 95th percentile"), null=True)
    wait_p99 = models.FloatField(_("wait, 99th percentile"), null=True)
    run_p50 = models.FloatField(_("median run time"), null=True)
    run_p95 = models.FloatField(_("run time, 95th percentile"), null=True)
    run_p99 = models.FloatField(_("run time, 99th percentile"), null=True)
    computed_at = UTCDateTimeField(_("computed at"), db_default=DbNow())

    class Meta:
        verbose_name = _("statistic")
        verbose_name_plural = _("statistics")
        default_permissions = ("view",)
        constraints = (models.UniqueConstraint(fields=("queue", "hour"), name="dbqueue_queue_hour"),)
        indexes = (models.Index(fields=("hour",), name="dbqueue_statistic_hour"),)

    def __str__(self) -> str:
        return f"{self.queue} {self.hour}"


class QueueMinute(OwnDatabaseModel):
    """What ended in one queue, or in all (``ALL_QUEUES``), within one minute (UTC).

    It holds counts, and histograms that add up over any longer time. Rows that are not ``shown`` are of a minute whose
    final count is in progress; they replace the shown ones when it is complete.
    """

    id = models.BigAutoField(primary_key=True)
    queue = AsciiField(_("queue"), max_length=64)
    minute = UTCDateTimeField(_("minute"))
    shown = models.BooleanField(_("shown"))
    messages = models.BigIntegerField(_("messages"))
    failures = models.BigIntegerField(_("failed deliveries"))
    retries = models.BigIntegerField(_("retries"))
    dead = models.BigIntegerField(_("dead"))
    wait = ExactTextField(_("histogram of waits"))
    run = ExactTextField(_("histogram of run times"))

    class Meta:
        verbose_name = _("minute")
        verbose_name_plural = _("minutes")
        default_permissions = ()
        constraints = (models.UniqueConstraint(fields=("queue", "minute", "shown"), name="dbqueue_queue_minute"),)
        indexes = (models.Index(fields=("minute",), name="dbqueue_minute"),)

    def __str__(self) -> str:
        return f"{self.queue} {self.minute}"


class QueueTotal(OwnDatabaseModel):
    """What ended in one queue, ever since workers have counted it, in the minutes whose final count is complete.

    It only grows; histograms too, bucket by bucket.
    """

    queue = AsciiField(_("queue"), max_length=64, primary_key=True)
    messages = models.BigIntegerField(_("messages"))
    failures = models.BigIntegerField(_("failed deliveries"))
    retries = models.BigIntegerField(_("retries"))
    dead = models.BigIntegerField(_("dead"))
    wait = ExactTextField(_("histogram of waits"))
    run = ExactTextField(_("histogram of run times"))

    class Meta:
        verbose_name = _("total")
        verbose_name_plural = _("totals")
        default_permissions = ()

    def __str__(self) -> str:
        return str(self.queue)


class StatisticProgress(OwnDatabaseModel):
    """How far the workers have counted: one row, written under the mutex of the statistics."""

    id = models.SmallIntegerField(primary_key=True)
    fresh_to = UTCDateTimeField()
    """Up to when the first, quick count has come; what was committed late is missing."""
    settled_to = UTCDateTimeField()
    """Up to when the final count has come."""

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"settled to {self.settled_to}"
