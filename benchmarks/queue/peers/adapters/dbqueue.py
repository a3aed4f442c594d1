"""This queue, for the scoreboard of faults: `transactional=True`, and in the adapter `dbqueue_plain` without it.

Leases of five seconds, so that what a frozen worker holds comes again within the run; everything else is its default.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from django.core.management import call_command
from django.db import connection

from benchmarks.faults import handler
from benchmarks.queue.peers.adapters import django_site
from benchmarks.queue.peers.adapters.adapter import Adapter as Base
from benchmarks.queue.peers.adapters.adapter import payload

if TYPE_CHECKING:
    from collections.abc import Callable

QUEUE = "benchmarks"
OPTIONS: dict[str, Any] = {"lease": 5, "backoff": 1, "backoff_max": 2, "max_reads": 20}

django_site.configure("django_dbqueue")

from django_dbqueue import consumer  # noqa: E402 -- needs the settings
from django_dbqueue.models import Message  # noqa: E402


def transactional(message: Message) -> None:
    """Write with the ack, through Django's connection."""
    handler.wait_to_be_killed(message.payload["n"])
    time.sleep(handler.WORK)
    with connection.cursor() as cursor:
        cursor.execute(handler.INSERT, [message.payload["n"]])
    handler.fail_if_planned(message.payload["n"])
    time.sleep(handler.WORK)


class Adapter(Base):
    consume: Callable[[Message], None] = staticmethod(transactional)
    is_transactional = True

    def set_up(self) -> None:
        django_site.migrate()

    def enqueue_one(self, number: int) -> None:
        Message.objects.enqueue(payload(number), queue=QUEUE)

    def preload(self, messages: int) -> None:
        for number in range(messages):
            self.enqueue_one(number)

    def remaining(self) -> int:
        return len(self.left())

    def left(self) -> list[int]:
        rows = Message.objects.filter(queue=QUEUE).exclude(status="y").exclude(status="n", available_at=None)
        return [row.payload["n"] for row in rows]

    def failed(self) -> list[int]:
        return [row.payload["n"] for row in Message.objects.dead(QUEUE)]

    def work(self) -> None:
        consumer(QUEUE, transactional=self.is_transactional, **OPTIONS)(self.consume)
        call_command("run_queue_worker", queues=QUEUE, processes=2, threads=2, verbosity=0)
