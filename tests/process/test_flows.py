"""Flows under workers that are killed: what comes after all runs once, with all results, at their end (P22)."""

from __future__ import annotations

import json
import random
import signal
import time
from collections.abc import Callable
from typing import Any

import pytest

from django_dbqueue import Envelope, flow
from django_dbqueue.models import Edge, Flow, Message
from django_dbqueue.worker.maintenance import KEEP_EVERY
from tests.process.conftest import wait_until, whole_lines

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]
PARTS = 600


def send(*, dying: int = 0) -> int:
    with flow("sum") as f:
        items = [{"number": number, "die": number < dying} for number in range(PARTS)]
        parts = f.enqueue_many(items, queue="flow-parts")
        others = f.enqueue_many([{"number": 1}] * PARTS, queue="flow-parts-async")
        last = f.enqueue(Envelope("sum"), queue="flow-sum", after=[parts, others])
        f.enqueue({"number": 0}, queue="flow-parts", after=last)
    return f.id


def sums(worker: Any) -> list[dict[str, Any]]:
    return [note for note in map(json.loads, whole_lines(worker.log)) if note["step"] == "sum"]


def assert_has_ended(number: int, worker: Any) -> None:
    progress = Flow.objects.get(pk=number).progress()
    assert (progress.total, progress.finished, progress.dead) == (2 * PARTS + 2, 2 * PARTS + 2, 0)
    assert not Edge.objects.exists()
    [found] = sums(worker)
    assert (found["count"], found["total"]) == (2 * PARTS, PARTS * (PARTS - 1) // 2 + PARTS)


def test_what_comes_after_all_of_them_runs_once_and_waits_for_no_keeper(start_worker: Callable[..., Any]) -> None:
    number = send()
    worker = start_worker("--queues", "flow-parts,flow-parts-async,flow-sum", "--threads", "4")
    wait_until(lambda: not Message.objects.exclude(status="y").exists(), lambda: f"the end: {worker.output}")
    assert_has_ended(number, worker)
    ended = Message.objects.filter(queue__startswith="flow-parts", headers_text=None).latest("finished_at").finished_at
    began = Message.objects.get(queue="flow-sum").claimed_at
    assert began is not None
    assert ended is not None
    assert (began - ended).total_seconds() < KEEP_EVERY - 1, "who ended last looked; the keeper did not have to"


def test_workers_and_children_that_are_killed_leave_none_behind(start_worker: Callable[..., Any]) -> None:
    number = send(dying=5)
    arguments = ("--queues", "flow-parts,flow-parts-async,flow-sum", "--threads", "4", "--processes", "2")
    workers = [start_worker(*arguments) for _ in range(2)]
    until = time.monotonic() + 60

    def has_ended() -> bool:
        if time.monotonic() < until - 50 and Message.objects.exclude(status="y").count() > 5:
            victim = random.randrange(2)
            workers[victim].process.send_signal(signal.SIGKILL)
            workers[victim] = start_worker(*arguments)
        return not Message.objects.exclude(status="y").exists()

    wait_until(has_ended, lambda: f"the end: {workers[0].output} {workers[1].output}")
    assert_has_ended(number, workers[0])
