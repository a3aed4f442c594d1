"""Celery on Redis, which syncs its log each second, not each message: a reference, no rival in durability.

docs.celeryq.dev, Optimizing: "If you have lots of short tasks", a large `worker_prefetch_multiplier` (64 or 128), and
`task_ignore_result`. Workers guide: the prefork pool, the default, as large as there are cores; `--without-gossip`,
`--without-mingle` and `--without-heartbeat` save what short tasks don't need. There is no bulk interface.
"""

from __future__ import annotations

import os
from typing import Any

import redis
from celery import Celery

from benchmarks.queue.peers.adapters.adapter import Adapter as Base
from benchmarks.queue.peers.adapters.adapter import at_once, handled, payload, server

_QUEUE = "benchmarks"

app = Celery("benchmarks", broker=server().geturl())
app.conf.update(
    task_default_queue=_QUEUE,
    task_ignore_result=True,
    worker_prefetch_multiplier=64,
    worker_send_task_events=False,
    broker_connection_retry_on_startup=True,
)


@app.task(name="noop")
def noop(payload: dict[str, Any]) -> None:
    handled(payload["n"])


class Adapter(Base):
    def __init__(self) -> None:
        self._broker = redis.Redis.from_url(server().geturl())

    def set_up(self) -> None:
        """A new Redis wants nothing."""

    def enqueue_one(self, number: int) -> None:
        noop.delay(payload(number))

    def preload(self, messages: int) -> None:
        with app.producer_pool.acquire(block=True) as producer:
            for number in range(messages):
                noop.apply_async((payload(number),), producer=producer)

    def remaining(self) -> int:
        return int(self._broker.llen(_QUEUE)) + int(self._broker.hlen("unacked"))

    def work(self) -> None:
        quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel", "CRITICAL"]
        app.worker_main(
            ["worker", "--concurrency", str(at_once(2)), "--hostname", f"w{os.getpid()}@benchmarks", *quiet]
        )
