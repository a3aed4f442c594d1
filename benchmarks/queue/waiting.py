"""How many messages that only wait one process gets done, beside what its concurrency allows; and in what memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from benchmarks.queue import probe, troubles
from benchmarks.queue.bench import ASYNC_QUEUE
from benchmarks.queue.draining import UNIT, WORKER, acknowledged, check, prepare
from benchmarks.queue.memory import UNIT as MEGABYTES
from benchmarks.queue.memory import megabytes
from benchmarks.queue.probe import Probe
from benchmarks.queue.workers import worker
from benchmarks.race import Contest, Contestant, Target

if TYPE_CHECKING:
    from benchmarks.queue.bench import Bench

CONCURRENCY: Final = 500
WAIT: Final = 0.2
"""Seconds that each message waits, as `queue_consumers` has it."""
_IDEAL: Final = "500 at once, no break"
_AT_LEAST: Final = 0.75
_MOST_MB: Final = 100


def waiting(bench: Bench) -> list[Contest]:
    """From the first message's begin, which is its end less its wait, until nothing is left to acknowledge."""
    rows = bench.sizes.waiting
    seen = Probe(bench.directory / "probe")
    resident: list[float] = []

    def measure() -> float:
        seen.empty()
        options = ("--queues", ASYNC_QUEUE, "--concurrency", str(CONCURRENCY))
        with troubles.reported(bench, WORKER), worker(bench, *options, **{probe.PATH: str(seen.path)}) as running:
            seen.wait_for(rows, running.still_alive)
            end = acknowledged(bench, ASYNC_QUEUE)
            hits = seen.hits()
            resident.append(megabytes(str(hits[-1].pid), "VmHWM"))
        return rows / (end - (hits[0].at - WAIT))

    by_worker = Contestant(
        WORKER,
        rows,
        prepare=lambda: prepare(bench, rows, ASYNC_QUEUE),
        measure=measure,
        check=lambda: check(bench, seen, rows, ASYNC_QUEUE, kept=rows),
    )
    ideal = Contestant(_IDEAL, rows, measure=lambda: CONCURRENCY / WAIT)
    in_memory = Contestant(WORKER, rows, measure=resident.pop)
    return [
        Contest("drain 200 ms, async", [ideal, by_worker], [Target(WORKER, _IDEAL, _AT_LEAST)], UNIT),
        Contest("memory, async", [in_memory], [Target(WORKER, at_most=_MOST_MB)], MEGABYTES, warm_up=False),
    ]
