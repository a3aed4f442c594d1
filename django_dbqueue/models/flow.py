"""Flows: messages that are one piece of work, and which of them wait for which (``lifecycle.flow_moves``)."""

from __future__ import annotations

from typing import ClassVar

from asgiref.sync import sync_to_async
from django.db import models
from django.utils.translation import gettext_lazy as _

from django_dbqueue.envelope import is_whole
from django_dbqueue.exceptions import InvalidFlow
from django_dbqueue.flows import flow_rows
from django_dbqueue.flows.flow_progress import Progress, progress_of
from django_dbqueue.models.aliases import OwnDatabaseManager, OwnDatabaseModel
from django_dbqueue.models.fields import AsciiField, DbNow, KeyField, UTCDateTimeField
from django_dbqueue.sessions.django_session import session_for
from django_dbqueue.typed_values import MAX_ID


class FlowManager(OwnDatabaseManager["Flow"]):
    """``Flow.objects``: cancel, and its async twin."""

    def cancel(self, flow: int, *, reason: str = "", by: str | None = None, using: str | None = None) -> int:
        """Drop all messages of a flow that are not done, whoever holds them; return how many.

        ``reason`` and ``by`` are recorded in the life of each. It goes through the flow a thousand at a time, each in a
        transaction of its own; those that are spawned meanwhile are dropped too. InvalidFlow if ``flow`` is not a
        number.
        """
        if not is_whole(flow, 1, MAX_ID):
            raise InvalidFlow(f"cancel() takes the number of a flow, such as f.id or flow.pk, not {flow!r:.100}.")
        return flow_rows.cancel(self._session(using), flow, reason=reason or "the flow was cancelled", actor=by)

    async def acancel(self, flow: int, *, reason: str = "", by: str | None = None, using: str | None = None) -> int:
        """Run ``cancel`` from async code."""
        return await sync_to_async(self.cancel)(flow, reason=reason, by=by, using=using)


class Flow(models.Model):
    """Messages that were sent as one piece of work. Its messages name it, and ``FlowPart`` says where they are."""

    name = KeyField(_("name"), max_length=200)
    created_at = UTCDateTimeField(_("created at"), db_default=DbNow())

    objects: ClassVar[FlowManager] = FlowManager()

    class Meta:
        verbose_name = _("flow")
        verbose_name_plural = _("flows")
        default_permissions = ("view",)
        permissions = (("cancel_flow", _("Can cancel flows")),)

    def __str__(self) -> str:
        return f"{self.name} (#{self.pk})"

    def progress(self, *, most: int | None = None) -> Progress:
        """Count how far it is, from its messages' own rows; ``most``: stop after about that many.

        InvalidFlow if ``most`` is not a number of messages.
        """
        if most is not None and not is_whole(most, 1, MAX_ID):
            raise InvalidFlow(f"most must be a whole number of messages, 1 or more, not {most!r:.100}.")
        return progress_of(session_for(type(self), self._state.db), self.pk, most=most)

    async def aprogress(self, *, most: int | None = None) -> Progress:
        """Run ``progress`` from async code."""
        return await sync_to_async(self.progress)(most=most)


class FlowPart(OwnDatabaseModel):
    """The messages of a flow that one INSERT wrote: the range of their ids, and their number."""

    pk = models.CompositePrimaryKey("flow", "first_id")
    flow = models.BigIntegerField()
    first_id = models.BigIntegerField()
    last_id = models.BigIntegerField()
    messages = models.PositiveIntegerField()
    parent = models.BigIntegerField(null=True)
    """The message that spawned them."""

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.messages} of flow {self.flow}"


class Edge(OwnDatabaseModel):
    """A message that waits for another one; or, with upstream 0, its gate (``databases.flows_sql``)."""

    pk = models.CompositePrimaryKey("downstream", "upstream")
    downstream = models.BigIntegerField()
    upstream = models.BigIntegerField()
    needs = AsciiField(max_length=8)

    class Meta:
        default_permissions = ()
        indexes = (models.Index(fields=("upstream", "downstream"), name="dbqueue_edge_upstream"),)

    def __str__(self) -> str:
        return f"#{self.downstream} after #{self.upstream}"
