"""The verbs of senders and holders: enqueue, claim, settle, rescue, archive; on the manager and on querysets.

Each takes ``using``, the alias of a database; without it, the manager's or queryset's own applies, then
``DBQUEUE["DATABASE"]``, then the router's choice.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Generic

from asgiref.sync import sync_to_async

from django_dbqueue import conf, hooks
from django_dbqueue.codecs import Json
from django_dbqueue.envelope import Envelope, check_lease, check_queue, check_seconds, check_whole, hash_of_key
from django_dbqueue.lifecycle import archive, enqueue, enqueue_many, expired_streams, rescue, settle_many
from django_dbqueue.lifecycle.claimer import Claimer
from django_dbqueue.lifecycle.enqueue import OnConflict
from django_dbqueue.lifecycle.enqueue_many import EnqueueReport
from django_dbqueue.models.message_row import AnyMessage
from django_dbqueue.operations.mover import cancel_one, drop_by_key
from django_dbqueue.operations.verbs import cancelling
from django_dbqueue.sessions.django_session import DjangoSession, refuse_inside_atomic, session_for
from django_dbqueue.states.ranges_in_use import queues_in_use
from django_dbqueue.streams import streams_sql
from django_dbqueue.typed_values import MAX_ID

MAX_CLAIM = 10_000
MAX_ARCHIVED = 10**12


class Verbs(Generic[AnyMessage]):
    """What senders and holders do to messages."""

    model: type[AnyMessage]
    _db: str | None

    def _session(self, using: str | None = None) -> DjangoSession:
        """Return a session on that database; UnsupportedDatabase if the queue can't live there."""
        return session_for(self.model, using or self._db)

    def enqueue(
        self,
        payload: Json,
        *,
        queue: str = "default",
        key: str | None = None,
        delay: float | timedelta | None = None,
        at: datetime | None = None,
        priority: int | None = None,
        max_reads: int | None = None,
        lease: float | timedelta | None = None,
        headers: dict[str, Json] | None = None,
        group: str | None = None,
        once: str | None = None,
        once_for: float | timedelta | None = None,
        on_conflict: OnConflict = "ignore",
        using: str | None = None,
    ) -> AnyMessage:
        """Store a message in the caller's transaction and return it, with its ``outcome``.

        ``delay`` and ``lease`` are seconds; ``max_reads`` 0 means no limit. Messages of one ``group`` run one after the
        other, or as many at once as the queue's ``group_limit`` says. If a live message has the key,
        ``on_conflict`` decides: "ignore" returns it as it stands, "update" gives it this content (and ends its running
        claim), "error" raises DuplicateKey. If the queue has taken a message with the token ``once`` in the last
        ``once_for`` (seconds or timedelta; a day), nothing is stored, and the first message is returned, whatever has
        become of it: "ignored". InvalidMessage says what can't be stored, and why.
        """
        envelope = Envelope(payload, key, delay, at, priority, max_reads, lease, headers, group, once, once_for)
        message: AnyMessage = enqueue.enqueue_one(
            self.model, self._session(using), envelope, queue=queue, on_conflict=on_conflict
        )
        return message

    def enqueue_many(
        self,
        items: Iterable[object],
        *,
        queue: str = "default",
        on_conflict: OnConflict = "ignore",
        using: str | None = None,
    ) -> EnqueueReport:
        """Store payloads or ``Envelope``s, from any iterable, in one transaction: all or nothing.

        Memory stays bounded. A deadlock is retried for lists and tuples. An iterator can't be read twice, so in that
        case the error is raised, with nothing written.
        """
        return enqueue_many.enqueue_many(
            self.model, self._session(using), items, queue=check_queue(queue), on_conflict=on_conflict
        )

    async def aenqueue(self, payload: Json, **options: Any) -> AnyMessage:
        """Run ``enqueue`` from async code."""
        return await sync_to_async(self.enqueue)(payload, **options)

    async def aenqueue_many(self, items: Iterable[object], **options: Any) -> EnqueueReport:
        """Run ``enqueue_many`` from async code; ``items`` is a plain iterable."""
        return await sync_to_async(self.enqueue_many)(items, **options)

    def claim(
        self,
        limit: int = 1,
        *,
        queue: str = "default",
        lease: float | timedelta | None = None,
        using: str | None = None,
    ) -> list[AnyMessage]:
        """Take up to ``limit`` due messages, highest priority first, each for ``lease`` seconds.

        The claim is a transaction of its own and refuses to run inside atomic(). A message's own lease overrides the
        argument, which overrides the settings. Expired leases are rescued when the claim comes back short. A paused
        queue returns nothing. A message whose reads were already spent is sent to the dead letters instead.
        """
        session = self._session(using)
        take = partial(self._claim, session, limit, queue=queue, lease=lease)
        return take() if hooks.active is None else hooks.active.receive(queue, session.using, take)

    def _claim(
        self, session: DjangoSession, limit: int, *, queue: str, lease: float | timedelta | None
    ) -> list[AnyMessage]:
        refuse_inside_atomic(session, "claim()")
        check_whole("limit", limit, low=1, high=MAX_CLAIM)
        options = conf.queue_options(check_queue(queue))
        seconds = options.lease if lease is None else check_lease(lease)
        if session.fetch(streams_sql.is_paused(session.server, queue)):
            return []
        messages = Claimer(self.model, session, queue).claim(limit, lease=seconds, max_reads=options.max_reads)
        if len(messages) == limit:
            return messages
        mine = messages[0].claim_token if messages else None
        if rescue.rescue(self.model, session, [queue], limit=limit, but_token=mine):
            rest = limit - len(messages)
            messages += Claimer(self.model, session, queue).claim(rest, lease=seconds, max_reads=options.max_reads)
        return messages

    def ack(self, messages: Iterable[AnyMessage], *, using: str | None = None) -> list[AnyMessage]:
        """Mark these done, in one statement for all queues that keep acked rows, and one for those that don't.

        Return the ones whose claim was lost.
        """
        return settle_many.ack_many(messages, self._session(using))

    def nack(
        self,
        messages: Iterable[AnyMessage],
        *,
        delay: float | timedelta | None = None,
        error: str | BaseException | None = None,
        using: str | None = None,
    ) -> list[AnyMessage]:
        """Return these to the queue, charged; return the ones whose claim was lost."""
        return settle_many.nack_many(messages, self._session(using), delay=delay, error=error)

    def reject(self, messages: Iterable[AnyMessage], reason: str = "", *, using: str | None = None) -> list[AnyMessage]:
        """Send these to the dead letters; return the ones whose claim was lost."""
        return settle_many.reject_many(messages, self._session(using), reason=reason)

    def release(self, messages: Iterable[AnyMessage], *, using: str | None = None) -> list[AnyMessage]:
        """Return these to the queue, uncharged; return the ones whose claim was lost."""
        return settle_many.release_many(messages, self._session(using))

    def extend(
        self,
        messages: Iterable[AnyMessage],
        seconds: float | timedelta | None = None,
        *,
        using: str | None = None,
    ) -> list[AnyMessage]:
        """Set these leases to end that many seconds from now; return the ones whose claim was lost."""
        return settle_many.extend_many(messages, self._session(using), seconds=seconds)

    def drop(self, queue: str, key: str, *, reason: str = "dropped by its key", using: str | None = None) -> bool:
        """Mark the live message of this queue and key done, with the reason; return whether there was one.

        It joins the caller's transaction. A running claim loses the message: its holder gets LeaseLost.
        """
        return drop_by_key(self.model, self._session(using), hash_of_key(queue, key), reason=reason)

    def cancel(self, message_id: int, *, reason: str, by: str | None = None, using: str | None = None) -> None:
        """Send a message that has not ended to the dead, with the reason; NotCancelled says of one that has, how.

        It joins the caller's transaction. If it runs, its claim is lost with the commit: no ack of it counts, a
        transactional handler's rows are rolled back, and its worker interrupts the handler within two seconds. ``by``
        names the person; the message's life shows it.
        """
        check_whole("message_id", message_id, low=1, high=MAX_ID)
        cancel_one(self.model, self._session(using), message_id, cancelling(reason, by))

    async def acancel(self, message_id: int, *, reason: str, by: str | None = None, using: str | None = None) -> None:
        """Run ``cancel`` from async code."""
        await sync_to_async(self.cancel)(message_id, reason=reason, by=by, using=using)

    def rescue(self, queue: str | None = None, *, using: str | None = None) -> int:
        """Return what is running past its lease to its queue, charged (all queues for None); return how many.

        For all queues, this includes what consuming streams with ``on_expired=requeue`` let expire.
        """
        session = self._session(using)
        if queue is not None:
            return rescue.rescue(self.model, session, [check_queue(queue)])
        return rescue.rescue(self.model, session) + expired_streams.requeue_expired(self.model, session)

    def archive(
        self,
        queue: str | None = None,
        *,
        older_than: float | timedelta | None = None,
        limit: int | None = None,
        using: str | None = None,
    ) -> int:
        """Move done messages older than the queue's ``retention`` (or ``older_than`` seconds) into the history.

        Also move dead ones that died longer ago than its ``dead_retention``, if one is set. One archiver works at a
        time; this one waits for its turn, and inside your transaction it keeps its turn until that ends. Return how
        many were moved.
        """
        session, moved = self._session(using), 0
        if limit is not None:
            check_whole("limit", limit, low=0, high=MAX_ARCHIVED)
        for name in queues_in_use(session) if queue is None else [check_queue(queue)]:
            options = conf.queue_options(name)
            age = options.retention if older_than is None else check_seconds("older_than", older_than)
            moved += archive.DoneWalk(session, name).archive(age=age, limit=None if limit is None else limit - moved)
            if options.dead_retention is not None:
                left = None if limit is None else limit - moved
                moved += archive.DeadWalk(session, name).archive(age=options.dead_retention, limit=left)
        return moved
