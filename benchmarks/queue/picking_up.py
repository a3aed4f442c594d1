"""How soon a message starts that comes to a worker which has nothing to do: a few come in a second."""

from __future__ import annotations

import random
import statistics
import time
from typing import TYPE_CHECKING, Final

from benchmarks.queue import probe
from benchmarks.queue.bench import QUEUE
from benchmarks.queue.probe import Probe
from benchmarks.queue.settings import DBQUEUE_SETTINGS
from benchmarks.queue.workers import worker
from benchmarks.race import Contest, Contestant, Target
from django_dbqueue.models import Message

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from benchmarks.queue.bench import Bench

WORKER: Final = "worker"
POLLING: Final = "worker, NOTIFY off"
MESSAGES: Final = 100
APART: Final = (0.1, 0.3)
"""Seconds between two messages, drawn evenly: 0.2 on average."""
_AT_MOST: Final = {"postgres": (8.0, 30.0)}
_AT_MOST_BY_POLLING: Final = (15.0, 60.0)


def picking_up(bench: Bench) -> list[Contest]:
    """The median, and what 99 of 100 stay below: milliseconds from before `enqueue` to the handler's first line."""
    return [
        _contest(bench, "pick-up, median", statistics.median, 0),
        _contest(bench, "pick-up, 99 of 100", _of_99, 1),
    ]


def _contest(bench: Bench, name: str, of: Callable[[Sequence[float]], float], place: int) -> Contest:
    contestants = [Contestant(WORKER, measure=lambda: of(_latencies(bench)))]
    targets = [Target(WORKER, at_most=_AT_MOST.get(bench.database, _AT_MOST_BY_POLLING)[place])]
    if bench.database == "postgres":
        off = {DBQUEUE_SETTINGS: '{"NOTIFY": false}'}
        contestants.append(Contestant(POLLING, measure=lambda: of(_latencies(bench, **off))))
        targets.append(Target(POLLING, at_most=_AT_MOST_BY_POLLING[place]))
    return Contest(name, contestants, targets, unit="ms", warm_up=False)


def _of_99(latencies: Sequence[float]) -> float:
    return statistics.quantiles(latencies, n=100)[-1]


def _latencies(bench: Bench, **environment: str) -> list[float]:
    bench.empty()
    seen = Probe(bench.directory / "probe")
    sent: list[float] = []
    with worker(bench, "--queues", QUEUE, **{probe.PATH: str(seen.path)}, **environment) as running:
        for number in range(MESSAGES + 1):
            sent.append(time.time())
            Message.objects.enqueue({"n": number}, queue=QUEUE)
            if number == 0:  # it has started
                seen.wait_for(1, running.still_alive)
            time.sleep(random.uniform(*APART))
        seen.wait_for(MESSAGES + 1, running.still_alive)
    seen.check_each_once(MESSAGES + 1)
    return [1000 * (hit.at - sent[hit.number]) for hit in seen.hits() if hit.number]
