"""What handlers have done for good, beside the hot table: a row for each step of a message."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from django_dbqueue import codecs
from django_dbqueue.codecs import Json
from django_dbqueue.envelope import check_whole
from django_dbqueue.models.aliases import OwnDatabaseManager
from django_dbqueue.models.fields import AsciiField, DbNow, ExactTextField, KeyField, UTCDateTimeField
from django_dbqueue.steps.step_memory import check_name
from django_dbqueue.steps.step_rows import forget_step
from django_dbqueue.typed_values import MAX_ID


class StepManager(OwnDatabaseManager["Step"]):
    """``Step.objects``: forget."""

    def forget(self, message_id: int, name: str, *, by: str | None = None, using: str | None = None) -> bool:
        """Let a message forget a step, so that it runs again with the next delivery; return whether there was one.

        ``by`` names the operator in the message's life. The steps of a done message stay. InvalidStep for what no step
        is called, InvalidMessage for what is no id.
        """
        number = check_whole("message_id", message_id, low=1, high=MAX_ID)
        return forget_step(self._session(using), number, check_name(name, "a step"), actor=by)


class Step(models.Model):
    """What an attempt at a message has committed under a name; later attempts find it there (promise P21)."""

    pk = models.CompositePrimaryKey("message_id", "name")
    message_id = models.BigIntegerField(_("message"))
    name = KeyField(_("name"), max_length=200)
    kind = AsciiField(_("kind"), max_length=16)
    body = ExactTextField(_("body"), null=True)
    content_type = AsciiField(_("content type"), max_length=16, null=True)
    types = ExactTextField(_("types"), null=True)
    until = UTCDateTimeField(_("until"), null=True)
    token = models.BigIntegerField(_("claim token"))
    read_count = models.PositiveIntegerField(_("reads"))
    at = UTCDateTimeField(_("at"), db_default=DbNow())

    objects = StepManager()

    class Meta:
        verbose_name = _("step")
        verbose_name_plural = _("steps")
        default_permissions = ()
        permissions = (("forget_step", _("Can make messages forget steps")),)

    def __str__(self) -> str:
        return f"{self.name} of #{self.message_id}"

    @property
    def value(self) -> Json:
        """The result, decoded on each access; UndecodableMessage if that fails, None where there is none."""
        return (
            None if self.content_type is None else codecs.decode_typed(self.body or "", self.content_type, self.types)
        )
