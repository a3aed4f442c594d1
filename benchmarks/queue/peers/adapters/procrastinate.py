"""procrastinate: tasks in PostgreSQL, run by an asynchronous worker.

procrastinate.readthedocs.io, How-to: concurrency of an asynchronous task (20 at a time), with as many connections in
the pool as that needs; finished jobs deleted, `delete_jobs=successful`; many jobs deferred at once by `batch_defer`.
Django's integration defers by the same statements, and so the bare one is measured.
"""

from __future__ import annotations

from typing import Any

import procrastinate

from benchmarks.queue.peers.adapters.adapter import Adapter as Base
from benchmarks.queue.peers.adapters.adapter import payload, server
from benchmarks.queue.probe import hit

_CONCURRENCY = 20
_BATCH = 1000
_PLACE = server()._replace(scheme="postgresql").geturl()

worker_app = procrastinate.App(
    connector=procrastinate.PsycopgConnector(conninfo=_PLACE, min_size=1, max_size=_CONCURRENCY + 4)
)


@worker_app.task(name="noop", queue="benchmarks")
async def noop(payload: dict[str, Any]) -> None:
    hit(payload["n"])


class Adapter(Base):
    def __init__(self) -> None:
        self._app = procrastinate.App(connector=procrastinate.SyncPsycopgConnector(conninfo=_PLACE)).open()
        self._noop = self._app.configure_task("noop", queue="benchmarks", allow_unknown=True)

    def set_up(self) -> None:
        self._app.schema_manager.apply_schema()

    def enqueue_one(self, number: int) -> None:
        self._noop.defer(payload=payload(number))

    def enqueue_bulk(self, messages: int) -> None:
        for first in range(0, messages, _BATCH):
            numbers = range(first, min(first + _BATCH, messages))
            self._noop.batch_defer(*({"payload": payload(number)} for number in numbers))

    def preload(self, messages: int) -> None:
        self.enqueue_bulk(messages)

    def remaining(self) -> int:
        sql = "SELECT count(*) AS n FROM procrastinate_jobs WHERE status IN ('todo', 'doing')"
        return int(self._app.connector.get_sync_connector().execute_query_one(sql)["n"])

    def work(self) -> None:
        worker_app.run_worker(queues=["benchmarks"], concurrency=_CONCURRENCY, delete_jobs="successful")
