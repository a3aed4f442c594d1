"""The contest of tasks: this queue behind `django.tasks`, beside its other backends and queues with their own calls."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from benchmarks.queue import rivals
from benchmarks.queue.bench import RESULTS, SLOW_QUEUE, TASKS_QUEUE
from benchmarks.queue.draining import UNIT, WORKER, by_worker
from benchmarks.queue.peers.conditions import AT_ONCE, BODY, DEFAULT, LOGGING
from benchmarks.race import Contest, Contestant, Target

if TYPE_CHECKING:
    from benchmarks.queue.bench import Bench

TASKS: Final = "tasks"
RESULT: Final = "tasks with results"
_LOGGED: Final = {LOGGING: DEFAULT}


def tasks(bench: Bench) -> list[Contest]:
    """Tasks that do nothing, and tasks that wait 5 ms; by one process of each contestant."""
    return [_that_do_nothing(bench), _that_wait(bench)]


def _that_do_nothing(bench: Bench) -> Contest:
    targets = [
        Target(TASKS, WORKER, 0.8),
        Target(RESULT, WORKER, 0.6),
        *_logging(RESULT, TASKS),
        *rivals.keeps_up(bench, TASKS, "threadmill"),
        *rivals.keeps_up(bench, TASKS, "django_ox", at_least=50),
        *rivals.keeps_up(bench, TASKS, "django_tasks_db", at_least=20),
        *rivals.keeps_up(bench, TASKS, "bullmq", "bullmq_python", at_least=2),
        *rivals.keeps_up(bench, WORKER, "graphile_worker"),
    ]
    ours = [
        by_worker(bench, WORKER, bench.sizes.drain, 1),
        *(_by_tasks(bench, name, rows=bench.sizes.drain) for name in (TASKS, RESULT)),
        *(_by_tasks(bench, name, rows=bench.sizes.drain, logged=True) for name in (TASKS, RESULT)),
    ]
    return Contest("tasks", [*ours, *rivals.draining_tasks(bench)], targets, UNIT)


def _that_wait(bench: Bench) -> Contest:
    """So many at once by everybody who can, so that 1,600 a second is what can be."""
    rows = bench.sizes.slow * AT_ONCE
    threads = ("--threads", str(AT_ONCE))
    ours = [
        by_worker(bench, WORKER, rows, 1, *threads, queue=SLOW_QUEUE),
        *(_by_tasks(bench, name, *threads, rows=rows, waits=True) for name in (TASKS, RESULT)),
        *(_by_tasks(bench, name, *threads, rows=rows, waits=True, logged=True) for name in (TASKS, RESULT)),
    ]
    targets = [Target(TASKS, WORKER, 0.9), Target(RESULT, WORKER, 0.9), *_logging(RESULT, TASKS)]
    peers = rivals.draining_tasks(bench, {BODY: "0.005"}, at_most=rows)
    return Contest("tasks of 5 ms", [*ours, *peers], targets, UNIT)


def _logging(*names: str) -> list[Target]:
    """With Django's own logging each takes at most twice as long."""
    return [Target(rivals.logged(name), name, 0.5) for name in names]


def _by_tasks(
    bench: Bench, name: str, *arguments: str, rows: int, waits: bool = False, logged: bool = False
) -> Contestant:
    function = ("wait" if waits else "count") + ("_and_return" if name == RESULT else "")
    title, conditions = (rivals.logged(name), _LOGGED) if logged else (name, {})
    plain = by_worker(bench, title, rows, 1, *arguments, queue=TASKS_QUEUE, conditions=conditions)

    def prepare() -> None:
        from benchmarks.queue import bench_tasks

        bench.empty()
        task = getattr(bench_tasks, function)
        task.get_backend().enqueue_many([(task, (number,), {}) for number in range(rows)])
        bench.analyze()

    def check() -> None:
        plain.check()
        kept = bench.number(f"SELECT COUNT(*) FROM {RESULTS}")
        bench.expect(kept, rows if name == RESULT else 0, "the results that are kept")

    return replace(plain, prepare=prepare, check=check)
