"""steady-queue: a backend of Django's tasks in the database, after Rails' Solid Queue.

Its README (github.com/knifecake/steady-queue) has these knobs for throughput: `threads`, three of them by default, as
many as a worker takes at once; `processes`, for which the contest's own count stands; `polling_interval`, 0.1 seconds
by default, which matters to an idle worker alone; and a pool of as many sessions and two more, since a thread closes
its own after each task. On MySQL Django has no pool. It names PostgreSQL, MySQL and SQLite, and no call for many.

Under faults: a heartbeat each 2 seconds and processes taken for dead after 8 (`process_heartbeat_interval`,
`process_alive_threshold`: 60 and 300). What a dead one held is recorded as failed, and nobody but a person in the admin
retries that; neither is a task retried that raises.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import steady_queue
from django.core.management import call_command
from steady_queue.configuration import Configuration

from benchmarks.queue.peers.adapters import django_site
from benchmarks.queue.peers.adapters.adapter import IN_FAULTS, at_once, handled, payload
from benchmarks.queue.peers.adapters.adapter import Adapter as Base

_THREADS = at_once(3)

if IN_FAULTS:
    steady_queue.process_heartbeat_interval = timedelta(seconds=2)
    steady_queue.process_alive_threshold = timedelta(seconds=8)

django_site.configure(
    "steady_queue",
    pool=_THREADS + 2,
    TASKS={"default": {"BACKEND": "steady_queue.backend.SteadyQueueBackend"}},
    STEADY_QUEUE=Configuration.Options(workers=[Configuration.Worker(threads=_THREADS)], skip_recurring=True),
)

from django.tasks import task  # noqa: E402 -- needs the settings
from steady_queue.arguments import Arguments  # noqa: E402
from steady_queue.models import Job, ReadyExecution  # noqa: E402


@task()
def noop(payload: dict[str, Any]) -> None:
    handled(payload["n"])


class Adapter(Base):
    def set_up(self) -> None:
        django_site.migrate()

    def enqueue_one(self, number: int) -> None:
        noop.enqueue(payload(number))

    def preload(self, messages: int) -> None:
        rows = (Job(**Job.attributes_from_django_task(noop, [payload(number)], {})) for number in range(messages))
        Job.objects.bulk_create(rows, batch_size=1000)
        ReadyExecution.objects.create_all_from_jobs(Job.objects.order_by("id"))

    def remaining(self) -> int:
        return int(Job.objects.filter(finished_at=None).count())

    def left(self) -> list[int]:
        return self._numbers(failed_execution=None)

    def failed(self) -> list[int]:
        return self._numbers(failed_execution__isnull=False)

    @staticmethod
    def _numbers(**words: Any) -> list[int]:
        rows = Job.objects.filter(finished_at=None, **words).values_list("arguments", flat=True)
        return [Arguments.deserialize_args_and_kwargs(row["arguments"])[0][0]["n"] for row in rows]

    def work(self) -> None:
        call_command("steady_queue", verbosity=0)
