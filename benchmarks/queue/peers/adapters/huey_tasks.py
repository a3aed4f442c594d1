"""huey as a backend of Django's tasks, with its queue in PostgreSQL; `huey_tasks_redis` has it in Redis.

huey.readthedocs.io, Django: `HUEY` names the storage and how many workers the consumer has, threads by default; four of
them. The backend stores a record of each task, with its result, beside it. Its connection is its own, so a task doesn't
commit with the caller's rows. It deletes a task before it runs it, and so promises at most once.
"""

from __future__ import annotations

from typing import Any

from django.core.management import call_command

from benchmarks.queue.peers.adapters import django_site
from benchmarks.queue.peers.adapters.adapter import Adapter as Base
from benchmarks.queue.peers.adapters.adapter import at_once, handled, payload, server

_WORKERS = at_once(4)
_PLACES = {
    "postgres": {"huey_class": "huey.PostgresHuey", "dsn": server()._replace(scheme="postgresql").geturl()},
    "redis": {"huey_class": "huey.RedisHuey", "url": server().geturl()},
}

django_site.configure(
    "huey.contrib.djhuey",
    TASKS={"default": {"BACKEND": "huey.contrib.djhuey.tasks_backend.HueyBackend"}},
    HUEY={
        "name": "benchmarks",
        "consumer": {"workers": _WORKERS, "worker_type": "thread", "periodic": False},
        **_PLACES[server().scheme],
    },
)

from django.tasks import task  # noqa: E402 -- needs the settings
from huey.contrib.djhuey import HUEY  # noqa: E402


@task()
def noop(payload: dict[str, Any]) -> None:
    handled(payload["n"])


class Adapter(Base):
    def set_up(self) -> None:
        """Making the storage has made its tables."""

    def enqueue_one(self, number: int) -> None:
        noop.enqueue(payload(number))

    def preload(self, messages: int) -> None:
        for number in range(messages):
            self.enqueue_one(number)

    def remaining(self) -> int:
        return int(HUEY.storage.queue_size())

    def work(self) -> None:
        call_command("run_huey", verbosity=0)
