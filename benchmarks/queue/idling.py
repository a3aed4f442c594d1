"""What a worker costs that has nothing to do, and how soon it does something then."""

from __future__ import annotations

import random
import time
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.queue import probe, statements
from benchmarks.queue.bench import QUEUE
from benchmarks.queue.probe import Probe
from benchmarks.queue.settings import DBQUEUE_SETTINGS
from benchmarks.queue.workers import RunningWorker, worker
from benchmarks.race import Contest, Contestant, Target
from django_dbqueue.models import Message, Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks.queue.bench import Bench

WORKER: Final = "worker"
POLLING: Final = "worker, NOTIFY off"
IDLE_AFTER: Final = 12.0
"""Seconds without work before it counts as idle."""
WATCHED: Final = 20.0
"""Seconds over which it is watched."""
ROUNDS: Final = 3
FIRSTS: Final = 9
"""Rounds of the first message: each is one wait."""
SUPERVISORS: Final = 8
CHILDREN: Final = 8
FLEET_IDLE_AFTER: Final = 60.0
FLEET_WATCHED: Final = 180.0
"""The same for a fleet, whose workers take turns."""


def idling(bench: Bench) -> list[Contest]:
    """A worker of one child: its statements (without the control of transactions), its processor time, its first.

    The first of a worker of two children, which asks more often. And the statements of eight workers of eight children
    each, together.
    """
    first_of_two = partial(_first, children=2)
    return [
        _contest(bench, "idle, statements", "statements/s", _statements, (2.0, 2.0)),
        _contest(bench, "idle, processor", "% of a core", _processor, (0.5, 0.5)),
        _contest(bench, "first after idling, one child", "ms", _first, (500.0, 100.0), rounds=FIRSTS),
        _contest(bench, "first after idling, two children", "ms", first_of_two, (300.0, 100.0), rounds=FIRSTS),
        _contest(bench, "idle, 8 x 8 children", "statements/s", _fleet, (3.0, 0.8), rounds=1),
    ]


def _contest(
    bench: Bench,
    name: str,
    unit: str,
    measure: Callable[..., float],
    at_most: tuple[float, float],
    rounds: int = ROUNDS,
) -> Contest:
    """``at_most``: by polling, and where NOTIFY wakes."""
    contestants = [Contestant(WORKER, measure=lambda: measure(bench))]
    targets = [Target(WORKER, at_most=at_most[bench.database == "postgres"])]
    if bench.database == "postgres":
        off = {DBQUEUE_SETTINGS: '{"NOTIFY": false}'}
        contestants.append(Contestant(POLLING, measure=lambda: measure(bench, **off)))
        targets.append(Target(POLLING, at_most=at_most[0]))
    return Contest(name, contestants, targets, unit, rounds=rounds, warm_up=False)


def _statements(bench: Bench, **environment: str) -> float:
    with statements.counter(bench) as counter, _idle(bench, **counter.environment, **environment):
        return _rate(counter, WATCHED)


def _fleet(bench: Bench, **environment: str) -> float:
    bench.empty()
    fleet = ["--queues", QUEUE, "--processes", str(CHILDREN)]
    with statements.counter(bench) as counter, ExitStack() as stack:
        workers = [
            stack.enter_context(worker(bench, *fleet, **counter.environment, **environment)) for _ in range(SUPERVISORS)
        ]
        while Worker.objects.count() < SUPERVISORS * CHILDREN:
            time.sleep(0.1)
        time.sleep(FLEET_IDLE_AFTER)
        found = _rate(counter, FLEET_WATCHED)
        for running in workers:
            running.still_alive()
        return found


def _rate(counter: statements.Counter, seconds: float) -> float:
    before, began = counter.count(), time.monotonic()
    time.sleep(seconds)
    return (counter.count() - before) / (time.monotonic() - began)


def _processor(bench: Bench, **environment: str) -> float:
    with _idle(bench, **environment) as (running, _):
        before, began = _busy(running.process.pid), time.monotonic()
        time.sleep(WATCHED)
        return 100 * (_busy(running.process.pid) - before) / (time.monotonic() - began)


def _first(bench: Bench, children: int = 1, **environment: str) -> float:
    """Of a message that comes at some moment to a worker that has long been idle."""
    with _idle(bench, "--processes", str(children), **environment) as (running, seen):
        time.sleep(random.uniform(0.0, 1.0))
        sent = time.time()
        Message.objects.enqueue({"n": 1}, queue=QUEUE)
        seen.wait_for(2, running.still_alive)
        return 1000 * (seen.hits()[1].at - sent)


@contextmanager
def _idle(bench: Bench, *arguments: str, **environment: str) -> Iterator[tuple[RunningWorker, Probe]]:
    """A worker that has had one message, and then nothing for a while."""
    bench.empty()
    seen = Probe(bench.directory / "probe")
    with worker(bench, "--queues", QUEUE, *arguments, **{probe.PATH: str(seen.path)}, **environment) as running:
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
