"""threadmill: a backend of Django's tasks on Redis, which syncs its log each second, not each message.

Its README (github.com/codingjoe/threadmill) has these knobs for throughput: `--workers`, processes, one here, as in its
own comparison; `--threads`, one by default; `--prefetch-count`, four for each thread by default, and a hundred here, as
many as its broker moves in one pass (`batch_size`). It needs Python 3.14, and this one has the GIL: a free-threaded one
isn't taken.
"""

from __future__ import annotations

import os
from typing import Any

import django
from django.core.management import execute_from_command_line

from benchmarks.queue.peers.adapters.adapter import Adapter as Base
from benchmarks.queue.peers.adapters.adapter import at_once, handled, payload

os.environ["DJANGO_SETTINGS_MODULE"] = "benchmarks.queue.peers.adapters.threadmill_settings"
django.setup()

from django.tasks import TaskResultStatus, task, task_backends  # noqa: E402 -- needs the settings

_PREFETCHED = 100


@task()
def noop(payload: dict[str, Any]) -> None:
    handled(payload["n"])


class Adapter(Base):
    def set_up(self) -> None:
        """A new Redis wants nothing."""

    def enqueue_one(self, number: int) -> None:
        noop.enqueue(payload(number))

    def preload(self, messages: int) -> None:
        for number in range(messages):
            self.enqueue_one(number)

    def remaining(self) -> int:
        backend: Any = task_backends["default"]
        keys = [
            backend._segment_key(status, "default") for status in (TaskResultStatus.READY, TaskResultStatus.RUNNING)
        ]
        return sum(int(backend.client.zcard(key)) for key in keys)

    def work(self) -> None:
        size = ["--workers", "1", "--threads", str(at_once(1)), "--prefetch-count", str(_PREFETCHED)]
        execute_from_command_line(["manage.py", "threadmill", "worker", *size])
