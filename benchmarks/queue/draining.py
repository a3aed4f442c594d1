"""How fast messages that are ready are done: by the queue's worker, and by a bare loop of the same statements."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from benchmarks.queue import probe, rivals, troubles
from benchmarks.queue.bench import LIST_QUEUE, ONE_QUEUE, QUEUE, SLOW_QUEUE, TABLE
from benchmarks.queue.floors import floor
from benchmarks.queue.peers.conditions import NONE
from benchmarks.queue.probe import Probe
from benchmarks.queue.processes import together
from benchmarks.queue.settings import DBQUEUE_SETTINGS
from benchmarks.queue.workers import worker
from benchmarks.race import Contest, Contestant, Target

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from benchmarks.queue.bench import Bench

UNIT: Final = "messages/s"
WORKER: Final = "worker"
DELETING: Final = "worker, on_ack=delete"
FLOOR: Final = "raw batch loop"
_FLOOR_BATCH: Final = 200
_AT_LEAST: Final = {"mariadb": 0.8, "mysql": 0.6, "postgres": 0.5, "sqlite": 0.3}


def draining(bench: Bench) -> list[Contest]:
    """No-op consumers, by one process and by four."""
    return [_draining(bench, processes) for processes in (1, 4)]


def _draining(bench: Bench, processes: int) -> Contest:
    rows = bench.sizes.drain
    contestants = [
        _by_floor(bench, FLOOR, rows, processes, batch=_FLOOR_BATCH, shared=True),
        by_worker(bench, WORKER, rows, processes),
        by_worker(bench, DELETING, rows, processes, on_ack="delete"),
        *rivals.draining(bench, processes),
    ]
    targets = [
        Target(WORKER, FLOOR, _AT_LEAST[bench.database]),
        *rivals.beats(bench, WORKER, 9 if processes == 1 else 15),
        *rivals.keeps_up(bench, WORKER, "graphile_worker"),
        *rivals.keeps_up(bench, DELETING, "graphile_worker"),
    ]
    return Contest(f"drain, {processes}", contestants, targets, UNIT)


def one_at_a_time(bench: Bench) -> Contest:
    """No message is claimed before the last one is done and acked."""
    rows = bench.sizes.drain_one
    plain = "raw loop of one"
    contestants = [
        _by_floor(bench, plain, rows, 1, batch=1, shared=False),
        _by_floor(bench, "raw loop of one, shared commit", rows, 1, batch=1, shared=True),
        by_worker(bench, WORKER, rows, 1, "--batch", "1"),
    ]
    return Contest("drain, batch of 1", contestants, [Target(WORKER, plain, 0.9)], UNIT)


def slow(bench: Bench) -> list[Contest]:
    """Each message takes 5 ms of waiting, so that 200 a second by each process is what can be."""
    return [
        Contest(
            f"drain 5 ms, {processes}",
            [
                _by_floor(bench, FLOOR, bench.sizes.slow * processes, processes, 20, shared=True, queue=SLOW_QUEUE),
                by_worker(bench, WORKER, bench.sizes.slow * processes, processes, queue=SLOW_QUEUE),
            ],
            [Target(WORKER, FLOOR, 0.9)],
            UNIT,
        )
        for processes in (1, 4)
    ]


def batches(bench: Bench) -> Contest:
    """Two rows written for each message: in a transaction for each, and in one for a hundred."""
    one, many = "one message, one commit", "a hundred in a commit"
    contestants = [_by_writer(bench, one, ONE_QUEUE), _by_writer(bench, many, LIST_QUEUE)]
    return Contest("drain, two rows", contestants, [Target(many, one, 8)], UNIT)


def _by_writer(bench: Bench, name: str, queue: str) -> Contestant:
    rows = bench.sizes.drain_one
    plain = by_worker(bench, name, rows, 1, queue=queue)

    def prepare_without_groups() -> None:
        with bench.raw() as session:
            session.cursor().execute("DELETE FROM auth_group")
        prepare(bench, rows, queue)

    def check_groups() -> None:
        plain.check()
        bench.expect(bench.number("SELECT COUNT(*) FROM auth_group"), 2 * rows, "the rows that were written")

    return replace(plain, prepare=prepare_without_groups, check=check_groups)


def backlog(bench: Bench) -> Contest:
    """The rate over the first messages, where many times as many are ready."""
    few, many = f"{bench.sizes.drain:,} ready", f"{bench.sizes.backlog:,} ready"

    def contestant(name: str, ready: int) -> Contestant:
        return Contestant(name, prepare=lambda: prepare(bench, ready), measure=lambda: _first(bench))

    contestants = [contestant(few, bench.sizes.drain), contestant(many, bench.sizes.backlog)]
    return Contest("drain a backlog", contestants, [Target(many, few, 0.9)], UNIT, rounds=3, warm_up=False)


def _first(bench: Bench) -> float:
    """Messages per second over nine tenths of what the smaller table holds, so that both are busy to the end."""
    count = bench.sizes.drain * 9 // 10
    seen = Probe(bench.directory / "probe")
    with worker(bench, "--queues", QUEUE, **{probe.PATH: str(seen.path)}) as running:
        seen.wait_for(count, running.still_alive)
    hits = seen.hits()[:count]
    return probe.rate(hits, hits[-1].at)


def by_worker(
    bench: Bench,
    name: str,
    rows: int,
    processes: int,
    *arguments: str,
    queue: str = QUEUE,
    on_ack: str = "keep",
    group_batch: int = 1,
    conditions: Mapping[str, str] = NONE,
) -> Contestant:
    seen = Probe(bench.directory / "probe")
    options = ("--queues", queue, "--processes", str(processes), *arguments)
    defaults = {"on_ack": on_ack, "group_batch": group_batch}
    environment = {probe.PATH: str(seen.path), DBQUEUE_SETTINGS: json.dumps({"DEFAULTS": defaults})} | dict(conditions)

    def measure() -> float:
        seen.empty()
        with troubles.reported(bench, name), worker(bench, *options, **environment) as running:
            seen.wait_for(rows, running.still_alive)
            end = acknowledged(bench, queue)
        return probe.rate(seen.hits(), end)

    return Contestant(
        name,
        rows,
        prepare=lambda: prepare(bench, rows, queue),
        measure=measure,
        check=lambda: check(bench, seen, rows, queue, kept=0 if on_ack == "delete" else rows),
    )


def _by_floor(
    bench: Bench, name: str, rows: int, processes: int, batch: int, *, shared: bool, queue: str = QUEUE
) -> Contestant:
    seen = Probe(bench.directory / "probe")

    def measure() -> float:
        seen.empty()
        with troubles.reported(bench, name):
            ends = together(processes, _drain, bench.url, str(seen.path), queue, batch, shared)
        return probe.rate(seen.hits(), max(ends))

    return Contestant(
        name,
        rows,
        prepare=lambda: prepare(bench, rows, queue),
        measure=measure,
        check=lambda: check(bench, seen, rows, queue, kept=rows),
    )


def _drain(begin: Callable[[], Any], url: str, path: str, queue: str, batch: int, shared: bool) -> float:
    """In a process of its own: returns when its last ack was committed."""
    os.environ[probe.PATH] = path
    pause = 0.005 if queue == SLOW_QUEUE else 0.0

    def handle(payload: Any) -> None:
        if pause:
            time.sleep(pause)
        probe.hit(payload["n"])

    with floor(url, queue) as raw:
        begin()
        raw.drain(batch, together=shared, handle=handle)
        return time.time()


def prepare(bench: Bench, rows: int, queue: str = QUEUE) -> None:
    bench.empty()
    bench.fill(rows, queue=queue)


def acknowledged(bench: Bench, queue: str) -> float:
    """When nothing is left that isn't done, as it is seen from outside."""
    end = time.monotonic() + probe.PATIENCE
    with bench.raw() as session:
        cursor = session.cursor()
        while time.monotonic() < end:
            cursor.execute(f"SELECT 1 FROM {TABLE} WHERE queue = '{queue}' AND status IN ('n', 'run') LIMIT 1")
            if not cursor.fetchall():
                return time.time()
            time.sleep(0.002)
    raise AssertionError(f"not all was acknowledged within {probe.PATIENCE:g} s after it was handled")


def check(bench: Bench, seen: Probe, rows: int, queue: str, *, kept: int) -> None:
    seen.check_each_once(rows)
    done = bench.number(
        f"SELECT COUNT(*) FROM {TABLE} WHERE queue = %s AND status = 'y' AND read_count = 1 AND error IS NULL", (queue,)
    )
    bench.expect(done, kept, "what was done at its first delivery")
    left = bench.number(f"SELECT COUNT(*) FROM {TABLE} WHERE queue = %s", (queue,))
    bench.expect(left, kept, "what is in the table afterwards")
