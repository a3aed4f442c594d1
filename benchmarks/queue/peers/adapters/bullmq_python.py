"""BullMQ on PostgreSQL, by its package for Python. See `bullmq.mjs` for the one for Node.js.

docs.bullmq.io, Concurrency and PostgreSQL backend: `concurrency`, one by default, 32 the most of its own numbers, and
here; finished jobs removed (`removeOnComplete`); many jobs by `addBulk`. A worker has one connection for all of them.

Under faults: locks of 5 seconds, checked each 4 (`lockDuration`, `stalledInterval`: 30 and 30); `maxStalledCount` 20
instead of 1, 20 `attempts` instead of 1, a second apart.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import closing
from typing import Any

import psycopg
from bullmq import Queue, Worker

from benchmarks.queue.peers.adapters.adapter import IN_FAULTS, at_once, handled_in_a_coroutine, payload, server
from benchmarks.queue.peers.adapters.adapter import Adapter as Base

_BATCH = 1000
_CONCURRENCY = at_once(32)
_PLACE = server()._replace(scheme="postgresql").geturl()
_OPTIONS: dict[str, Any] = {"backend": "postgres", "connection": _PLACE}
_SOON = {"lockDuration": 5000, "stalledInterval": 4000, "maxStalledCount": 20} if IN_FAULTS else {}
_AGAIN = {"attempts": 20, "backoff": {"type": "fixed", "delay": 1000}} if IN_FAULTS else {}
_JOB: dict[str, Any] = {"removeOnComplete": True, **_AGAIN}


async def noop(job: Any, token: str) -> None:  # noqa: ARG001 -- both are passed
    await handled_in_a_coroutine(job.data["n"])


class Adapter(Base):
    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self._queue = self._run(self._opened())

    @staticmethod
    async def _opened() -> Queue:
        return Queue("benchmarks", _OPTIONS)

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self._runner.run(work)

    def set_up(self) -> None:
        """The first question creates its tables."""
        self._run(self._queue.getJobCounts("waiting"))

    def enqueue_one(self, number: int) -> None:
        self._run(self._queue.add("noop", payload(number), _JOB))

    def enqueue_bulk(self, messages: int) -> None:
        self._add(range(1, messages + 1))

    def preload(self, messages: int) -> None:
        self._add(range(messages))

    def _add(self, numbers: range) -> None:
        for first in range(0, len(numbers), _BATCH):
            some = numbers[first : first + _BATCH]
            jobs = [{"name": "noop", "data": payload(number), "opts": _JOB} for number in some]
            self._run(self._queue.addBulk(jobs))

    def remaining(self) -> int:
        return len(self.left())

    def left(self) -> list[int]:
        return self._numbers("NOT IN ('completed', 'failed')")

    def failed(self) -> list[int]:
        return self._numbers("= 'failed'")

    @staticmethod
    def _numbers(state: str) -> list[int]:
        with closing(psycopg.connect(_PLACE)) as session:
            rows = session.execute(f"SELECT data->>'n' FROM bullmq.job WHERE state {state}").fetchall()
        return [int(number) for (number,) in rows]

    def work(self) -> None:
        self._run(self._work())

    @staticmethod
    async def _work() -> None:
        await Worker("benchmarks", noop, {**_OPTIONS, **_SOON, "concurrency": _CONCURRENCY, "autorun": False}).run()
