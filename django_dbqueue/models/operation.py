"""What an operator does to all messages that match, in steps in the background."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from django_dbqueue.models.fields import AsciiField, DbNow, ExactTextField, UTCDateTimeField


class BulkOperation(models.Model):
    """One verb for all messages of a selection that were there when it was ordered, and how far it has come."""

    id = models.BigAutoField(primary_key=True)
    verb = AsciiField(_("verb"), max_length=16)
    selection = ExactTextField(_("selection"))
    """JSON: what ``BulkSelection`` reads."""
    last_id = models.BigIntegerField(_("last message"))
    """The highest id of a message when it was ordered: later ones are not touched."""
    expected = models.BigIntegerField(_("expected"))
    cursor = models.BigIntegerField(_("cursor"), default=0, db_default=0)
    moved = models.BigIntegerField(_("moved"), default=0, db_default=0)
    left_alone = models.BigIntegerField(_("left alone"), default=0, db_default=0)
    state = AsciiField(_("state"), max_length=8)
    reason = ExactTextField(_("reason"), default="")
    user_id = models.CharField(_("user"), max_length=255)
    ordered_by = models.CharField(_("ordered by"), max_length=255)
    ordered_at = UTCDateTimeField(_("ordered at"), db_default=DbNow())
    ended_at = UTCDateTimeField(_("ended at"), null=True)
    error = ExactTextField(_("error"), null=True)

    class Meta:
        verbose_name = _("bulk operation")
        verbose_name_plural = _("bulk operations")
        default_permissions = ("view",)
        permissions = (("stop_bulkoperation", _("Can stop bulk operations")),)

    def __str__(self) -> str:
        return f"{self.verb} #{self.pk}"
