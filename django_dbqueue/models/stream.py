"""Consuming streams on Spark and their claims: the ledger that makes claims a stream's offsets."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, ClassVar, Protocol

from django.db import models
from django.utils.translation import gettext_lazy as _

from django_dbqueue.models.aliases import OwnDatabaseManager, OwnDatabaseModel
from django_dbqueue.models.fields import AsciiField, DbNow, ExactTextField, KeyField, UTCDateTimeField
from django_dbqueue.states.stream_claim_states import FREEING, OPEN
from django_dbqueue.states.table import Stage, is_parked, stage_of
from django_dbqueue.streams.id_ranges import from_text, holds

UNFINISHED = (OPEN, FREEING)


class MayBeParked(Protocol):
    """A message, as far as streams know it."""

    status: str
    available_at: datetime | None
    claim_token: int | None
    stream_claim: StreamClaim | None

    @property
    def pk(self) -> int: ...


class Stream(OwnDatabaseModel):
    """A name under which one query at a time consumes a queue, and what runs it."""

    name = AsciiField(_("name"), max_length=64, primary_key=True)
    queue = AsciiField(_("queue"), max_length=64)
    on_expired = AsciiField(_("when its lease is over"), max_length=8)
    lease_seconds = models.FloatField(_("lease in seconds"))
    run = models.BigIntegerField(_("run"), null=True)
    runner = KeyField(_("runner"), max_length=200, default="", db_default="")
    conn_id = models.BigIntegerField(_("database session"), null=True)
    last_number = models.BigIntegerField(_("last claim"), default=0, db_default=0)
    begun_at = UTCDateTimeField(_("begun at"), db_default=DbNow())
    beat_at = UTCDateTimeField(_("last beat"), db_default=DbNow())

    class Meta:
        verbose_name = _("stream")
        verbose_name_plural = _("streams")
        default_permissions = ("view",)

    def __str__(self) -> str:
        return str(self.name)


class StreamProgress(OwnDatabaseModel):
    """How far the query gets that reads a stream (``stream:NAME``), or the history (``reader:NAME``).

    A ``QueueListener`` in its Spark session writes it; without one there is no row. ``messages`` only
    grows; a batch that was read twice is counted twice.
    """

    name = AsciiField(_("name"), max_length=80, primary_key=True)
    query_id = AsciiField(_("query"), max_length=36, db_index=True)
    messages = models.BigIntegerField(_("messages"))
    rate = models.FloatField(_("messages per second"))
    backlog = models.BigIntegerField(_("backlog"))
    backlog_capped = models.PositiveSmallIntegerField(_("whether the backlog is larger than counted"))
    failures = models.BigIntegerField(_("failures"))
    progressed_at = UTCDateTimeField(_("last progress"))
    failed_at = UTCDateTimeField(_("last failure"), null=True)
    error = ExactTextField(_("error"), null=True)

    class Meta:
        verbose_name = _("progress of a stream")
        verbose_name_plural = _("progress of streams")
        default_permissions = ()

    def __str__(self) -> str:
        return str(self.name)

    @property
    def is_failing(self) -> bool:
        """Whether the query has failed since its last batch."""
        return self.failed_at is not None and self.failed_at >= self.progressed_at


class StreamClaimQuerySet(models.QuerySet[Any]):
    """``StreamClaim.objects``."""

    def join(self, messages: Iterable[MayBeParked]) -> None:
        """Set the ``stream_claim`` of each message that a stream holds, with one statement for all."""
        parked = [message for message in messages if stage_of(message) is Stage.CLAIMED and is_parked(message)]
        if not parked:
            return
        claims = self.filter(claim_token__in={message.claim_token for message in parked}, state__in=UNFINISHED)
        held = [(claim, from_text(claim.ids)) for claim in claims]
        for message in parked:
            for claim, ranges in held:  # several have the same token if a claim was split
                if claim.claim_token == message.claim_token and holds(ranges, message.pk):
                    message.stream_claim = claim


class StreamClaim(models.Model):
    """One numbered claim of a stream: messages carry its token; it keeps their ids, so that a replay is the same."""

    id = models.BigAutoField(primary_key=True)
    stream = AsciiField(_("stream"), max_length=64)
    number = models.BigIntegerField(_("number"))
    queue = AsciiField(_("queue"), max_length=64)
    claim_token = models.BigIntegerField(_("claim token"), db_index=True)
    state = AsciiField(_("state"), max_length=8)
    ids = ExactTextField(_("ids"))
    messages = models.PositiveIntegerField(_("messages"))
    attempts = models.PositiveIntegerField(_("attempts"), default=0, db_default=0)
    run = models.BigIntegerField(_("run that read it last"), null=True)
    lease_until = UTCDateTimeField(_("lease until"))
    claimed_at = UTCDateTimeField(_("claimed at"), db_default=DbNow())
    ended_at = UTCDateTimeField(_("ended at"), null=True)

    objects: ClassVar[Any] = OwnDatabaseManager.from_queryset(StreamClaimQuerySet)()

    class Meta:
        verbose_name = _("claim of a stream")
        verbose_name_plural = _("claims of streams")
        default_permissions = ("view",)
        constraints = (models.UniqueConstraint(fields=("stream", "number"), name="dbqueue_stream_claim"),)
        indexes = (models.Index(fields=("state", "lease_until"), name="dbqueue_claim_lease"),)

    def __str__(self) -> str:
        return f"{self.stream} #{self.number}"
