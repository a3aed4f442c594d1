"""Enqueue from any iterable: one transaction, all or nothing, in bounded memory.

Each chunk is one INSERT. Keys that exist already, or occur twice in the chunk, are handled one by one, in the given
order. If a key is taken between our read and our INSERT, the read is repeated.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from django.db import IntegrityError

from django_dbqueue import conf
from django_dbqueue.databases.statements import MESSAGE_COLUMNS
from django_dbqueue.envelope import Envelope, Sealed, in_inserts, seal
from django_dbqueue.exceptions import DBQueueError, DuplicateKey, InvalidMessage
from django_dbqueue.lifecycle.django_session import MAX_IDS, DjangoSession, MessageType, chunks
from django_dbqueue.lifecycle.enqueue import (
    TRIES,
    OnConflict,
    check_on_conflict,
    due_moment,
    notify,
    overwrite,
)
from django_dbqueue.lifecycle.hydration import hydrate
from django_dbqueue.retry import is_duplicate


@dataclass(frozen=True, slots=True)
class EnqueueReport:
    """What ``enqueue_many`` did: how many messages were created, updated, ignored."""

    created: int = 0
    updated: int = 0
    ignored: int = 0

    @property
    def total(self) -> int:
        """How many envelopes there were."""
        return self.created + self.updated + self.ignored


def enqueue_many(
    model: MessageType, session: DjangoSession, items: Iterable[object], *, queue: str, on_conflict: OnConflict
) -> EnqueueReport:
    """Store messages from envelopes or payloads in one transaction: all or nothing, in bounded memory."""
    check_on_conflict(on_conflict)
    if isinstance(items, str | bytes | bytearray | memoryview | Mapping | Envelope):
        raise InvalidMessage(
            f"enqueue_many() takes an iterable of payloads or envelopes, not a single {type(items).__name__}, whose "
            "parts would become messages: use enqueue(), or put it into a list. Nothing was enqueued."
        )
    counts = {"created": 0, "updated": 0, "ignored": 0}

    def store() -> EnqueueReport:
        counts.update(created=0, updated=0, ignored=0)
        with session.transaction():
            for chunk in in_inserts(_sealed(items, queue), rows=session.dialect.sql.rows_of_an_insert):
                _store_chunk(model, session, chunk, on_conflict, counts)
            notify(session, queue, counts["created"] + counts["updated"])
        return EnqueueReport(**counts)

    if isinstance(items, list | tuple):
        return session.outermost(store)
    return store()  # an iterator can't be read twice, so retrying after an error midway is up to the caller


def _sealed(items: Iterable[object], queue: str) -> Iterable[Sealed]:
    priority, max_bytes = conf.for_senders(queue)
    for index, item in enumerate(items):
        envelope = item if isinstance(item, Envelope) else Envelope(item)
        try:
            sealed = seal(envelope, queue=queue, priority=priority, max_bytes=max_bytes)
        except InvalidMessage as error:
            key = "" if envelope.key is None else f" (key {envelope.key!r})"
            raise InvalidMessage(f"Item {index}{key}: {error} Nothing was enqueued.") from error
        yield sealed


def _store_chunk(
    model: MessageType, session: DjangoSession, chunk: list[Sealed], on_conflict: OnConflict, counts: dict[str, int]
) -> None:
    """Insert a chunk; handle keys that exist already, or occur twice in it, one by one, in the given order."""
    pending = chunk
    for _ in range(TRIES):
        pending = _insert_new(model, session, pending, on_conflict, counts)
        if not pending:
            return
    raise DBQueueError(f"Keys of queue {chunk[0].queue!r} changed hands {TRIES} times during enqueue_many: try again.")


def _insert_new(
    model: MessageType, session: DjangoSession, chunk: list[Sealed], on_conflict: OnConflict, counts: dict[str, int]
) -> list[Sealed]:
    """Handle the keys that exist, insert the others; return what has to be checked again."""
    standing = _standing(session, [item.key_hash for item in chunk if item.key_hash is not None])
    first: set[str] = set()
    new, again = [], []
    for item in chunk:
        if item.key_hash is None or (item.key_hash not in standing and item.key_hash not in first):
            new.append(item)
            first.add(item.key_hash or "")
        elif item.key_hash in first:
            again.append(item)
        elif on_conflict == "error":
            raise DuplicateKey(item.queue, item.key)
        else:
            changed = on_conflict == "update" and _overwrite_standing(model, session, item)
            counts["updated" if changed else "ignored"] += 1
    refused = _insert_rows(session, new) if new else []
    counts["created"] += len(new) - len(refused)
    return [*refused, *again]


def _standing(session: DjangoSession, hashes: list[str]) -> set[str]:
    found: set[str] = set()
    dialect = session.dialect
    for part in chunks(hashes, MAX_IDS):
        place = MESSAGE_COLUMNS.index("key_hash")
        found.update(row[place] for row in session.fetch(dialect.enqueue.live_by_hash(part)))
    return found


def _overwrite_standing(model: MessageType, session: DjangoSession, item: Sealed) -> bool:
    rows = session.fetch(session.dialect.enqueue.live_by_hash([item.key_hash or ""]))
    return bool(rows) and overwrite(session, hydrate(model, session.using, rows[0]), item)


def _insert_rows(session: DjangoSession, items: list[Sealed]) -> list[Sealed]:
    """Insert with one statement; return the items that were not inserted because their key was taken meanwhile."""
    dialect = session.dialect
    *told, delays, _ = zip(*items, strict=True)
    columns: dict[str, Sequence[object]] = dict(zip(Sealed._fields, told, strict=False))
    columns["live"] = [None if each is None else 1 for each in columns["key_hash"]]
    moments = [due_moment(session, item) for item in items]
    if dialect.sql.ignore_duplicate:
        keyed = [item for item in items if item.key_hash is not None]
        if not keyed:
            session.run(dialect.enqueue.insert_many(columns, delays, moments))
            return []
        insert = dialect.enqueue.insert_many(columns, delays, moments, returning="key_hash", ignore=True)
        stored = {row[0] for row in session.fetch(insert)}
        return [item for item in keyed if item.key_hash not in stored]
    try:
        session.run(dialect.enqueue.insert_many(columns, delays, moments))
    except IntegrityError as error:
        if not is_duplicate(error):
            raise
        return items
    return []
