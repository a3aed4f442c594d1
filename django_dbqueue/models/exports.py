"""Who reads the history by its ids, how far, and which part was exported: nothing past the slowest reader is purged."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from django_dbqueue.models.aliases import OwnDatabaseModel
from django_dbqueue.models.fields import AsciiField, DbNow, KeyField, UTCDateTimeField


class HistoryReader(OwnDatabaseModel):
    """A named reader of the history; ``position`` is the last archive id that it is done with."""

    name = AsciiField(_("name"), max_length=64, primary_key=True)
    position = models.BigIntegerField(_("position"))
    begun_at = UTCDateTimeField(_("begun at"), db_default=DbNow())
    seen_at = UTCDateTimeField(_("last seen"), db_default=DbNow())

    class Meta:
        verbose_name = _("reader of the history")
        verbose_name_plural = _("readers of the history")
        default_permissions = ("view",)

    def __str__(self) -> str:
        return str(self.name)


class ExportBatch(OwnDatabaseModel):
    """A range of archive ids on its way into a lake: planned, then verified, then (unless kept) purged here.

    A batch that was planned but never got a manifest is dropped, and the next takes its ids. ``first_id`` is one more
    than the last id before it, whether such a row exists or not.
    """

    id = models.BigAutoField(primary_key=True)
    lake = KeyField(_("lake"), max_length=200)
    number = models.BigIntegerField(_("number"))
    first_id = models.BigIntegerField(_("first id"))
    last_id = models.BigIntegerField(_("last id"))
    rows = models.BigIntegerField(_("rows"))
    state = AsciiField(_("state"), max_length=8)
    planned_at = UTCDateTimeField(_("planned at"), db_default=DbNow())
    verified_at = UTCDateTimeField(_("verified at"), null=True)
    purged_to = models.BigIntegerField(_("purged up to id"), null=True, db_index=True)
    purged_at = UTCDateTimeField(_("purged at"), null=True)

    class Meta:
        verbose_name = _("export")
        verbose_name_plural = _("exports")
        default_permissions = ("view",)
        constraints = (models.UniqueConstraint(fields=("lake", "number"), name="dbqueue_export_batch"),)

    def __str__(self) -> str:
        return f"{self.lake} #{self.number}"
