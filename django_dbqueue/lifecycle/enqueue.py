"""Enqueue: a plain INSERT on the caller's connection, so that the message exists iff the caller commits (P1, P2).

A key names at most one live message of its queue (P11): unique (key_hash, live). Where the server can end the INSERT
by "on conflict do nothing" it does; MySQL and MariaDB raise 1062 and the statement is undone. Either way the
live row is then read under a lock, which shows the newest committed one at any isolation, and ``on_conflict``
says what becomes of it. If it went meanwhile, the INSERT is tried again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from django.db import IntegrityError, connections, transaction

from django_dbqueue import conf
from django_dbqueue.databases import Statement, dialect_of
from django_dbqueue.databases.words import MESSAGE_COLUMNS
from django_dbqueue.envelope import Envelope, Sealed, seal
from django_dbqueue.exceptions import DBQueueError, DuplicateKey, InvalidMessage
from django_dbqueue.lifecycle.statements import MessageType, chunks, fetch, hydrate, run
from django_dbqueue.retry import outermost
from django_dbqueue.statuses import NEW

OnConflict = Literal["ignore", "update", "error"]
ON_CONFLICT = ("ignore", "update", "error")
CHUNK_ROWS = 500
CHUNK_SIZE = 2 * 1024 * 1024
TRIES = 20
"""How often a live row with our key may vanish between our INSERT and our look before we give up."""


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


def enqueue_one(model: MessageType, using: str, envelope: Envelope, *, queue: str, on_conflict: OnConflict) -> Any:
    """Store one message and return it, with its ``outcome``."""
    _check_on_conflict(on_conflict)
    sealed = _seal(envelope, queue)
    return outermost(connections[using], lambda: _enqueue_one(model, using, sealed, on_conflict))


def enqueue_iterable(
    model: MessageType, using: str, items: Iterable[Any], *, queue: str, on_conflict: OnConflict, limit: int
) -> EnqueueReport:
    """Store messages of envelopes or payloads in one transaction: all or nothing, in bounded memory."""
    _check_on_conflict(on_conflict)
    counts = {"created": 0, "updated": 0, "ignored": 0}

    def store() -> EnqueueReport:
        counts.update(created=0, updated=0, ignored=0)
        with transaction.atomic(using=using):
            for chunk in _sized_chunks(_sealed(items, queue), limit):
                _store_chunk(model, using, chunk, on_conflict, counts)
            _notify(using, queue, counts["created"] + counts["updated"])
        return EnqueueReport(**counts)

    if isinstance(items, list | tuple):
        return outermost(connections[using], store)
    return store()  # an iterator can't be read again, so an error in the middle is the caller's to retry


def _check_on_conflict(on_conflict: str) -> None:
    if on_conflict not in ON_CONFLICT:
        raise InvalidMessage(f"on_conflict must be one of {', '.join(ON_CONFLICT)}, not {on_conflict!r}.")


def _seal(envelope: Envelope, queue: str) -> Sealed:
    priority = conf.queue_options(queue).priority if isinstance(queue, str) else 0
    return seal(envelope, queue=queue, priority=priority, max_bytes=conf.get("MAX_PAYLOAD_BYTES"))


def _sealed(items: Iterable[Any], queue: str) -> Iterable[Sealed]:
    for index, item in enumerate(items):
        envelope = item if isinstance(item, Envelope) else Envelope(item)
        try:
            yield _seal(envelope, queue)
        except InvalidMessage as error:
            key = "" if envelope.key is None else f" (key {envelope.key!r})"
            raise InvalidMessage(f"Item {index}{key}: {error} Nothing was enqueued.") from error


def _sized_chunks(sealed: Iterable[Sealed], limit: int) -> Iterable[list[Sealed]]:
    """Cut into INSERTs of at most ``limit`` rows and about CHUNK_SIZE characters, under every packet limit."""
    chunk: list[Sealed] = []
    size = 0
    for item in sealed:
        if chunk and (len(chunk) >= limit or size + item.size > CHUNK_SIZE):
            yield chunk
            chunk, size = [], 0
        chunk.append(item)
        size += item.size
    if chunk:
        yield chunk


def _row(item: Sealed) -> tuple[Any, ...]:
    return (
        item.queue,
        item.key,
        item.key_hash,
        None if item.key_hash is None else 1,
        item.body,
        item.content_type,
        item.headers,
        item.priority,
        item.max_reads,
        item.lease_seconds,
    )


def _enqueue_one(model: MessageType, using: str, item: Sealed, on_conflict: OnConflict) -> Any:
    for _ in range(TRIES):
        message_id = _insert(using, item)
        if message_id is not None:
            _notify(using, item.queue, 1)
            return _created(model, using, message_id, item)
        message = _meet(model, using, item, on_conflict)
        if message is not None:
            return message
    raise DBQueueError(f"The key {item.key!r} of queue {item.queue!r} changed hands {TRIES} times: try again.")


def _insert(using: str, item: Sealed) -> int | None:
    """Insert and return the id; None where a live message has the key."""
    connection = connections[using]
    dialect = dialect_of(connection)
    row = (_row(item), item.delay, _at(using, item))
    if dialect.ignore_duplicate:
        rows = fetch(using, dialect.insert([row], returning="id", ignore=item.key is not None))
        return int(rows[0][0]) if rows else None
    statement = dialect.insert([row])
    try:
        with connection.cursor() as cursor:
            cursor.execute(statement.sql, statement.params)
            return int(cursor.lastrowid)
    except IntegrityError as error:
        if not _is_duplicate(error):
            raise
        return None


def _is_duplicate(error: IntegrityError) -> bool:
    cause = error.__cause__
    return cause is not None and bool(cause.args) and cause.args[0] == 1062


def _created(model: MessageType, using: str, message_id: int, item: Sealed) -> Any:
    """Make the message of what was written; what only the database knows (its times) is read when asked for."""
    known = {
        "id": message_id,
        "queue": item.queue,
        "key": item.key,
        "key_hash": item.key_hash,
        "live": None if item.key_hash is None else 1,
        "status": NEW,
        "conn_id": None,
        "worker_id": None,
        "claim_token": None,
        "priority": item.priority,
        "read_count": 0,
        "max_reads": item.max_reads,
        "crashes": 0,
        "lease_seconds": item.lease_seconds,
        "body": item.body,
        "content_type": item.content_type,
        "headers_text": item.headers,
        "claimed_at": None,
        "finished_at": None,
        "error": None,
    }
    # from_db() hands out the values in the order of the model's fields, whatever the order of the names
    names = [field.attname for field in model._meta.concrete_fields if field.attname in known]
    message: Any = model.from_db(using, names, [known[name] for name in names])
    message.outcome = "created"
    return message


def _at(using: str, item: Sealed) -> Any:
    if item.at is None:
        return None
    if connections[using].vendor == "postgresql":
        return item.at
    return item.at.replace(tzinfo=None).isoformat(sep=" ", timespec="microseconds")


def _meet(model: MessageType, using: str, item: Sealed, on_conflict: OnConflict) -> Any:
    """Do what ``on_conflict`` says with the live message of this key; None if it is gone."""
    with transaction.atomic(using=using):
        rows = fetch(using, dialect_of(connections[using]).live_by_hash([item.key_hash or ""]))
        if not rows:
            return None
        standing = hydrate(model, using, rows[0])
        standing.outcome = "ignored"
        if on_conflict == "error":
            raise DuplicateKey(item.queue, item.key)
        if on_conflict == "update" and _overwrite(using, standing, item):
            _notify(using, item.queue, 1)
            standing = hydrate(model, using, fetch(using, _by_id(using, standing.pk))[0])
            standing.outcome = "updated"
        return standing


def _by_id(using: str, message_id: int) -> Statement:
    dialect = dialect_of(connections[using])
    return Statement(f"SELECT {dialect.columns(MESSAGE_COLUMNS)} FROM {dialect.message} WHERE id = %s", (message_id,))


def _overwrite(using: str, standing: Any, item: Sealed) -> bool:
    """Give a live message new content, unless it says the same already; its running claim ends."""
    if _says_the_same(standing, item):
        return False
    dialect = dialect_of(connections[using])
    content = (item.body, item.content_type, item.headers, item.priority, item.max_reads, item.lease_seconds)
    return run(using, dialect.overwrite(standing.pk, content, item.delay, _at(using, item))) == 1


def _says_the_same(standing: Any, item: Sealed) -> bool:
    new_time = item.delay > 0 or (item.at is not None and item.at != standing.due_at)
    return (
        not new_time
        and (standing.body, standing.content_type, standing.headers_text, standing.priority)
        == (item.body, item.content_type, item.headers, item.priority)
        and item.max_reads in (None, standing.max_reads)
        and item.lease_seconds in (None, standing.lease_seconds)
    )


def _store_chunk(
    model: MessageType, using: str, chunk: list[Sealed], on_conflict: OnConflict, counts: dict[str, int]
) -> None:
    """Insert a chunk; keys that stand already, or twice in it, are met one by one, in the given order."""
    pending = chunk
    for _ in range(TRIES):
        pending = _insert_new(model, using, pending, on_conflict, counts)
        if not pending:
            return
    raise DBQueueError(f"Keys of queue {chunk[0].queue!r} changed hands {TRIES} times during enqueue_many: try again.")


def _insert_new(
    model: MessageType, using: str, chunk: list[Sealed], on_conflict: OnConflict, counts: dict[str, int]
) -> list[Sealed]:
    """Meet the keys that stand, insert the others; return what has to be looked at again."""
    standing = _standing(using, [item.key_hash for item in chunk if item.key_hash is not None])
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
            changed = on_conflict == "update" and _overwrite_standing(model, using, item)
            counts["updated" if changed else "ignored"] += 1
    refused = _insert_rows(using, new) if new else []
    counts["created"] += len(new) - len(refused)
    return [*refused, *again]


def _standing(using: str, hashes: list[str]) -> set[str]:
    found: set[str] = set()
    dialect = dialect_of(connections[using])
    for part in chunks(hashes, CHUNK_ROWS):
        place = MESSAGE_COLUMNS.index("key_hash")
        found.update(row[place] for row in fetch(using, dialect.live_by_hash(part)))
    return found


def _overwrite_standing(model: MessageType, using: str, item: Sealed) -> bool:
    rows = fetch(using, dialect_of(connections[using]).live_by_hash([item.key_hash or ""]))
    return bool(rows) and _overwrite(using, hydrate(model, using, rows[0]), item)


def _insert_rows(using: str, items: list[Sealed]) -> list[Sealed]:
    """Insert by one statement; return the items that were not, because their key was taken meanwhile."""
    dialect = dialect_of(connections[using])
    rows = [(_row(item), item.delay, _at(using, item)) for item in items]
    if dialect.ignore_duplicate:
        keyed = [item for item in items if item.key_hash is not None]
        if not keyed:
            run(using, dialect.insert(rows))
            return []
        stored = {row[0] for row in fetch(using, dialect.insert(rows, returning="key_hash", ignore=True))}
        return [item for item in keyed if item.key_hash not in stored]
    try:
        run(using, dialect.insert(rows))
    except IntegrityError as error:
        if not _is_duplicate(error):
            raise
        return items
    return []


def _notify(using: str, queue: str, changed: int) -> None:
    dialect = dialect_of(connections[using])
    if changed and dialect.notifies and conf.get("NOTIFY"):
        fetch(using, dialect.notify(queue))
