"""The one way in: everything that changes a message goes through here. Adjectives select, verbs change."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Self

from asgiref.sync import sync_to_async
from django.apps import apps
from django.db import connections, models, router
from django.db.models import F

from django_dbqueue import conf
from django_dbqueue.codecs import decode_headers
from django_dbqueue.envelope import Envelope, check_queue, check_seconds, check_whole, key_hash
from django_dbqueue.exceptions import DuplicateKey, UnsupportedDatabase
from django_dbqueue.lifecycle import archive, enqueue, requeue, rescue, settle
from django_dbqueue.lifecycle.claim import Claimer
from django_dbqueue.lifecycle.enqueue import EnqueueReport, OnConflict
from django_dbqueue.lifecycle.requeue import Changed
from django_dbqueue.lifecycle.statements import refuse_inside_atomic
from django_dbqueue.models.fields import DbNow
from django_dbqueue.statuses import DONE, NEW, RUNNING

if TYPE_CHECKING:
    from django_dbqueue.models.message import Message
    from django_dbqueue.models.queue import Queue

MAX_CLAIM = 10_000
SENT_AGAIN_FROM = "dbqueue.sent_again_from"
"""Header of a message that was sent again: the id of the one that it repeats."""


class MessageQuerySet(models.QuerySet["Message"]):
    """Messages by what people say of them, and what an operator may do to them."""

    _db: str | None
    _hints: dict[str, Any]

    # -- adjectives ---------------------------------------------------------------------------------------

    def in_queue(self, queue: str | None) -> Self:
        """Of this queue; of all for None."""
        return self if queue is None else self.filter(queue=check_queue(queue))

    def ready(self, queue: str | None = None) -> Self:
        """Not taken, and due."""
        return self.in_queue(queue).filter(status=NEW, available_at__lte=DbNow())

    def delayed(self, queue: str | None = None) -> Self:
        """Not taken, and due later."""
        return self.in_queue(queue).filter(status=NEW, available_at__gt=DbNow())

    def running(self, queue: str | None = None) -> Self:
        """Taken, the lease not over."""
        return self.in_queue(queue).filter(status=RUNNING, available_at__gt=DbNow())

    def stuck(self, queue: str | None = None) -> Self:
        """Taken, and the lease is over: waiting for a rescue."""
        return self.in_queue(queue).filter(status=RUNNING, available_at__lte=DbNow())

    def done(self, queue: str | None = None) -> Self:
        """Finished."""
        return self.in_queue(queue).filter(status=DONE)

    def dead(self, queue: str | None = None) -> Self:
        """Out of reads, rejected or undecodable: visible, and can be requeued."""
        return self.in_queue(queue).filter(status=NEW, available_at__isnull=True)

    def with_key(self, queue: str, key: str) -> Self:
        """Of this queue and key, compared byte by byte, finished ones too."""
        return self.filter(key_hash=key_hash(check_queue(queue), key))

    def in_claim_order(self) -> Self:
        """As a claim would take them: priority, then due time, then id."""
        return self.order_by(F("priority").desc(), "available_at", "id")

    # -- verbs of operators -------------------------------------------------------------------------------

    @property
    def _write_alias(self) -> str:
        return self._db or router.db_for_write(self.model, **self._hints)

    def _each(self) -> Iterable[Message]:
        """The messages, read page by page: no cursor stays open while rows change beneath it."""
        last = 0
        base = self.using(self._write_alias).order_by("id")
        while page := list(base.filter(id__gt=last)[:500]):
            yield from page
            last = page[-1].pk

    def requeue(self) -> Changed:
        """Make running and dead ones as if new; return how many, with ``conflicts`` where the key was taken."""
        return requeue.requeue(self._write_alias, self._each())

    def drop(self, reason: str) -> Changed:
        """Mark live and dead ones done, with the reason; return how many."""
        return requeue.drop(self._write_alias, self._each(), reason=reason)

    def reject_waiting(self, reason: str) -> Changed:
        """Send ready and delayed ones to the dead, with the reason; return how many."""
        return requeue.reject_waiting(self._write_alias, self._each(), reason=reason)

    def send_again(self) -> Changed:
        """Send a new message for each, with a header that names the one it repeats; return how many.

        Where a live message has the key already, none is sent, and ``conflicts`` names it.
        """
        manager = self.model._default_manager.db_manager(self._write_alias)
        sent, conflicts = 0, []
        for message in self._each():
            headers = {**decode_headers(message.headers_text), SENT_AGAIN_FROM: message.pk}
            try:
                manager.enqueue(
                    message.payload,
                    queue=message.queue,
                    key=message.key,
                    priority=message.priority,
                    max_reads=message.max_reads,
                    lease=message.lease_seconds,
                    headers=headers,
                    on_conflict="error",
                )
            except DuplicateKey:
                conflicts.append(DuplicateKey(message.queue, message.key, message_id=message.pk))
            else:
                sent += 1
        return Changed(sent, conflicts)

    def purge(self) -> int:
        """Move the done and dead ones into the history now; return how many."""
        finished = (message.pk for message in self._each())
        return archive.purge(self._write_alias, finished)


class MessageManager(models.Manager.from_queryset(MessageQuerySet)):  # type: ignore[misc]
    """``Message.objects``: enqueue, claim, settle, and the queryset's words."""

    @property
    def _alias(self) -> str:
        alias: str = self._db or router.db_for_write(self.model)
        if connections[alias].vendor not in {"mysql", "postgresql", "sqlite"}:
            raise UnsupportedDatabase(f"The queue can't live in {alias!r}, a {connections[alias].vendor} database.")
        return alias

    def get_queryset(self) -> MessageQuerySet:
        """Messages where they are written: a replica shows rows as they were."""
        return MessageQuerySet(self.model, using=self._db or router.db_for_write(self.model), hints=self._hints)

    def enqueue(
        self,
        payload: Any,
        *,
        queue: str = "default",
        key: str | None = None,
        delay: float | timedelta | None = None,
        at: datetime | None = None,
        priority: int | None = None,
        max_reads: int | None = None,
        lease: float | timedelta | None = None,
        headers: dict[str, Any] | None = None,
        on_conflict: OnConflict = "ignore",
    ) -> Message:
        """Store a message in the caller's transaction and return it, with its ``outcome``.

        ``delay`` and ``lease`` are seconds; ``max_reads`` 0 is no limit. Where a live message has the key,
        ``on_conflict`` decides: "ignore" returns it as it stands, "update" gives it this content (and ends its
        running claim), "error" raises DuplicateKey. InvalidMessage says what can't be stored, and why.
        """
        envelope = Envelope(payload, key, delay, at, priority, max_reads, lease, headers)
        message: Message = enqueue.enqueue_one(self.model, self._alias, envelope, queue=queue, on_conflict=on_conflict)
        return message

    def enqueue_many(
        self, items: Iterable[Any], *, queue: str = "default", on_conflict: OnConflict = "ignore"
    ) -> EnqueueReport:
        """Store payloads or ``Envelope``s, from any iterable, in one transaction: all or nothing.

        Memory stays bounded. A deadlock is retried for lists and tuples; an iterator can't be read twice, so there
        it is raised, with nothing written.
        """
        alias = self._alias
        limit = 60 if connections[alias].vendor == "sqlite" else enqueue.CHUNK_ROWS
        return enqueue.enqueue_iterable(
            self.model, alias, items, queue=check_queue(queue), on_conflict=on_conflict, limit=limit
        )

    async def aenqueue(self, payload: Any, **options: Any) -> Message:
        """``enqueue`` for async code."""
        return await sync_to_async(self.enqueue)(payload, **options)

    async def aenqueue_many(self, items: Iterable[Any], **options: Any) -> EnqueueReport:
        """``enqueue_many`` for async code; ``items`` is a plain iterable."""
        return await sync_to_async(self.enqueue_many)(items, **options)

    def claim(self, limit: int = 1, *, queue: str = "default", lease: float | timedelta | None = None) -> list[Message]:
        """Take up to ``limit`` due messages, highest priority first, each for ``lease`` seconds.

        It is a transaction of its own and refuses to run inside atomic(). A message's own lease goes before the
        argument, that before the settings. Leases that are over are rescued when the claim comes back short. A
        paused queue gives nothing. A message whose reads were spent already goes to the dead instead.
        """
        alias = self._alias
        refuse_inside_atomic(alias, "claim()")
        check_whole("limit", limit, low=1, high=MAX_CLAIM)
        options = conf.queue_options(check_queue(queue))
        seconds = options.lease if lease is None else check_seconds("lease", lease)
        if apps.get_model("django_dbqueue", "Queue").objects.using(alias).filter(pk=queue, is_paused=True).exists():
            return []
        claimer = Claimer(self.model, alias, queue)
        messages = claimer.claim(limit, lease=seconds, max_reads=options.max_reads)
        if len(messages) == limit:
            return messages
        mine = messages[0].claim_token if messages else None
        if rescue.rescue(self.model, alias, [queue], limit=limit, but_token=mine):
            messages += claimer.claim(limit - len(messages), lease=seconds, max_reads=options.max_reads)
        return messages

    def ack(self, messages: Iterable[Message]) -> list[Message]:
        """Say that these are done, in one statement; return the ones whose claim was lost."""
        return settle.ack_many(messages, self._alias)

    def nack(
        self,
        messages: Iterable[Message],
        *,
        delay: float | timedelta | None = None,
        error: str | BaseException | None = None,
    ) -> list[Message]:
        """Give these back, charged; return the ones whose claim was lost."""
        return settle.nack_many(messages, self._alias, delay=delay, error=error)

    def reject(self, messages: Iterable[Message], reason: str = "") -> list[Message]:
        """Send these to the dead letters; return the ones whose claim was lost."""
        return settle.reject_many(messages, self._alias, reason=reason)

    def release(self, messages: Iterable[Message]) -> list[Message]:
        """Give these back uncharged; return the ones whose claim was lost."""
        return settle.release_many(messages, self._alias)

    def extend(self, messages: Iterable[Message], seconds: float | timedelta | None = None) -> list[Message]:
        """Let these leases end that many seconds from now; return the ones whose claim was lost."""
        return settle.extend_many(messages, self._alias, seconds=seconds)

    def rescue(self, queue: str | None = None) -> int:
        """Give back, charged, what is running past its lease (in all queues for None); return how many."""
        alias = self._alias
        return rescue.rescue(self.model, alias, None if queue is None else [check_queue(queue)])

    def archive(
        self,
        queue: str | None = None,
        *,
        older_than: float | timedelta | None = None,
        limit: int | None = None,
    ) -> int:
        """Move done messages older than the queue's ``retention`` (or ``older_than`` seconds) into the history."""
        alias, moved = self._alias, 0
        for name in rescue.queues_in_use(alias) if queue is None else [check_queue(queue)]:
            age = conf.queue_options(name).retention if older_than is None else check_seconds("older_than", older_than)
            moved += archive.archive(alias, name, age=age, limit=None if limit is None else limit - moved)
        return moved


class QueueQuerySet(models.QuerySet["Queue"]):
    """``Queue.objects``: pause and resume."""

    def pause(self, name: str, *, by: str = "", reason: str = "") -> None:
        """Let nobody claim from this queue; what runs may finish."""
        self.update_or_create(
            name=check_queue(name),
            defaults={"is_paused": True, "paused_at": DbNow(), "paused_by": by, "pause_reason": reason},
        )

    def resume(self, name: str) -> None:
        """Open the queue again."""
        self.update_or_create(
            name=check_queue(name),
            defaults={"is_paused": False, "paused_at": None, "paused_by": "", "pause_reason": ""},
        )

    def paused_names(self) -> set[str]:
        """Return the names of the paused queues."""
        return set(self.filter(is_paused=True).values_list("name", flat=True))


class QueueManager(models.Manager.from_queryset(QueueQuerySet)):  # type: ignore[misc]
    """``Queue.objects``."""
