"""What a scrape shows, at a cost that doesn't grow with the number of messages.

Totals are read from what workers have counted. Depths are counted on the index, within a budget that all queues share:
where it doesn't suffice, the count is a lower bound, and ``…_capped`` is 1.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from itertools import accumulate
from operator import mul
from typing import Final

from django.db import connections

from django_dbqueue.contrib.openmetrics.exposition import Family
from django_dbqueue.contrib.openmetrics.stream_metrics import of_streams
from django_dbqueue.insight.ended import Cell
from django_dbqueue.insight.histogram import Histogram, bucket_of, seconds_of
from django_dbqueue.insight.overview import serving
from django_dbqueue.insight.totals import totals
from django_dbqueue.models import Queue, QueueTotal, StatisticProgress, StreamProgress
from django_dbqueue.models.fields import clock, to_utc
from django_dbqueue.sessions.django_session import DjangoSession, session_of
from django_dbqueue.states.counts import Capped
from django_dbqueue.states.depths import Depth, depths
from django_dbqueue.states.ranges_in_use import Range, ranges_in_use
from django_dbqueue.states.table import STATES as TABLE

MOST_QUEUES: Final = 500
"""Queues that a scrape shows: their names are labels, and those are dear to whoever keeps them."""
MOST_STREAMS: Final = 500
BUDGET: Final = 8_000
"""Index entries that a scrape counts; some servers handle each of them twice."""
STATES: Final = ("ready", "waiting", "stuck", "dead")
_STATES_OF: Final = Counter(TABLE[state].stage.status for state in STATES)
"""Of each row status, how many of them there are."""
LE_BITS: Final = (10, 12, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 26, 28, 30, 32)
"""Upper bounds of histograms: powers of two, in microseconds, at which buckets of the counts end; 1 ms to 72 min."""


@dataclass(frozen=True, slots=True)
class Figures:
    """What is known of the queues at one moment of the database's clock."""

    at: datetime
    queues: list[str]
    left_out: int
    totals: dict[str, Cell]
    counted_to: datetime | None
    """Up to when workers have counted; None if none has ever."""
    depths: dict[str, Depth]
    oldest_ready: dict[str, float]
    """Seconds for which the oldest ready message of a queue has been due."""
    workers: dict[str, list[int]]
    paused: dict[str, datetime | None]
    """Until when each paused queue is paused; None: until it is resumed."""
    streams: list[StreamProgress]
    """What listeners of Spark sessions have recorded, by name."""


def figures(using: str, *, most_queues: int = MOST_QUEUES, budget: int = BUDGET) -> Figures:
    """Look at all queues; nothing is locked."""
    session = session_of(using)
    now = clock(using)
    ranges = ranges_in_use(session)
    workers = serving(session, now)
    paused = dict(Queue.objects.using(using).filter(is_paused=True).values_list("name", "paused_until"))
    counted = QueueTotal.objects.using(using).order_by("queue").values_list("queue", flat=True)[: most_queues + 1]
    known = sorted({*(each.queue for each in ranges), *workers, *paused, *counted})
    queues = known[:most_queues]
    found = _depths(session, queues, ranges, budget)
    progress = StatisticProgress.objects.using(using).first()
    moments = {name: to_utc(depth.oldest_ready, connections[using]) for name, depth in found.items()}
    return Figures(
        at=now,
        queues=queues,
        left_out=len(known) - len(queues),
        totals=totals(session, queues),
        counted_to=None if progress is None else progress.fresh_to,
        depths=found,
        oldest_ready={
            name: 0.0 if moment is None else max(0.0, (now - moment).total_seconds())
            for name, moment in moments.items()
        },
        workers=workers,
        paused=paused,
        streams=list(StreamProgress.objects.using(using).order_by("name")[:MOST_STREAMS]),
    )


def _depths(session: DjangoSession, queues: list[str], ranges: Sequence[Range], budget: int) -> dict[str, Depth]:
    """Count each queue up to a share of half the budget; share the rest among those that have more."""
    places = dict.fromkeys(queues, 0)
    for each in ranges:
        if each.queue in places:
            places[each.queue] += _STATES_OF[each.status]
    first = _share(budget // 2, places.values())
    found = depths(session, queues, states=STATES, cap=first, ranges=ranges)
    deep = [name for name, depth in found.items() if any(count.more for count in depth.counts.values())]
    left = budget - sum(sum(depth.counts.values()) for depth in found.values())
    cap = _share(left, (places[name] for name in deep))
    if deep and cap >= 2 * first:
        found |= depths(session, deep, states=STATES, cap=cap, ranges=ranges)
    return found


def _share(budget: int, places: Iterable[int]) -> int:
    return max(1, budget // max(1, sum(places)))


def families(seen: Figures) -> Iterator[Family]:
    """Return the metrics."""
    yield from _of_totals(seen)
    yield from _of_depths(seen)
    yield from _of_workers(seen)
    yield from of_streams(seen.streams)


def _of_totals(seen: Figures) -> Iterator[Family]:
    messages = Family("dbqueue_messages", "counter", "Messages that ended, by outcome: done or dropped, or dead.")
    failures = Family("dbqueue_failures", "counter", "Failed deliveries of messages that ended.")
    retries = Family("dbqueue_retries", "counter", "Deliveries after the first of messages that ended.")
    wait = Family("dbqueue_wait_seconds", "histogram", "From when a message was due until its last claim.", "seconds")
    run = Family("dbqueue_run_seconds", "histogram", "From a message's last claim until it ended.", "seconds")
    for queue, cell in sorted(seen.totals.items()):
        labels = {"queue": queue}
        messages.add(cell.messages - cell.dead, {**labels, "outcome": "done"})
        messages.add(cell.dead, {**labels, "outcome": "dead"})
        failures.add(cell.failures, labels)
        retries.add(cell.retries, labels)
        wait.add_histogram(buckets_of(cell.wait), _sum(cell.wait), labels)
        run.add_histogram(buckets_of(cell.run), _sum(cell.run), labels)
    yield from (messages, failures, retries, wait, run)
    if seen.counted_to is not None:
        age = Family("dbqueue_count_age_seconds", "gauge", "Since workers last counted what had ended.", "seconds")
        age.add(max(0.0, (seen.at - seen.counted_to).total_seconds()))
        yield age


def buckets_of(histogram: Histogram) -> Iterator[tuple[str, int]]:
    """Return cumulative counts by upper bound in seconds."""
    buckets = sorted(histogram)
    totals_to = [0, *accumulate(map(histogram.__getitem__, buckets))]
    for bound, above in _BOUNDS:
        yield bound, totals_to[bisect_left(buckets, above)]
    yield "+Inf", totals_to[-1]


def _sum(histogram: Histogram) -> float:
    """Return the sum of the times in seconds, each within 1/64 of what it was."""
    return round(float(sum(map(mul, map(_middle, histogram), histogram.values()))), 6)


_middle = cache(seconds_of)
_BOUNDS: Final = [(f"{(1 << bits) / 1e6:.6f}", bucket_of(1 << bits)) for bits in LE_BITS]
"""As they are written, and the first bucket above."""


def _of_depths(seen: Figures) -> Iterator[Family]:
    helps = {
        "ready": "Messages that are due and wait for a worker",
        "waiting": "Messages of groups that are not at their turn",
        "stuck": "Messages whose lease has expired, and that no worker has rescued yet",
        "dead": "Dead letters",
    }
    for state, text in helps.items():
        depth = Family(f"dbqueue_{state}", "gauge", f"{text}; at least, if dbqueue_{state}_capped is 1.")
        capped = Family(f"dbqueue_{state}_capped", "gauge", f"Whether dbqueue_{state} stopped counting.")
        for queue in seen.queues:
            count: Capped = seen.depths[queue].counts[state]
            depth.add(int(count), {"queue": queue})
            capped.add(int(count.more), {"queue": queue})
        yield from (depth, capped)
    oldest = Family(
        "dbqueue_oldest_ready_seconds", "gauge", "For how long the oldest ready message has been due.", "seconds"
    )
    for queue in seen.queues:
        oldest.add(seen.oldest_ready[queue], {"queue": queue})
    yield oldest


def _of_workers(seen: Figures) -> Iterator[Family]:
    workers = Family("dbqueue_workers", "gauge", "Processes that serve the queue and send heartbeats.")
    threads = Family("dbqueue_worker_threads", "gauge", "Their handler threads.")
    paused = Family("dbqueue_paused", "gauge", "Whether an operator has paused the queue.")
    ends = Family("dbqueue_pause_end_timestamp_seconds", "gauge", "When its pause ends, if it has an end.", "seconds")
    for queue in seen.queues:
        labels = {"queue": queue}
        workers.add(len(seen.workers.get(queue, ())), labels)
        threads.add(sum(seen.workers.get(queue, ())), labels)
        paused.add(int(queue in seen.paused), labels)
        if (end := seen.paused.get(queue)) is not None:
            ends.add(end.timestamp(), labels)
    left_out = Family("dbqueue_queues_left_out", "gauge", "Queues beyond those that are shown.")
    left_out.add(seen.left_out)
    yield from (workers, threads, paused, ends, left_out)
