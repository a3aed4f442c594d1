"""What a Spark job has written but not yet published, and the names of published jobs."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from django_dbqueue.models.aliases import OwnDatabaseModel
from django_dbqueue.models.fields import AsciiField, DbNow, ExactTextField, KeyField, UTCDateTimeField


class StagedMessage(OwnDatabaseModel):
    """A message that is invisible until its job is published.

    ``run`` is drawn by each run of a job, ``attempt`` by each try of a task, and ``place`` counts that try's rows. The
    primary key is all three: a second index would cost a tenth of each write.
    """

    pk = models.CompositePrimaryKey("run", "attempt", "place")
    job = AsciiField(_("job"), max_length=200)
    run = models.BigIntegerField(_("run"))
    attempt = models.BigIntegerField(_("attempt"))
    place = models.BigIntegerField(_("place"))
    queue = AsciiField(_("queue"), max_length=64)
    key = KeyField(_("key"), max_length=200, null=True)
    key_hash = AsciiField(max_length=64, null=True)
    body = ExactTextField(_("body"))
    content_type = AsciiField(_("content type"), max_length=16)
    headers_text = ExactTextField(_("headers"), null=True, db_column="headers")
    priority = models.SmallIntegerField(_("priority"))
    max_reads = models.PositiveIntegerField(_("reads allowed"), null=True)
    lease_seconds = models.FloatField(_("lease in seconds"), null=True)
    lane = models.BigIntegerField(null=True)
    group_name = KeyField(_("group"), max_length=200, null=True)
    delay_seconds = models.FloatField(_("delay in seconds"))
    due_at = UTCDateTimeField(_("due at"), null=True)
    staged_at = UTCDateTimeField(_("staged at"), db_default=DbNow())

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.job}: {self.queue}"


class PublishedJob(OwnDatabaseModel):
    """A job whose messages are in the queue, and the run that put them there; its name adds nothing twice."""

    name = AsciiField(_("job"), max_length=200, primary_key=True)
    run = models.BigIntegerField(_("run"))
    created = models.BigIntegerField(_("messages created"))
    ignored = models.BigIntegerField(_("messages ignored for their key"))
    published_at = UTCDateTimeField(_("published at"), db_default=DbNow())

    class Meta:
        verbose_name = _("published job")
        verbose_name_plural = _("published jobs")
        default_permissions = ("view",)

    def __str__(self) -> str:
        return str(self.name)
