"""How the messages of a flow come into the queue, with their edges, in the transaction of the sender."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Final, NamedTuple

from django.db import IntegrityError

from django_dbqueue.databases.statement import MAX_IDS, Claim, LanePlace, Row, Statement, chunks
from django_dbqueue.envelope import Envelope, Sealed, check_queue, in_inserts
from django_dbqueue.exceptions import DuplicateKey, InvalidFlow, LeaseLost
from django_dbqueue.failures.error_texts import error_text
from django_dbqueue.flows import flow_parts_sql
from django_dbqueue.lanes import lane_moves
from django_dbqueue.lifecycle import flows_sql, moves, results_sql
from django_dbqueue.lifecycle.enqueue import notify
from django_dbqueue.lifecycle.enqueue_many import insert_of, sealed_for
from django_dbqueue.lifecycle.flows_sql import WHEN_DEAD, WHEN_DONE, WHEN_FINISHED
from django_dbqueue.sessions.django_session import DjangoSession
from django_dbqueue.sessions.retry import is_duplicate
from django_dbqueue.statements import enqueue_sql, moves_sql
from django_dbqueue.statements.message_columns import MESSAGE_COLUMNS

WHENS: Final = (WHEN_DONE, WHEN_DEAD, WHEN_FINISHED)
MOST_EDGES: Final = 100_000
"""Edges that one call writes."""
AT_ONCE: Final = 1_000
MOST_PARTS: Final = 10_000_000
MOST_OF_A_PART: Final = 500
"""Messages of a part, of which a page counts all or none."""
MOST_IN_A_RANGE: Final = 10_000
"""Messages whose edges one statement writes, if their ids follow each other."""
RANGES_AT_ONCE: Final = 100
"""Ranges of ids in one statement."""
GAP: Final = 100
"""Ids between two parts that are read as one range."""


class Part(NamedTuple):
    """Messages that were put into a flow together: those of the flow in these ranges of ids."""

    flow: int
    ranges: tuple[tuple[int, int], ...]
    messages: int
    """How many they are."""

    @property
    def first(self) -> int:
        """The lowest id."""
        return self.ranges[0][0]


def put(
    session: DjangoSession,
    flow: int,
    items: Iterable[object],
    *,
    queue: str,
    parked: bool = False,
    parent: int | None = None,
) -> Part:
    """Insert messages of a flow in the caller's transaction.

    ``parked``: they wait for others, and get their edges; ``parent``: the message that spawned them.
    """
    written: list[tuple[int, int, int]] = []
    sealed = _checked(sealed_for(items, check_queue(queue)))
    for chunk in in_inserts(sealed, rows=session.server.rows_of_an_insert):
        for same in ([each for each in chunk if each.lane is None], [each for each in chunk if each.lane is not None]):
            if not same:
                continue
            for first, last, messages in _insert(session, flow, same, parked=parked, is_shared=parent is not None):
                written.append((first, last, messages))
                if not parked and same[0].lane is not None:
                    _enter(session, flow, (first, last), queue)
    for first, last, messages in _joined(written, most=MOST_OF_A_PART):
        session.run(flows_sql.add_part(session.server, flow, first, last, messages, parent))
    count = sum(messages for *_, messages in written)
    if not parked:
        notify(session, queue, count)
    return Part(flow, tuple((first, last) for first, last, _ in _joined(written, most=MOST_IN_A_RANGE)), count)


def _joined(written: Iterable[tuple[int, int, int]], *, most: int) -> list[tuple[int, int, int]]:
    """Join adjacent ranges of ids, given as first, last and messages, into ranges of at most ``most`` messages."""
    joined: list[tuple[int, int, int]] = []
    for first, last, messages in written:
        if joined and first == joined[-1][1] + 1 and joined[-1][2] + messages <= most:
            joined[-1] = (joined[-1][0], last, joined[-1][2] + messages)
        else:
            joined.append((first, last, messages))
    return joined


def _checked(items: Iterable[Sealed]) -> Iterator[Sealed]:
    for item in items:
        if item.once is not None:
            raise InvalidFlow(
                "a message of a flow can't have a token of once: if it were ignored, those after it would wait for "
                "another flow's message. Use once, or a key, for what sends the flow."
            )
        yield item


def _insert(
    session: DjangoSession, flow: int, items: list[Sealed], *, parked: bool, is_shared: bool
) -> list[tuple[int, int, int]]:
    """Insert with one statement; return ranges of ids in which no other message of the flow is, and how many have each.

    ``is_shared``: others may put messages into the same flow. DuplicateKey if a live message has a key.
    """
    if any(item.lane is not None for item in items):
        lane_moves.refuse_without_commit(session)
    has_keys = any(item.key is not None for item in items)
    if session.server.returns_rows:
        rows = session.fetch(insert_of(session, items, returning="id", ignore=has_keys, parked=parked, flow=flow))
        if len(rows) < len(items):
            raise DuplicateKey(items[0].queue, _first_live_key(session, items), in_flow=True)
        ids = sorted(row[0] for row in rows)
        if not (is_shared and session.server.ids_interleave):
            return [(ids[0], ids[-1], len(ids))]
        return _joined([(each, each, 1) for each in ids], most=len(ids))
    try:
        first = session.insert(insert_of(session, items, parked=parked, flow=flow))
    except IntegrityError as error:
        if not is_duplicate(error):
            raise
        raise DuplicateKey(items[0].queue, _first_live_key(session, items), in_flow=True) from error
    [(step,)] = session.fetch(enqueue_sql.id_step())
    return [(first, first + (len(items) - 1) * step, len(items))]


def _first_live_key(session: DjangoSession, items: list[Sealed]) -> str | None:
    """Return the first key that a live message has, or that occurs twice."""
    hashes = [item.key_hash for item in items if item.key_hash is not None]
    where = MESSAGE_COLUMNS.index("key_hash")
    known = {row[where] for row in session.fetch(enqueue_sql.live_by_hash(session.server, hashes))}
    return next((item.key for item in items if item.key_hash in known), None)


def _enter(session: DjangoSession, flow: int, ids: tuple[int, int], queue: str) -> None:
    where = Statement("id BETWEEN %s AND %s AND flow = %s", (*ids, flow))
    ties = moves.ties_of(session, where)
    lane_moves.enter(session, [LanePlace(tie.lane, tie.id, queue) for tie in ties if tie.lane is not None])


def connect(session: DjangoSession, later: Part, earlier: Iterable[Part], *, when: str) -> None:
    """Let each message of a part wait for each of others, in the transaction that wrote them.

    InvalidFlow if some of these are not there: a savepoint of theirs was rolled back. On SQLite the messages that were
    written now may have their ids.
    """
    earlier, edges = list(earlier), 0
    for ids in later.ranges:
        session.run(flows_sql.add_gates(session.server, later.flow, *ids, when))
        for others in {pair: None for part in earlier for pair in part.ranges}:
            edges += session.run(flows_sql.add_edges(session.server, later.flow, ids, others, when))
    is_itself = any(
        first <= ids[1] and ids[0] <= last for ids in later.ranges for p in earlier for first, last in p.ranges
    )
    if is_itself or edges < later.messages * sum(part.messages for part in earlier):
        raise InvalidFlow(
            "after names messages that are not there: what wrote them was rolled back, as in an atomic() block that "
            "raised. Put them into the flow again, and use what that returns."
        )


def check_edges(flow: int, count: int, after: Iterable[Part], when: str) -> list[Part]:
    """Return the parts that are waited for; InvalidFlow says what is wrong with them."""
    parts = list(dict.fromkeys(after))
    if when not in WHENS:
        raise InvalidFlow(f"when must be one of {', '.join(WHENS)}, not {when!r}.")
    for part in parts:
        if part.flow != flow:
            raise InvalidFlow(
                f"after names messages of flow #{part.flow}, but this is flow #{flow}: a message waits for those of "
                "its own flow. Put both into one flow, or let the last of the other one send this one."
            )
    edges = count * sum(part.messages for part in parts)
    if edges > MOST_EDGES:
        raise InvalidFlow(
            f"{count:,} messages after {edges // count:,} are {edges:,} edges, but {MOST_EDGES:,} at most are written "
            "at once: put one message in between that waits for all of these, and let those wait for it."
        )
    return parts


def check_many(verb: str, items: object) -> None:
    """Raise InvalidFlow for a single payload, whose parts would become messages."""
    if isinstance(items, str | bytes | bytearray | memoryview | Mapping | Envelope):
        raise InvalidFlow(
            f"{verb}_many() takes an iterable of payloads or envelopes, not a single {type(items).__name__}: use "
            f"{verb}(), or put it into a list."
        )


def spawn(session: DjangoSession, claim: Claim, flow: int, items: Iterable[object], *, queue: str) -> Part:
    """Add children to a flow: who waits for this message waits for them too. LeaseLost if the claim is lost.

    The message's row is locked, so it can't end before its children are there.
    """
    items = list(items)  # a deadlock runs it again, and an iterator can't be read twice

    def work() -> Part:
        with session.transaction():
            if not session.fetch(moves_sql.lock(session.server, moves_sql.held(session.server, [claim]))):
                raise LeaseLost(claim.id, "spawn")
            children = put(session, flow, items, queue=queue, parent=claim.id)
            edges = 0
            for ids in children.ranges:
                edges += session.run(flows_sql.add_children(session.server, claim.id, flow, *ids))
                if edges > MOST_EDGES:
                    raise InvalidFlow(
                        f"message {claim.id} can't spawn {children.messages:,} children: each that waits for it would "
                        f"wait for each of them, by more than the {MOST_EDGES:,} edges that are written at once. Let "
                        "one message wait for this one, and the others for that."
                    )
            return children

    return session.outermost(work)


def results_of(session: DjangoSession, flow: int, ranges: Iterable[tuple[int, int]]) -> list[Row]:
    """Read what messages of a flow in these ranges, and their children, returned: id, body, content type, types."""
    of_children = session.fetch(flow_parts_sql.parts_of_children(session.server, flow))
    known, new = dict[tuple[int, int], None](), list(ranges)
    while new:
        known |= dict.fromkeys(new)
        children = [(first, last) for parent, first, last in of_children if _is_in(parent, new)]
        new = [pair for pair in children if pair not in known]
    rows = {row for pair in known for row in session.fetch(results_sql.of_flow(session.server, flow, *pair))}
    return sorted(rows)


def _is_in(number: int, ranges: Iterable[tuple[int, int]]) -> bool:
    return any(first <= number <= last for first, last in ranges)


def total_of(session: DjangoSession, flow: int) -> int:
    """Return how many messages were put into a flow."""
    [(total,)] = session.fetch(flow_parts_sql.total(session.server, flow))
    return int(total or 0)


def ranges_of(session: DjangoSession, flow: int, *, most: int | None = None) -> tuple[int, list[list[tuple[int, int]]]]:
    """Return the number of a flow's messages, and the ranges of their ids, in lists that fit one statement.

    ``most``: stop before there are more messages than that, but not before the first part.
    """
    counted, ranges = 0, list[tuple[int, int]]()
    for first, last, messages in session.fetch(
        flow_parts_sql.parts(session.server, flow, MOST_PARTS if most is None else most)
    ):
        if most is not None and counted and counted + messages > most:
            break
        counted += messages
        if ranges and first - ranges[-1][1] <= GAP:
            ranges[-1] = (ranges[-1][0], max(last, ranges[-1][1]))
        else:
            ranges.append((first, last))
    return counted, list(chunks(ranges, RANGES_AT_ONCE))


def cancel(session: DjangoSession, flow: int, *, reason: str, actor: str | None) -> int:
    """Drop all messages of a flow that are not done; return how many.

    Those that wait go first, the last before those that it waits for: else the end of the others would let them run.
    """
    dropped = 0
    for some_of in (flow_parts_sql.last_parked, flow_parts_sql.unfinished):
        while some := _first_found(session, flow, some_of):
            dropped += session.outermost(partial(_drop, session, some, reason, actor))
    return dropped


def is_unfinished(session: DjangoSession, flow: int) -> bool:
    """Return whether a message of a flow is not done."""
    return bool(_first_found(session, flow, flow_parts_sql.unfinished))


def _first_found(session: DjangoSession, flow: int, some_of: Callable[..., Statement]) -> list[int]:
    for ranges in reversed(ranges_of(session, flow)[1]):
        some = some_of(session.server, flow, ranges, min(AT_ONCE, MAX_IDS))
        if lane_moves.sees_the_past(session):  # where a plain read finds what has been dropped again and again
            some = Statement(f"{some.sql}{session.server.lock_row}", some.params)
        if rows := session.outermost(partial(session.fetch, some)):
            return sorted(row[0] for row in rows)
    return []


def _drop(session: DjangoSession, ids: list[int], reason: str, actor: str | None) -> int:
    text = error_text(f"Dropped by {actor}: {reason}" if actor else f"Dropped: {reason}") or ""
    change = moves_sql.drop(session.server, text, actor=actor, cancels=True)
    return moves.move(session, change, flow_parts_sql.not_done(session.server, ids))
