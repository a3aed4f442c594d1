"""What a worker costs that has nothing to do, and how soon it does something then."""

from __future__ import annotations

import random
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.queue import probe, statements
from benchmarks.queue.bench import QUEUE
from benchmarks.queue.probe import Probe
from benchmarks.queue.workers import RunningWorker, worker
from benchmarks.race import Contest, Contestant, Target
from django_dbqueue.models import Message

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks.queue.bench import Bench

WORKER: Final = "worker"
IDLE_AFTER: Final = 11.0
"""Seconds without work before it counts as idle."""
WATCHED: Final = 20.0
"""Seconds over which it is watched."""
ROUNDS: Final = 3


def idling(bench: Bench) -> list[Contest]:
    """A worker with one queue: its statements (without the control of transactions), its processor time, its first."""
    return [
        _contest("idle, statements", "statements/s", lambda: _statements(bench), 2.0),
        _contest("idle, processor", "% of a core", lambda: _processor(bench), 0.5),
        _contest("first after idling", "ms", lambda: _first(bench), 1_000.0),
    ]


def _contest(name: str, unit: str, measure: Callable[[], float], at_most: float) -> Contest:
    contestants = [Contestant(WORKER, measure=measure)]
    return Contest(name, contestants, [Target(WORKER, at_most=at_most)], unit, rounds=ROUNDS, warm_up=False)


def _statements(bench: Bench) -> float:
    with statements.counter(bench) as counter, _idle(bench, **counter.environment):
        before, began = counter.count(), time.monotonic()
        time.sleep(WATCHED)
        return (counter.count() - before) / (time.monotonic() - began)


def _processor(bench: Bench) -> float:
    with _idle(bench) as (running, _):
        before, began = _busy(running.process.pid), time.monotonic()
        time.sleep(WATCHED)
        return 100 * (_busy(running.process.pid) - before) / (time.monotonic() - began)


def _first(bench: Bench) -> float:
    """Of a message that comes at some moment to a worker that has long been idle."""
    with _idle(bench) as (running, seen):
        time.sleep(random.uniform(0.0, 1.0))
        sent = time.time()
        Message.objects.enqueue({"n": 1}, queue=QUEUE)
        seen.wait_for(2, running.still_alive)
        return 1000 * (seen.hits()[1].at - sent)


@contextmanager
def _idle(bench: Bench, **environment: str) -> Iterator[tuple[RunningWorker, Probe]]:
    """A worker that has had one message, and then nothing for a while."""
    bench.empty()
    seen = Probe(bench.directory / "probe")
    with worker(bench, "--queues", QUEUE, **{probe.PATH: str(seen.path)}, **environment) as running:
        Message.objects.enqueue({"n": 0}, queue=QUEUE)
        seen.wait_for(1, running.still_alive)
        time.sleep(IDLE_AFTER)
        yield running, seen


def _busy(pid: int) -> float:
    """Seconds that a process, its threads and its children have been on a processor (Linux says it to a nanosecond)."""
    tasks = list(Path(f"/proc/{pid}/task").iterdir())
    own = sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9
    children = (child for task in tasks for child in (task / "children").read_text().split())
    return own + sum(_busy(int(child)) for child in children)
