"""procrastinate: tasks in PostgreSQL, run by an asynchronous worker.

procrastinate.readthedocs.io, How-to: concurrency of an asynchronous task (20 at a time), with as many connections in
the pool as that needs; finished jobs deleted, `delete_jobs=successful`; many jobs deferred at once by `batch_defer`.
Django's integration defers by the same statements, and so the bare one is measured.

Under faults: `retry`, and its how-to Retry stalled jobs: a periodic task retries the jobs of workers whose heartbeat is
late. Its defaults (a heartbeat each 10 seconds, stalled after 30) are shortened to 2 and 8, as the manager's docstring
says.
"""

from __future__ import annotations

from typing import Any

import procrastinate

from benchmarks.queue.peers.adapters.adapter import IN_FAULTS, at_once, handled_in_a_coroutine, payload, server
from benchmarks.queue.peers.adapters.adapter import Adapter as Base

_CONCURRENCY = at_once(20)
_BATCH = 1000
_HEARTBEAT = 2.0
_STALLED = 8.0
"""Seconds."""
_PLACE = server()._replace(scheme="postgresql").geturl()

worker_app = procrastinate.App(
    connector=procrastinate.PsycopgConnector(conninfo=_PLACE, min_size=1, max_size=_CONCURRENCY + 4)
)


_RETRIES = procrastinate.RetryStrategy(max_attempts=20, wait=1) if IN_FAULTS else False


@worker_app.task(name="noop", queue="benchmarks", retry=_RETRIES)
async def noop(payload: dict[str, Any]) -> None:
    await handled_in_a_coroutine(payload["n"])


async def retry_stalled_jobs(timestamp: int) -> None:  # noqa: ARG001 -- it is passed by name
    for job in await worker_app.job_manager.get_stalled_jobs(seconds_since_heartbeat=_STALLED):
        await worker_app.job_manager.retry_job(job)


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

    def left(self) -> list[int]:
        return self._numbers("'todo', 'doing'")

    def failed(self) -> list[int]:
        return self._numbers("'failed'")

    def _numbers(self, statuses: str) -> list[int]:
        jobs = f"procrastinate_jobs WHERE queue_name = 'benchmarks' AND status IN ({statuses})"
        sql = f"SELECT args->'payload'->>'n' AS n FROM {jobs}"
        return [int(row["n"]) for row in self._app.connector.get_sync_connector().execute_query_all(sql)]

    def work(self) -> None:
        if IN_FAULTS:
            periodic = worker_app.task(name="retry_stalled_jobs", queue="upkeep", queueing_lock="retry_stalled_jobs")
            worker_app.periodic(cron="* * * * * */4")(periodic(retry_stalled_jobs))
            beats = {"update_heartbeat_interval": _HEARTBEAT, "stalled_worker_timeout": _STALLED}
            worker_app.run_worker(queues=["benchmarks", "upkeep"], concurrency=_CONCURRENCY, **beats)
            return
        worker_app.run_worker(queues=["benchmarks"], concurrency=_CONCURRENCY, delete_jobs="successful")
