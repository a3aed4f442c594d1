"""django-tasks-db: the database backend of Django's tasks.

Its README (github.com/RealOrangeOne/django-tasks-db) has one knob for throughput, how many `db_worker` run: each
handles one task at a time. `--no-startup-delay` spares the start a second. There is no bulk interface.
"""

from __future__ import annotations

import uuid
from typing import Any

from django.core.management import call_command

from benchmarks.queue.peers.adapters import django_site
from benchmarks.queue.peers.adapters.adapter import Adapter as Base
from benchmarks.queue.peers.adapters.adapter import handled, payload

django_site.configure("django_tasks_db", TASKS={"default": {"BACKEND": "django_tasks_db.DatabaseBackend"}})

from django.tasks import task  # noqa: E402 -- needs the settings
from django_tasks_db.models import DBTaskResult, get_date_max  # noqa: E402


@task()
def noop(payload: dict[str, Any]) -> None:
    handled(payload["n"])


class Adapter(Base):
    def set_up(self) -> None:
        django_site.migrate()

    def enqueue_one(self, number: int) -> None:
        noop.enqueue(payload(number))

    def preload(self, messages: int) -> None:
        DBTaskResult.objects.bulk_create((self._row(number) for number in range(messages)), batch_size=1000)

    @staticmethod
    def _row(number: int) -> DBTaskResult:
        return DBTaskResult(
            id=uuid.uuid4(),
            args_kwargs={"args": [payload(number)], "kwargs": {}},
            priority=noop.priority,
            task_path=noop.module_path,
            queue_name=noop.queue_name,
            run_after=get_date_max(),
            backend_name="default",
        )

    def remaining(self) -> int:
        return DBTaskResult.objects.filter(status__in=("READY", "RUNNING")).count()

    def left(self) -> list[int]:
        return self._numbers("READY", "RUNNING")

    def failed(self) -> list[int]:
        return self._numbers("FAILED")

    @staticmethod
    def _numbers(*statuses: str) -> list[int]:
        return [row.args_kwargs["args"][0]["n"] for row in DBTaskResult.objects.filter(status__in=statuses)]

    def work(self) -> None:
        call_command("db_worker", startup_delay=False, verbosity=0)
