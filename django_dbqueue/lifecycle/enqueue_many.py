"""Enqueue from any iterable: one transaction, all or nothing, in bounded memory.

Each chunk is one INSERT. Keys that exist already, or occur twice in the chunk, are handled one by one, in the given
order. If a key is taken between our read and our INSERT, the read is repeated. Tokens of ``once`` are taken before, and
are told their messages after, by one statement each for a chunk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from django.db import IntegrityError

from django_dbqueue import conf, hooks
from django_dbqueue.databases.statement import MAX_IDS, LanePlace, Statement, chunks
from django_dbqueue.envelope import Envelope, Sealed, in_inserts, seal
from django_dbqueue.exceptions import DBQueueError, DuplicateKey, InvalidMessage
from django_dbqueue.lanes import lane_moves, lanes_sql
from django_dbqueue.lifecycle import once_tokens
from django_dbqueue.lifecycle.enqueue import (
    TRIES,
    OnConflict,
    check_on_conflict,
    due_moment,
    notify,
    overwrite,
    with_aware_moment,
)
from django_dbqueue.lifecycle.hydration import hydrate
from django_dbqueue.sessions.django_session import DjangoSession, MessageType
from django_dbqueue.sessions.retry import is_duplicate
from django_dbqueue.statements import enqueue_sql
from django_dbqueue.statements.message_columns import MESSAGE_COLUMNS, columns_of

Ids = dict[str, int]
"""By the hash of its token, the message of each item that has one."""


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
    store = partial(_enqueue_all, model, session, queue, on_conflict)
    report: EnqueueReport = (
        store(items) if hooks.active is None else hooks.active.send_many(items, queue, session.using, store)
    )
    return report


def _enqueue_all(
    model: MessageType, session: DjangoSession, queue: str, on_conflict: OnConflict, items: Iterable[object]
) -> EnqueueReport:
    counts = {"created": 0, "updated": 0, "ignored": 0}

    def store() -> EnqueueReport:
        counts.update(created=0, updated=0, ignored=0)
        with session.transaction():
            for chunk in in_inserts(sealed_for(items, queue), rows=session.server.rows_of_an_insert):
                _store_chunk(model, session, chunk, on_conflict, counts)
            notify(session, queue, counts["created"] + counts["updated"])
        return EnqueueReport(**counts)

    if isinstance(items, list | tuple):
        return session.outermost(store)
    return store()  # an iterator can't be read twice, so retrying after an error midway is up to the caller


def sealed_for(items: Iterable[object], queue: str) -> Iterable[Sealed]:
    defaults = conf.for_senders(queue)._asdict()
    plain: Sealed | None = None
    for index, item in enumerate(items):
        try:
            if isinstance(item, Envelope):
                sealed = seal(with_aware_moment(item), queue=queue, **defaults)
            elif plain is None:
                sealed = plain = seal(Envelope(item), queue=queue, **defaults)
            else:
                sealed = plain.with_payload(item, max_bytes=defaults["max_bytes"])
        except InvalidMessage as error:
            key = f" (key {item.key!r})" if isinstance(item, Envelope) and item.key is not None else ""
            raise InvalidMessage(f"Item {index}{key}: {error} Nothing was enqueued.") from error
        yield sealed


def _store_chunk(
    model: MessageType, session: DjangoSession, chunk: list[Sealed], on_conflict: OnConflict, counts: dict[str, int]
) -> None:
    """Insert a chunk; handle keys that exist already, or occur twice in it, one by one, in the given order."""
    pending, ids = _without_known(session, chunk, counts), Ids()
    for _ in range(TRIES):
        if pending:
            pending = _insert_new(model, session, pending, on_conflict, counts, ids)
        if not pending:
            if ids:
                once_tokens.name(session, ids)
            return
    raise DBQueueError(f"Keys of queue {chunk[0].queue!r} changed hands {TRIES} times during enqueue_many: try again.")


def _without_known(session: DjangoSession, chunk: list[Sealed], counts: dict[str, int]) -> list[Sealed]:
    """Take the tokens of a chunk; return the items without those whose token is taken, or occurs before them."""
    tokens = [item.once for item in chunk if item.once is not None]
    if not tokens:
        return chunk
    known, new = set(once_tokens.take(session, tokens)), []
    for item in chunk:
        if item.once is None:
            new.append(item)
        elif item.once.hash in known:
            counts["ignored"] += 1
        else:
            known.add(item.once.hash)
            new.append(item)
    return new


def _insert_new(
    model: MessageType,
    session: DjangoSession,
    chunk: list[Sealed],
    on_conflict: OnConflict,
    counts: dict[str, int],
    ids: Ids,
) -> list[Sealed]:
    """Handle the keys that exist, insert the others; return what has to be checked again."""
    live = _live_ids(session, [item.key_hash for item in chunk if item.key_hash is not None])
    first: set[str] = set()
    new, again = [], []
    for item in chunk:
        if item.key_hash is None or (item.key_hash not in live and item.key_hash not in first):
            new.append(item)
            first.add(item.key_hash or "")
        elif item.key_hash in first:
            again.append(item)
        elif on_conflict == "error":
            raise DuplicateKey(item.queue, item.key)
        else:
            if item.once is not None:
                ids[item.once.hash] = live[item.key_hash]
            changed = on_conflict == "update" and _overwrite_live(model, session, item)
            counts["updated" if changed else "ignored"] += 1
    refused: list[Sealed] = []
    if loose := [item for item in new if item.lane is None]:
        refused += _insert_rows(session, loose, ids)
    if in_lanes := [item for item in new if item.lane is not None]:
        refused += _insert_into_lanes(session, in_lanes, ids)
    counts["created"] += len(new) - len(refused)
    return [*refused, *again]


def _live_ids(session: DjangoSession, hashes: list[str]) -> dict[str, int]:
    """Return the ids of the live messages that have these keys, by the keys' hashes."""
    found: dict[str, int] = {}
    server = session.server
    for part in chunks(hashes, MAX_IDS):
        key, number = map(MESSAGE_COLUMNS.index, ("key_hash", "id"))
        found.update((row[key], row[number]) for row in session.fetch(enqueue_sql.live_by_hash(server, part)))
    return found


def _overwrite_live(model: MessageType, session: DjangoSession, item: Sealed) -> bool:
    rows = session.fetch(enqueue_sql.live_by_hash(session.server, [item.key_hash or ""]))
    return bool(rows) and overwrite(session, hydrate(model, session.using, rows[0]), item)


def _insert_rows(session: DjangoSession, items: list[Sealed], ids: Ids) -> list[Sealed]:
    """Insert with one statement; return the items that were not inserted because their key was taken meanwhile."""
    server = session.server
    if not server.returns_rows:
        return [] if _is_inserted(lambda: _insert_range(session, items, ids)) else items
    keyed = [item for item in items if item.key_hash is not None]
    has_tokens = any(item.once is not None for item in items)
    if not keyed and not has_tokens:
        session.run(insert_of(session, items))
        return []
    returning = "key_hash, id" if has_tokens else "key_hash"
    rows = session.fetch(insert_of(session, items, returning=returning, ignore=True))
    if has_tokens:
        ids.update(_ids(items, rows))
    stored = {row[0] for row in rows}
    return [item for item in keyed if item.key_hash not in stored]


def _insert_into_lanes(session: DjangoSession, items: list[Sealed], ids: Ids) -> list[Sealed]:
    """Do the same for messages of groups, and put what was inserted into its lines."""
    server, queue = session.server, items[0].queue
    lane_moves.refuse_without_commit(session)
    if not server.returns_rows:
        return [] if _is_inserted(lambda: _enter_range(session, items, ids)) else items
    rows = session.fetch(insert_of(session, items, returning="key_hash, lane, id", ignore=True))
    ids.update(_ids(items, [(key_hash, number) for key_hash, _, number in rows]))
    stored = {key_hash for key_hash, *_ in rows}
    if rows:
        lane_moves.enter(session, [LanePlace(lane, number, queue) for _, lane, number in rows])
    return [item for item in items if item.key_hash is not None and item.key_hash not in stored]


def _enter_range(session: DjangoSession, items: list[Sealed], ids: Ids) -> None:
    first = _insert_range(session, items, ids)
    session.run(lanes_sql.enter_range(session.server, first, len(items)))
    lane_moves.kick_after_commit(session, {item.lane: item.queue for item in items if item.lane is not None})


def _insert_range(session: DjangoSession, items: list[Sealed], ids: Ids) -> int:
    """Insert where the server tells only the first id; a VALUES list has consecutive ones."""
    first = session.insert(insert_of(session, items))
    if any(item.once is not None for item in items):
        [(step,)] = session.fetch(enqueue_sql.id_step())
        ids.update(_ids(items, [(item.key_hash, first + place * step) for place, item in enumerate(items)]))
    return first


def _ids(items: Sequence[Sealed], rows: Iterable[tuple[str | None, int]]) -> Iterator[tuple[str, int]]:
    """Return the tokens of what was inserted, and its ids; rows are key hash and id.

    Those without a key were all inserted, and have ascending ids in the order of the items.
    """
    by_key: dict[str, int] = {}
    others = []
    for key_hash, number in rows:
        if key_hash is None:
            others.append(number)
        else:
            by_key[key_hash] = number
    rising = iter(sorted(others))
    for item in items:
        if item.key_hash is None:
            number = next(rising)
        elif item.key_hash in by_key:
            number = by_key[item.key_hash]
        else:
            continue
        if item.once is not None:
            yield item.once.hash, number


def _is_inserted(insert: Callable[[], object]) -> bool:
    """Insert; return False, with nothing inserted, if one of the keys was taken meanwhile."""
    try:
        insert()
    except IntegrityError as error:
        if not is_duplicate(error):
            raise
        return False
    return True


def insert_of(
    session: DjangoSession,
    items: list[Sealed],
    *,
    returning: str = "",
    ignore: bool = False,
    parked: bool = False,
    flow: int | None = None,
) -> Statement:
    """Return the INSERT of these items; ``parked``: they wait, as those of groups do anyway."""
    columns = columns_of(items)
    if flow is not None:
        columns["flow"] = [flow] * len(items)
    delays = [item.delay for item in items]
    moments = [due_moment(session, item) for item in items]
    return enqueue_sql.insert_many(
        session.server, columns, delays, moments, returning=returning, ignore=ignore, parked=parked
    )
