"""Queues that have messages and no consumer here."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection, transaction

from django_dbqueue.models import Message
from tests.factories import dead
from tests.process.conftest import wait_until

pytestmark = pytest.mark.django_db(transaction=True)
UNSERVED = "no consumer registered here, so the messages stay there: "


def test_a_queue_without_consumer_is_named_once_however_often_its_child_is_replaced(
    start_worker: Callable[..., Any],
) -> None:
    Message.objects.enqueue({}, queue="nobodys")
    Message.objects.enqueue({}, queue="nobodys-later", delay=600)
    dead(queue="nobodys-dead")
    Message.objects.enqueue({}, queue="tset")
    worker = start_worker()
    worker.wait_for_output(f"2 queues have messages but {UNSERVED}nobodys, tset (did you mean test?)\n")
    for _ in range(2):
        running = Message.objects.enqueue({"do": "sleep", "seconds": 300}, queue="test", max_reads=1)
        [begun] = worker.wait_for("begin", running.pk)
        os.kill(begun["pid"], signal.SIGKILL)
        worker.wait_for("ok", Message.objects.enqueue({"do": "ok"}, queue="test").pk)
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0
    assert worker.output.count(UNSERVED) == 1


def test_20_000_queues_without_consumer_are_one_line_by_a_child_and_none_of_the_supervisors_work(
    start_worker: Callable[..., Any],
) -> None:
    crowd(20_000)
    worker = start_worker()
    first = Message.objects.enqueue({"do": "sleep", "seconds": 300}, queue="test", max_reads=1)
    [begun] = worker.wait_for("begin", first.pk)
    Message.objects.enqueue({"do": "ok"}, queue="test")
    os.kill(begun["pid"], signal.SIGKILL)
    worker.wait_for("ok")
    worker.wait_for_output(f"20000 queues have messages but {UNSERVED}nobodys-00000, nobodys-00001, ")
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0
    assert worker.output.count(UNSERVED) == 1
    assert "nobodys-00009 and 19990 more\n" in worker.output
    [line] = [line for line in worker.output.splitlines() if UNSERVED in line]
    assert f"[{worker.process.pid}]" not in line, "the supervisor's only thread looks after its children"
    wait_until(lambda: Message.objects.in_queue("nobodys-19999").ready().count() == 1, "the last one stays")


def crowd(count: int) -> None:
    """Send one message to each of ``count`` queues."""
    with transaction.atomic():
        Message.objects.enqueue({}, queue="nobodys-00000")
        columns = ", ".join(
            connection.ops.quote_name(field.column)
            for field in Message._meta.concrete_fields
            if not field.primary_key and field.name != "queue"
        )
        with connection.cursor() as cursor:
            for start in range(1, count, 500):
                names = [f"nobodys-{number:05}" for number in range(start, min(start + 500, count))]
                rows = " UNION ALL ".join(["SELECT %s AS name"] * len(names))
                cursor.execute(
                    f"INSERT INTO django_dbqueue_message (queue, {columns}) SELECT names.name, {columns} "
                    f"FROM django_dbqueue_message CROSS JOIN ({rows}) AS names WHERE queue = 'nobodys-00000'",
                    names,
                )
