"""The queue's statements by what they do, made by the builders that ``lifecycle/`` calls, for rows of a crowd."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import connection

from django_dbqueue.databases import Claim, Statement
from django_dbqueue.databases.archive_sql import Behind
from django_dbqueue.databases.lookout_sql import EXPIRED, READY
from django_dbqueue.databases.moments import as_text, to_column
from django_dbqueue.databases.statements import MAX_IDS, MESSAGE_COLUMNS
from django_dbqueue.databases.statistics_sql import Stretch
from django_dbqueue.keys import key_hash
from django_dbqueue.lifecycle.claim_rows import Terms, first_statement
from django_dbqueue.models import Message
from django_dbqueue.operations.verbs import VERBS
from django_dbqueue.statuses import DONE, NEW, RUNNING
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


def claim_from(dialect: Any, queue: str, limit: int, mark: tuple[Any, int] | None) -> Statement:
    terms = Terms(token=1, worker_id=1, lease=60.0, max_reads=5)
    return first_statement(dialect, queue, 0, limit, mark, terms)


def _hours_ago(hours: float) -> Any:
    return to_column(datetime.now(UTC) - timedelta(hours=hours), connection.vendor)


RANGES: dict[str, Build] = {
    "count what was done": lambda d, _: d.statistics.done_within(
        crowd.QUEUE, 0, Stretch(_hours_ago(25), _hours_ago(-1)), LIMIT
    ),
    "count what was done in one moment": lambda d, _: d.statistics.done_within(
        crowd.QUEUE, 0, Stretch(_hours_ago(25), _hours_ago(-1), 1), LIMIT
    ),
    "claim": lambda d, _: claim_from(d, crowd.QUEUE, LIMIT, None),
    "claim behind the mark": lambda d, t: claim_from(d, crowd.QUEUE, LIMIT, t.mark),
    "claim from a backlog": lambda d, _: claim_from(d, crowd.BACKLOG, LIMIT, None),
    "claim from a backlog behind a mark": lambda d, t: claim_from(d, crowd.BACKLOG, LIMIT, t.mark_in_backlog),
    "claim of what is delayed": lambda d, _: d.claims.due(MESSAGE_COLUMNS, crowd.QUEUE, NEW, 9, LIMIT),
    "claim from a queue that isn't there": lambda d, _: claim_from(d, "nothing", LIMIT, None),
    "claim for a stream": lambda d, _: d.stream_messages.due_for_stream(crowd.QUEUE, 0, LIMIT, None, None),
    "claim for a stream behind the mark": lambda d, t: d.stream_messages.due_for_stream(
        crowd.QUEUE, 0, LIMIT, t.mark, None
    ),
    "claim for a stream until a moment": lambda d, t: d.stream_messages.due_for_stream(
        crowd.BACKLOG, 0, LIMIT, t.mark_in_backlog, t.mark_in_backlog[0]
    ),
    "rescue": lambda d, _: d.claims.due(("id",), crowd.QUEUE, RUNNING, 0, LIMIT),
    "rescue of what runs in time": lambda d, _: d.claims.due(("id",), crowd.QUEUE, RUNNING, 9, LIMIT),
    "rescue, but what was just taken": lambda d, _: d.claims.due(
        ("id",), crowd.QUEUE, RUNNING, 0, LIMIT, but_token=crowd.TOKEN + 1
    ),
    "archive": lambda d, _: d.archive.finished(crowd.QUEUE, 0, 60.0, LIMIT),
    "archive behind what stays": lambda d, _: d.archive.finished(
        crowd.QUEUE, 0, 60.0, LIMIT, behind=Behind(as_text(_hours_ago(12)), 1)
    ),
    "archive of what is too young": lambda d, _: d.archive.finished(crowd.QUEUE, 0, 90_000.0, LIMIT),
    "count of what is too young": lambda d, _: d.archive.count_finished(crowd.QUEUE, 0, 90_000.0),
    "look at the dead": lambda d, _: d.archive.dead_behind(crowd.QUEUE, 0, 0, 60.0, LIMIT),
    "look at more of the dead": lambda d, t: d.archive.dead_behind(crowd.QUEUE, 0, t.dead[0], 60.0, LIMIT),
}
PROBES: dict[str, Build] = {
    "first that was done from a moment on": lambda d, _: d.statistics.first_ends([(crowd.QUEUE, 0)], _hours_ago(25)),
    "none that was done from a moment on": lambda d, _: d.statistics.first_ends([(crowd.QUEUE, 0)], _hours_ago(-1)),
    "highest priority": lambda d, _: d.claims.next_priority(crowd.QUEUE, NEW, 32_767),
    "next priority": lambda d, _: d.claims.next_priority(crowd.QUEUE, NEW, 9),
    "highest priority that runs": lambda d, _: d.claims.next_priority(crowd.QUEUE, RUNNING, 32_767),
    "highest priority that is done": lambda d, _: d.claims.next_priority(crowd.QUEUE, DONE, 32_767),
    "no lower priority": lambda d, _: d.claims.next_priority(crowd.QUEUE, DONE, 0),
    "is something ready at a priority that is new": lambda d, _: d.lookout.together(
        [*d.lookout.due(READY, crowd.QUEUE, [])]
    ),
    "does a lease end at a priority that is new": lambda d, _: d.lookout.together(
        [*d.lookout.due(EXPIRED, crowd.QUEUE, [])]
    ),
    "first queue": lambda d, _: d.claims.next_queue(""),
    "next queue": lambda d, _: d.claims.next_queue(crowd.QUEUE),
}


def take_ids(dialect: Any, ids: list[int]) -> Statement:
    change = dialect.claims.take(token=1, worker_id=1, session=1, lease=60.0, max_reads=5, now=None)
    return dialect.claims.take_ids(ids, change)


def _park(dialect: Any) -> Any:
    return dialect.stream_messages.park(token=1, session=1, lease=60.0, max_reads=5)


BY_ID: dict[str, Build] = {
    "park for a stream": lambda d, t: d.stream_messages.move_due(_park(d), d.stream_messages.named(t.ids)),
    "park a range for a stream": lambda d, t: d.stream_messages.move_due(
        _park(d), d.stream_messages.between(t.ids[0], t.ids[-1])
    ),
    "ack of a stream": lambda d, t: d.stream_messages.move_parked(
        d.messages.ack(), d.stream_messages.named([claim.id for claim in t.running[:LIMIT]]), 1
    ),
    "ack of a range of a stream": lambda d, t: d.stream_messages.move_parked(
        d.messages.ack(), d.stream_messages.between(t.ids[0], t.ids[-1]), 1
    ),
    "read for a stream": lambda d, t: d.stream_messages.delivered("id", d.stream_messages.named(t.ids), 1),
    "read of a range for a stream": lambda d, t: d.stream_messages.delivered(
        "id", d.stream_messages.between(t.ids[0], t.ids[-1]), 1
    ),
    "lock what a stream holds": lambda d, t: d.stream_messages.parked(d.stream_messages.named(t.ids), 1),
    "take": lambda d, t: take_ids(d, t.ids),
    "ack": lambda d, t: d.messages.settle(d.messages.ack(), t.running[:1]),
    "ack of a batch": lambda d, t: d.messages.settle(d.messages.ack(), t.running[:LIMIT]),
    "ack of claims under their own tokens": lambda d, t: d.messages.settle(
        d.messages.ack(), [Claim(claim.id, place + 1) for place, claim in enumerate(t.running[:LIMIT])]
    ),
    "ack, and say which": lambda d, t: d.messages.settle(
        d.messages.ack(), t.running[:LIMIT], returning=d.sql.returns_rows
    ),
    "lock what is held": lambda d, t: d.messages.lock(d.messages.held(t.running[:LIMIT])),
    "lock what is held and free": lambda d, t: d.messages.lock(d.messages.held(t.running[:LIMIT]), skip_locked=True),
    "requeue": lambda d, t: d.messages.move(
        d.messages.requeue(), d.messages.unmoved(t.running[0], f"status = '{RUNNING}'")
    ),
    "into another queue": lambda d, t: d.messages.move(
        d.messages.into("there", "0" * 64, None, None, is_dead=False, actor="ann"),
        d.messages.unmoved(Claim(t.ids[0], None), VERBS["move"].fence(d)),
    ),
    "lock what goes to another queue": lambda d, t: d.messages.lock_place(
        d.messages.unmoved(Claim(t.ids[0], None), VERBS["move"].fence(d))
    ),
    "due now": lambda d, t: d.messages.move(
        d.messages.due_now(), d.messages.unmoved(Claim(t.ids[0], None), VERBS["due-now"].fence(d))
    ),
    "record of failures": lambda d, t: d.events.record(
        d.messages.nack(5.0, "no").event, d.messages.held(t.running[:LIMIT])
    ),
    "record of failures under their own tokens": lambda d, t: d.events.record(
        d.messages.nack(5.0, "no").event,
        d.messages.held([Claim(claim.id, n + 1) for n, claim in enumerate(t.running[:LIMIT])]),
    ),
    "record of what an operator does": lambda d, t: d.events.record(
        d.messages.requeue(actor="ann").event, d.messages.unmoved(t.running[0], f"status = '{RUNNING}'")
    ),
    "record of what a stream gives back": lambda d, t: d.events.record(
        d.messages.rescue("over").event,
        d.stream_messages.held_in_claim(d.stream_messages.between(t.ids[0], t.ids[-1]), 1),
    ),
    "ack that removes": lambda d, t: d.messages.settle(d.messages.remove(), t.running[:1]),
    "ack that removes a batch": lambda d, t: d.messages.settle(d.messages.remove(), t.running[:LIMIT]),
    "ack that removes claims under their own tokens": lambda d, t: d.messages.settle(
        d.messages.remove(), [Claim(claim.id, place + 1) for place, claim in enumerate(t.running[:LIMIT])]
    ),
    "ack that removes, and say which": lambda d, t: d.messages.settle(
        d.messages.remove(), t.running[:LIMIT], returning=d.sql.returns_rows
    ),
    "states": lambda d, t: d.messages.states(t.ids),
    "ties of what is held": lambda d, t: d.messages.ties(d.messages.held(t.running[:LIMIT])),
    "lanes of what is held": lambda d, t: d.lanes.places(d.messages.held(t.running[:LIMIT])),
    "lock the dead of some": lambda d, t: d.messages.lock(d.messages.dead_of(t.ids)),
    "those of some that are not done": lambda d, t: d.messages.lock(d.flows.not_done(t.ids)),
    "one body": lambda d, t: d.messages.read_body(t.running[0]),
    "into lines, this transaction's own": lambda d, _: d.lanes.enter_after(BEYOND_ALL),
    "overwrite": lambda d, t: d.enqueue.overwrite(t.ids[0], ("1", "json", None, 0, None, None, None, None), 0.0, None),
    "lock what is finished": lambda d, t: d.archive.lock_finished(t.finished),
    "lock what is dead": lambda d, t: d.archive.lock_dead(t.dead, 60.0),
    "copy to the archive": lambda d, t: d.archive.copy_to_archive(t.finished),
    "delete": lambda d, t: d.messages.delete(t.finished),
}
if connection.vendor == "mysql":  # which tells only the first id of an INSERT
    BY_ID["into lines, those of one INSERT"] = lambda d, t: d.lanes.enter_range(t.ids[0], LIMIT)
BY_KEY: dict[str, Build] = {
    "live row of a key": lambda d, _: d.enqueue.live_by_hash([key_hash(crowd.QUEUE, crowd.KEY)]),
    "live rows of keys": lambda d, _: d.enqueue.live_by_hash([key_hash(crowd.QUEUE, f"k{n}") for n in range(20)]),
}
