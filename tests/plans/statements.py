"""The queue's statements by what they do, made by the builders that ``lifecycle/`` calls, for rows of a crowd."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import connection

from django_dbqueue.claims import claims_sql
from django_dbqueue.claims.claim_rows import Terms, first_statement
from django_dbqueue.databases import Claim, Statement
from django_dbqueue.databases.moments import as_text, to_column
from django_dbqueue.databases.statement import MAX_IDS
from django_dbqueue.envelope import Envelope, seal
from django_dbqueue.flows import flow_parts_sql
from django_dbqueue.insight import statistics_sql
from django_dbqueue.insight.statistics_sql import Stretch
from django_dbqueue.keys import key_hash
from django_dbqueue.lanes import lanes_sql
from django_dbqueue.lifecycle import archive_sql
from django_dbqueue.lifecycle.archive_sql import Behind
from django_dbqueue.models import Message
from django_dbqueue.operations import bulk_sql
from django_dbqueue.operations.verbs import VERBS
from django_dbqueue.statements import enqueue_sql, events_sql, moves_sql
from django_dbqueue.statements.message_columns import MESSAGE_COLUMNS
from django_dbqueue.states.ranges_in_use import next_priority, next_queue
from django_dbqueue.statuses import DONE, NEW, RUNNING
from django_dbqueue.streams import stream_messages_sql
from django_dbqueue.streams.stream_claimer import FOUND
from django_dbqueue.worker import idle_poll_sql
from django_dbqueue.worker.idle_poll_sql import EXPIRED, READY
from tests.plans import crowd

LIMIT = 10
BEYOND_ALL = 10**12
"""An id that no row of a crowd has."""


@dataclass(frozen=True, slots=True)
class Table:
    """``ids`` of ready rows in claim order, ``mark`` at the fifth; ``running`` ones as their holder has them."""

    is_large: bool
    ids: list[int]
    mark: tuple[Any, int]
    mark_in_backlog: tuple[Any, int]
    running: list[Claim]
    finished: list[int]
    dead: list[int]


def table_of_crowd(*, is_large: bool) -> Table:
    ready = list(Message.objects.ready(crowd.QUEUE).order_by("available_at", "id"))
    backlog = list(Message.objects.ready(crowd.BACKLOG).order_by("id").only("id")[:1000])
    running = Message.objects.running(crowd.QUEUE).filter(priority=0).order_by("id")[:MAX_IDS]
    return Table(
        is_large,
        ids=[message.pk for message in ready],
        mark=_mark(ready[4]),
        mark_in_backlog=_mark(backlog[len(backlog) // 2]) if backlog else _mark(ready[4]),
        running=[message.claim for message in running],
        finished=list(Message.objects.done(crowd.QUEUE).order_by("id").values_list("id", flat=True)[:LIMIT]),
        dead=list(Message.objects.dead(crowd.QUEUE).order_by("id").values_list("id", flat=True)[:LIMIT]),
    )


def _mark(message: Message) -> tuple[Any, int]:
    """As a claim would remember it."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT available_at, id FROM {Message._meta.db_table} WHERE id = %s", [message.pk])
        available_at, message_id = cursor.fetchone()
    return available_at, message_id


Build = Callable[[Any, Table], Statement]


def claim_from(server: Any, queue: str, limit: int, mark: tuple[Any, int] | None) -> Statement:
    terms = Terms(token=1, worker_id=1, lease=60.0, max_reads=5)
    return first_statement(server, queue, 0, limit, mark, terms)


def _hours_ago(hours: float) -> Any:
    return to_column(datetime.now(UTC) - timedelta(hours=hours), connection.vendor)


RANGES: dict[str, Build] = {
    "count what was done": lambda d, _: statistics_sql.done_within(
        d, crowd.QUEUE, 0, Stretch(_hours_ago(25), _hours_ago(-1)), LIMIT
    ),
    "count what was done in one moment": lambda d, _: statistics_sql.done_within(
        d, crowd.QUEUE, 0, Stretch(_hours_ago(25), _hours_ago(-1), 1), LIMIT
    ),
    "claim": lambda d, _: claim_from(d, crowd.QUEUE, LIMIT, None),
    "claim behind the mark": lambda d, t: claim_from(d, crowd.QUEUE, LIMIT, t.mark),
    "claim from a backlog": lambda d, _: claim_from(d, crowd.BACKLOG, LIMIT, None),
    "claim from a backlog behind a mark": lambda d, t: claim_from(d, crowd.BACKLOG, LIMIT, t.mark_in_backlog),
    "claim of what is delayed": lambda d, _: claims_sql.due(d, MESSAGE_COLUMNS, crowd.QUEUE, NEW, 9, LIMIT),
    "claim from a queue that isn't there": lambda d, _: claim_from(d, "nothing", LIMIT, None),
    "claim for a stream": lambda d, _: claims_sql.due(d, FOUND, crowd.QUEUE, NEW, 0, LIMIT),
    "claim for a stream behind the mark": lambda d, t: claims_sql.due(d, FOUND, crowd.QUEUE, NEW, 0, LIMIT, t.mark),
    "claim for a stream until a moment": lambda d, t: claims_sql.due(
        d, FOUND, crowd.BACKLOG, NEW, 0, LIMIT, t.mark_in_backlog, until=t.mark_in_backlog[0]
    ),
    "rescue": lambda d, _: claims_sql.due(d, ("id",), crowd.QUEUE, RUNNING, 0, LIMIT),
    "rescue of what runs in time": lambda d, _: claims_sql.due(d, ("id",), crowd.QUEUE, RUNNING, 9, LIMIT),
    "rescue, but what was just taken": lambda d, _: claims_sql.due(
        d, ("id",), crowd.QUEUE, RUNNING, 0, LIMIT, but_token=crowd.TOKEN + 1
    ),
    "archive": lambda d, _: archive_sql.finished(d, crowd.QUEUE, 0, 60.0, LIMIT),
    "archive behind what stays": lambda d, _: archive_sql.finished(
        d, crowd.QUEUE, 0, 60.0, LIMIT, behind=Behind(as_text(_hours_ago(12)), 1)
    ),
    "archive of what is too young": lambda d, _: archive_sql.finished(d, crowd.QUEUE, 0, 90_000.0, LIMIT),
    "count of what is too young": lambda d, _: archive_sql.count_finished(d, crowd.QUEUE, 0, 90_000.0),
    "look at the dead": lambda d, _: archive_sql.dead_behind(d, crowd.QUEUE, 0, 0, 60.0, LIMIT),
    "look at more of the dead": lambda d, t: archive_sql.dead_behind(d, crowd.QUEUE, 0, t.dead[0], 60.0, LIMIT),
}
PROBES: dict[str, Build] = {
    "first that was done from a moment on": lambda d, _: statistics_sql.first_ends(
        d, [(crowd.QUEUE, 0)], _hours_ago(25)
    ),
    "none that was done from a moment on": lambda d, _: statistics_sql.first_ends(
        d, [(crowd.QUEUE, 0)], _hours_ago(-1)
    ),
    "highest priority": lambda d, _: next_priority(d, crowd.QUEUE, NEW, 32_767),
    "next priority": lambda d, _: next_priority(d, crowd.QUEUE, NEW, 9),
    "highest priority that runs": lambda d, _: next_priority(d, crowd.QUEUE, RUNNING, 32_767),
    "highest priority that is done": lambda d, _: next_priority(d, crowd.QUEUE, DONE, 32_767),
    "no lower priority": lambda d, _: next_priority(d, crowd.QUEUE, DONE, 0),
    "is something ready at a priority that is new": lambda d, _: idle_poll_sql.together(
        [*idle_poll_sql.due(d, READY, crowd.QUEUE, [])]
    ),
    "does a lease end at a priority that is new": lambda d, _: idle_poll_sql.together(
        [*idle_poll_sql.due(d, EXPIRED, crowd.QUEUE, [])]
    ),
    "first queue": lambda d, _: next_queue(d, ""),
    "next queue": lambda d, _: next_queue(d, crowd.QUEUE),
}


def take_ids(server: Any, ids: list[int]) -> Statement:
    change = claims_sql.take(server, token=1, worker_id=1, session=1, lease=60.0, max_reads=5, now=None)
    return claims_sql.take_ids(server, ids, change)


def _of_stage(server: Any, verb: str, ids: list[int]) -> Statement:
    named = server.id_in(ids)
    return Statement(f"{named.sql} AND {VERBS[verb].stage_fence}", named.params)


def _park(server: Any, among: Statement) -> Statement:
    change = claims_sql.take(server, token=1, worker_id=None, session=1, lease=60.0, max_reads=5, now=None, parks=True)
    return moves_sql.move(server, change, stream_messages_sql.waiting(among))


def _ack(server: Any, among: Statement) -> Statement:
    return moves_sql.move(server, moves_sql.ack(server), stream_messages_sql.held_in_claim(among, 1))


BY_ID: dict[str, Build] = {
    "park for a stream": lambda d, t: _park(d, stream_messages_sql.named(t.ids)),
    "park a range for a stream": lambda d, t: _park(d, stream_messages_sql.between(t.ids[0], t.ids[-1])),
    "ack of a stream": lambda d, t: _ack(d, stream_messages_sql.named([claim.id for claim in t.running[:LIMIT]])),
    "ack of a range of a stream": lambda d, t: _ack(d, stream_messages_sql.between(t.ids[0], t.ids[-1])),
    "read for a stream": lambda d, t: stream_messages_sql.delivered(d, "id", stream_messages_sql.named(t.ids), 1),
    "read of a range for a stream": lambda d, t: stream_messages_sql.delivered(
        d, "id", stream_messages_sql.between(t.ids[0], t.ids[-1]), 1
    ),
    "lock what a stream holds": lambda d, t: stream_messages_sql.parked(d, stream_messages_sql.named(t.ids), 1),
    "take": lambda d, t: take_ids(d, t.ids),
    "ack": lambda d, t: moves_sql.settle(d, moves_sql.ack(d), t.running[:1]),
    "ack of a batch": lambda d, t: moves_sql.settle(d, moves_sql.ack(d), t.running[:LIMIT]),
    "ack of claims under their own tokens": lambda d, t: moves_sql.settle(
        d, moves_sql.ack(d), [Claim(claim.id, place + 1) for place, claim in enumerate(t.running[:LIMIT])]
    ),
    "ack, and say which": lambda d, t: moves_sql.settle(
        d, moves_sql.ack(d), t.running[:LIMIT], returning=d.returns_rows
    ),
    "lock what is held": lambda d, t: moves_sql.lock(d, moves_sql.held(d, t.running[:LIMIT])),
    "lock what is held and free": lambda d, t: moves_sql.lock(
        d, moves_sql.held(d, t.running[:LIMIT]), skip_locked=True
    ),
    "requeue": lambda d, t: moves_sql.move(d, moves_sql.requeue(d), _of_stage(d, "requeue", [t.running[0].id])),
    "into another queue": lambda d, t: moves_sql.move(
        d,
        moves_sql.into(d, "there", "0" * 64, None, None, is_dead=False, actor="ann"),
        _of_stage(d, "move", t.ids[:1]),
    ),
    "lock what an operator has seen": lambda d, t: bulk_sql.lock_seen(
        d, d.id_in(t.ids[:LIMIT]), VERBS["due-now"].fence(d), skip_locked=False
    ),
    "due now": lambda d, t: moves_sql.move(
        d,
        moves_sql.due_now(d),
        _of_stage(d, "due-now", t.ids[:1]),
    ),
    "record of failures": lambda d, t: events_sql.record(
        d, moves_sql.nack(d, 5.0, "no").event, moves_sql.held(d, t.running[:LIMIT])
    ),
    "record of failures under their own tokens": lambda d, t: events_sql.record(
        d,
        moves_sql.nack(d, 5.0, "no").event,
        moves_sql.held(d, [Claim(claim.id, n + 1) for n, claim in enumerate(t.running[:LIMIT])]),
    ),
    "record of what an operator does": lambda d, t: events_sql.record(
        d,
        moves_sql.requeue(d, actor="ann").event,
        _of_stage(d, "requeue", [t.running[0].id]),
    ),
    "record of what a stream gives back": lambda d, t: events_sql.record(
        d,
        moves_sql.rescue(d, "over").event,
        stream_messages_sql.held_in_claim(stream_messages_sql.between(t.ids[0], t.ids[-1]), 1),
    ),
    "ack that removes": lambda d, t: moves_sql.settle(d, moves_sql.remove(), t.running[:1]),
    "ack that removes a batch": lambda d, t: moves_sql.settle(d, moves_sql.remove(), t.running[:LIMIT]),
    "ack that removes claims under their own tokens": lambda d, t: moves_sql.settle(
        d, moves_sql.remove(), [Claim(claim.id, place + 1) for place, claim in enumerate(t.running[:LIMIT])]
    ),
    "ack that removes, and say which": lambda d, t: moves_sql.settle(
        d, moves_sql.remove(), t.running[:LIMIT], returning=d.returns_rows
    ),
    "states": lambda d, t: moves_sql.states(d, t.ids),
    "ties of what is held": lambda d, t: moves_sql.ties(d, moves_sql.held(d, t.running[:LIMIT])),
    "lanes of what is held": lambda d, t: lanes_sql.places(d, moves_sql.held(d, t.running[:LIMIT])),
    "lock the dead of some": lambda d, t: moves_sql.lock(d, moves_sql.dead_of(d, t.ids)),
    "those of some that are not done": lambda d, t: moves_sql.lock(d, flow_parts_sql.not_done(d, t.ids)),
    "one body": lambda d, t: moves_sql.read_body(d, t.running[0]),
    "into lines, this transaction's own": lambda d, _: lanes_sql.enter_after(d, BEYOND_ALL),
    "overwrite": lambda d, t: enqueue_sql.overwrite(
        d, t.ids[0], seal(Envelope({}), queue="q", priority=0, max_bytes=9), None
    ),
    "lock what is finished": lambda d, t: archive_sql.lock_finished(d, t.finished),
    "lock what is dead": lambda d, t: archive_sql.lock_dead(d, t.dead, 60.0),
    "copy to the archive": lambda d, t: archive_sql.copy_to_archive(d, t.finished),
    "delete": lambda d, t: d.delete_each(d.message, ("id",), [(each,) for each in t.finished]),
}
if connection.vendor == "mysql":  # which tells only the first id of an INSERT
    BY_ID["into lines, those of one INSERT"] = lambda d, t: lanes_sql.enter_range(d, t.ids[0], LIMIT)
BY_KEY: dict[str, Build] = {
    "live row of a key": lambda d, _: enqueue_sql.live_by_hash(d, [key_hash(crowd.QUEUE, crowd.KEY)]),
    "live rows of keys": lambda d, _: enqueue_sql.live_by_hash(d, [key_hash(crowd.QUEUE, f"k{n}") for n in range(20)]),
}
