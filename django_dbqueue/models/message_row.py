"""A message: its columns, and what its holder may do. The table, which selects and makes them, is in ``message.py``."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Literal, TypeVar

from django.db import models
from django.utils.translation import gettext_lazy as _

from django_dbqueue import codecs
from django_dbqueue.codecs import Json
from django_dbqueue.databases import Change, Claim
from django_dbqueue.exceptions import LeaseLost
from django_dbqueue.lifecycle.acked_transaction import acked_with_their_rows
from django_dbqueue.lifecycle.hydration import UNREAD
from django_dbqueue.lifecycle.moves import ack_of, extend_of, nack_of, reject_of, settle_one
from django_dbqueue.models.async_verbs import AsyncVerbs
from django_dbqueue.models.fields import (
    AsciiField,
    DbNow,
    ExactTextField,
    KeyField,
    StatusField,
    UTCDateTimeField,
)
from django_dbqueue.models.flow_verbs import FlowVerbs
from django_dbqueue.models.step_verbs import StepVerbs
from django_dbqueue.sessions.commit_hooks import on_commit
from django_dbqueue.sessions.django_session import DjangoSession, session_for, session_of
from django_dbqueue.statements import moves_sql
from django_dbqueue.statements.steps_sql import forget_steps
from django_dbqueue.states.table import Stage, stage_of
from django_dbqueue.statuses import NEW, STATUSES
from django_dbqueue.value_types import TYPES

if TYPE_CHECKING:
    from django_dbqueue.models.stream import StreamClaim

AnyMessage = TypeVar("AnyMessage", bound="MessageRow")
Outcome = Literal["created", "updated", "ignored"]


class MessageRow(AsyncVerbs, StepVerbs, FlowVerbs, models.Model):
    """What verbs, selections and streams know of ``Message``, which is made of them."""

    id = models.BigAutoField(primary_key=True)
    queue = AsciiField(_("queue"), max_length=64)
    key = KeyField(_("key"), max_length=200, null=True, blank=True)
    key_hash = AsciiField(max_length=64, null=True, editable=False)
    live = models.PositiveSmallIntegerField(null=True, editable=False)
    status = StatusField(_("status"), max_length=3, choices=[(s, s) for s in STATUSES], default=NEW, db_default=NEW)
    conn_id = models.BigIntegerField(_("database session"), null=True)
    worker_id = models.BigIntegerField(_("worker"), null=True)
    claim_token = models.BigIntegerField(_("claim token"), null=True)
    available_at = UTCDateTimeField(_("available at"), null=True, db_default=DbNow())
    due_at = UTCDateTimeField(_("due at"), db_default=DbNow())
    priority = models.SmallIntegerField(_("priority"), default=0, db_default=0)
    read_count = models.PositiveIntegerField(_("reads"), default=0, db_default=0)
    max_reads = models.PositiveIntegerField(_("reads allowed"), null=True)
    crashes = models.PositiveIntegerField(_("crashes"), default=0, db_default=0)
    lease_seconds = models.FloatField(_("lease in seconds"), null=True)
    body = ExactTextField(_("body"))
    content_type = AsciiField(_("content type"), max_length=16, default=codecs.JSON, db_default=codecs.JSON)
    headers_text = ExactTextField(_("headers"), null=True, db_column="headers")
    lane = models.BigIntegerField(null=True, editable=False)
    group_name = KeyField(_("group"), max_length=200, null=True)
    flow = models.BigIntegerField(_("flow"), null=True)
    created_at = UTCDateTimeField(_("created at"), db_default=DbNow())
    claimed_at = UTCDateTimeField(_("claimed at"), null=True)
    finished_at = UTCDateTimeField(_("finished at"), null=True)
    error = ExactTextField(_("error"), null=True)

    outcome: Outcome | None = None
    """Set by ``enqueue``: created, updated or ignored (then this is the message that already existed: the live one with
    its key, or the first one with its token ``once``, whatever has become of it)."""
    lease_lost: bool = False
    """Whether the worker found that this claim no longer holds the message; its fenced writes are refused."""
    is_gone: bool = False
    """Whether its worker found that, and not a write that was perhaps rolled back since: its steps refuse to begin."""
    cancelled: str = ""
    """Who cancelled it, and why, once its worker has found that somebody did."""
    over_at: float | None = None
    """When its handler times out, of the monotonic clock; a worker sets it."""
    settled: bool = False
    """Whether a settlement by this object was committed."""
    settlement: Change | None = None
    """That settlement."""
    suspended: float | None = None
    """For how many seconds its handler has suspended it (infinity: until an event)."""
    in_batch: bool = False
    """Whether its handler got it in a list."""
    stream_claim: StreamClaim | None = None
    """The claim of a consuming stream that holds it, if ``StreamClaim.objects.join`` has looked it up."""
    held_token: int | None = None
    """The token that this object was claimed with; a later refresh_from_db() must not pick up another holder's."""
    release_pause: float = 0.0
    """Seconds for which a release delays the next delivery.

    A worker sets it for what its handlers run: a handler that releases its own message would otherwise get it back at
    once, uncharged, again and again.
    """

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return f"{self.queue} #{self.pk}"

    @property
    def payload(self) -> Json:
        """The body, of the types that its headers name, decoded on each access; UndecodableMessage if that fails."""
        decoded = self.__dict__.pop("_decoded", None)
        if decoded is not None and decoded[0] is self.body and decoded[1] is self.content_type:
            return decoded[2]
        return codecs.decode(self.body or "", self.content_type, codecs.types_among(self.headers_text))

    @payload.setter
    def payload(self, _payload: Json) -> None:
        raise AttributeError(
            "The payload of a row can't be set: send a message with Message.objects.enqueue(payload, queue=...)."
        )

    def decode_now(self) -> None:
        """Raise UndecodableMessage now if the payload or the headers would; the next access to the payload is free."""
        body, content_type, headers = self.body, self.content_type, self.headers_text
        types = None if headers is None else codecs.decode_headers(headers).get(TYPES)
        self._decoded = (body, content_type, codecs.decode(body or "", content_type, types))

    def forget_payload(self, *, body: bool) -> None:
        """Drop what was decoded ahead, and optionally the body, which the next access then reads again."""
        self.__dict__.pop("_decoded", None)
        if body:
            self.__dict__.pop("body", None)

    @property
    def headers(self) -> dict[str, Json]:
        """The headers, decoded on each access, without the types of the payload; {} where none were sent."""
        headers = codecs.decode_headers(self.headers_text)
        headers.pop(TYPES, None)  # who sends them on with another payload would say what is not true of it
        return headers

    @property
    def group(self) -> str | None:
        """The group that it belongs to, None for none; ``"*"`` if all messages of its queue are one."""
        return None if self.lane is None else self.group_name

    @property
    def claim(self) -> Claim:
        """What this object holds, or held: the id and the token of its claim."""
        token = self.claim_token if self.held_token is None else self.held_token
        return Claim(self.pk, token)

    @property
    def stage(self) -> Stage:
        """Where it is in its life, whatever the clock says."""
        return stage_of(self)

    @property
    def is_dead(self) -> bool:
        """Whether the row is out of reads, rejected or undecodable."""
        return self.stage is Stage.DEAD

    @property
    def lease_until(self) -> datetime | None:
        """When the lease of a running message ends; if a stream holds it, its claim's lease, once joined."""
        until: datetime | None = self.available_at if self.stream_claim is None else self.stream_claim.lease_until
        return until

    @property
    def _session(self) -> DjangoSession:
        alias = self._state.db
        return session_of(alias) if alias else session_for(type(self))

    def ack(self) -> None:
        """Mark it done; LeaseLost if this claim no longer holds it.

        Like every settlement by the holder, it runs on the caller's connection and joins the caller's transaction, so
        that ``with atomic(): work(); message.ack()`` is one commit.
        """
        session = self._session
        settle_one(self, session, "ack", ack_of(session, self.queue))

    def nack(self, *, delay: float | timedelta | None = None, error: str | BaseException | None = None) -> None:
        """Return it, charged: due after ``delay`` seconds, without one at its old place; dead when reads are spent."""
        session = self._session
        settle_one(self, session, "nack", nack_of(session, delay, error))

    def reject(self, reason: str = "") -> None:
        """Send it to the dead letters, with the reason."""
        session = self._session
        settle_one(self, session, "reject", reject_of(session, reason))

    def release(self) -> None:
        """Return it, uncharged, to its old place; from a worker's handler, no sooner than after a second."""
        session = self._session
        settle_one(self, session, "release", moves_sql.release(session.server, pause=self.release_pause))

    def extend(self, seconds: float | timedelta | None = None) -> None:
        """Set the lease to end that many seconds from now (without an argument: its own length)."""
        session = self._session
        settle_one(self, session, "extend", extend_of(session, seconds), settled=False)

    @property
    def deadline(self) -> datetime | None:
        """When its handler must have ended, by this machine's clock: at its timeout; None if it has none."""
        return None if self.over_at is None else datetime.now(UTC) + timedelta(seconds=self.over_at - time.monotonic())

    def remaining(self) -> float | None:
        """Return for how many seconds its handler may still run, 0 if no more; None if it has no timeout.

        LeaseLost if its worker has found that this claim no longer holds it, because it was cancelled for example: for
        handlers that ask now and then.
        """
        self.refuse_if_gone("remaining")
        return None if self.over_at is None else max(0.0, self.over_at - time.monotonic())

    def refuse_if_gone(self, verb: str) -> None:
        """Raise LeaseLost if its worker has found that this claim no longer holds it."""
        if self.is_gone:
            raise LeaseLost(self.pk, verb, cancelled=self.cancelled)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Make what the block writes in this database, and the ack, one commit: exactly once (promise P15).

        The fenced ack is the last statement. LeaseLost from it rolls everything back, and so does TransactionBroken, if
        the transaction didn't last until then. If the block settles the message itself, it is not acked again.
        """
        self.refuse_if_gone("transaction")
        with acked_with_their_rows([self], self._session):
            yield

    @property
    def settlements_pending(self) -> int:
        """How many settlements by this object wait for the commit of the caller's transaction."""
        return sum(hook[1] == self._remember_settled for hook in self._session.connection.run_on_commit)

    @property
    def is_acked(self) -> bool:
        """Whether an ack by this object was committed."""
        return self.settlement is not None and self.settlement.in_lane == "done"

    def forget(self, change: Change, *, settled: bool) -> None:
        """Drop what a move changed, so that the next access reads it again; the claim's token stays.

        A removed row can't be read again, so in that case the object keeps what it knew. If it is ``settled``, the
        change becomes its settlement with the commit, and doesn't if the caller's transaction is rolled back.
        """
        if not change.removes:
            for name in MOVED_FIELDS:
                self.__dict__.pop(name, None)
            if unread := self.__dict__.get(UNREAD):
                self.__dict__[UNREAD] = {name: left for name, left in unread.items() if name not in MOVED_FIELDS}
        elif self.has_steps:
            forget_steps(self._session, [self.pk])
        if settled:
            self._change = change
            on_commit(self._remember_settled, using=self._state.db or self._session.using)

    def get_deferred_fields(self) -> set[str]:
        """Return what the next access would read from the database."""
        deferred: set[str] = super().get_deferred_fields()
        return deferred.difference(self.__dict__.get(UNREAD, ()))

    def _remember_settled(self) -> None:
        self.settled, self.settlement = True, self._change


MOVED_FIELDS = (
    "status",
    "conn_id",
    "worker_id",
    "available_at",
    "due_at",
    "live",
    "read_count",
    "max_reads",
    "crashes",
    "lease_seconds",
    "finished_at",
    "error",
)
"""What a move may write, besides the token and the time of a claim."""
