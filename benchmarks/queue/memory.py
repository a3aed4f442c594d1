"""How much more memory a process holds after many messages than after few: no message may leave anything behind."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from benchmarks.queue import probe
from benchmarks.queue.bench import PADDING, QUEUE
from benchmarks.queue.probe import Probe
from benchmarks.queue.processes import together
from benchmarks.queue.workers import worker
from benchmarks.race import Contest, Contestant, Target
from django_dbqueue.models import Message

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.queue.bench import Bench

UNIT: Final = "MB"
_MANY_MB: Final = 100
_WORKER_MB: Final = 10


def memory(bench: Bench) -> list[Contest]:
    """Of a producer that gives a generator to `enqueue_many`, and of a worker."""
    return [_of_a_producer(bench), _of_a_worker(bench)]


def _of_a_producer(bench: Bench) -> Contest:
    rows = bench.sizes.backlog
    name = f"enqueue_many of {rows:,}"

    def measure() -> float:
        [grown] = together(1, _enqueue_many, rows)
        return float(grown)

    def check() -> None:
        bench.expect(bench.number("SELECT COUNT(*) FROM django_dbqueue_message"), rows, "what is stored")

    contestant = Contestant(name, prepare=bench.empty, measure=measure, check=check)
    return Contest("memory, bulk", [contestant], [Target(name, at_most=_MANY_MB)], UNIT, rounds=2, warm_up=False)


def _enqueue_many(begin: Callable[[], Any], rows: int) -> float:
    """A fresh process's highest point above where it stood; one message first, so that it has its connection."""
    Message.objects.enqueue_many([{}], queue="bench-warm")
    Message.objects.filter(queue="bench-warm").delete()
    begin()
    before = megabytes("self", "VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # forgets the highest point until now
    Message.objects.enqueue_many(({"n": number, "padding": PADDING} for number in range(rows)), queue=QUEUE)
    return megabytes("self", "VmHWM") - before


def _of_a_worker(bench: Bench) -> Contest:
    few, many = bench.sizes.backlog // 1_000, bench.sizes.backlog // 10
    name = f"worker, {many:,} v. {few:,}"

    def measure() -> float:
        seen = Probe(bench.directory / "probe")
        with worker(bench, "--queues", QUEUE, **{probe.PATH: str(seen.path)}) as running:
            held = []
            for count in (few, many):
                bench.fill(count - len(seen.hits()))
                seen.wait_for(count, running.still_alive)
                held.append(megabytes(str(seen.hits()[-1].pid), "VmRSS"))
            return held[1] - held[0]

    contestant = Contestant(name, prepare=bench.empty, measure=measure)
    return Contest("memory, worker", [contestant], [Target(name, at_most=_WORKER_MB)], UNIT, rounds=2, warm_up=False)


def megabytes(process: str, line: str) -> float:
    """What the kernel says of a process."""
    [kilobytes] = re.findall(rf"^{line}:\s+(\d+) kB$", Path(f"/proc/{process}/status").read_text(), re.MULTILINE)
    return int(kilobytes) / 1024
