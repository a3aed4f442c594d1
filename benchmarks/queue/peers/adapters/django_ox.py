"""django-ox: a backend of Django's tasks in the database, with leases and retries.

Its README (github.com/oxpull/django-ox) has two knobs for throughput: `--processes`, for which the contest's own count
stands, and `--concurrency`, threads for tasks that wait: 2, 4 and 8 drained these no faster than 1, its default. It
compares itself with connections that persist, as they do here. `enqueue_many` is its interface for many. It needs
Python 3.12, and names PostgreSQL, MySQL and SQLite.

Under faults: `LOCK_TIMEOUT`, after which what a worker held comes again, of 8 seconds instead of 300; more attempts,
and sooner.
"""

from __future__ import annotations

from typing import Any

from django.core.management import call_command

from benchmarks.queue.peers.adapters import django_site
from benchmarks.queue.peers.adapters.adapter import IN_FAULTS, at_once, handled, payload
from benchmarks.queue.peers.adapters.adapter import Adapter as Base

_SOON = {"LOCK_TIMEOUT": 8, "MAX_ATTEMPTS": 20, "BACKOFF_INITIAL": 1, "BACKOFF_MAX": 2} if IN_FAULTS else {}

django_site.configure(
    "django_ox",
    TASKS={"default": {"BACKEND": "django_ox.backend.OxBackend", "OPTIONS": _SOON}},
)

from django.tasks import task  # noqa: E402 -- needs the settings
from django_ox.bulk import enqueue_many  # noqa: E402
from django_ox.models import OxTask  # noqa: E402

_BATCH = 1000


@task()
def noop(payload: dict[str, Any]) -> None:
    handled(payload["n"])


class Adapter(Base):
    def set_up(self) -> None:
        django_site.migrate()

    def enqueue_one(self, number: int) -> None:
        noop.enqueue(payload(number))

    def enqueue_bulk(self, messages: int) -> None:
        enqueue_many(noop, [((payload(number),), {}) for number in range(1, messages + 1)])

    def preload(self, messages: int) -> None:
        for first in range(0, messages, _BATCH):
            last = min(first + _BATCH, messages)
            enqueue_many(noop, [((payload(number),), {}) for number in range(first, last)])

    def remaining(self) -> int:
        return int(OxTask.objects.filter(status__in=("READY", "RUNNING")).count())

    def left(self) -> list[int]:
        return self._numbers("READY", "RUNNING")

    def failed(self) -> list[int]:
        return self._numbers("FAILED", "LOST")

    @staticmethod
    def _numbers(*statuses: str) -> list[int]:
        return [row.args[0]["n"] for row in OxTask.objects.filter(status__in=statuses)]

    def work(self) -> None:
        call_command("ox_worker", concurrency=at_once(1), verbosity=0)
