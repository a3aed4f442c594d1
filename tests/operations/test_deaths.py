"""Whatever dies, and wherever: each message is moved once, and the operation's counts are exact."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from django_dbqueue.models import BulkOperation, Message, MessageEvent
from django_dbqueue.models.fields import DbNow
from django_dbqueue.operations import bulk
from django_dbqueue.sessions.django_session import session_of
from django_dbqueue.worker.maintenance import Maintenance
from tests.factories import QUEUE, waiting
from tests.operations.orders import OPERATIONS, counts, next_step, order, select
from tests.operations.test_bulk import dead_many
from tests.patience import patience
from tests.process.conftest import start_worker, wait_until

__all__ = ["start_worker"]

pytestmark = pytest.mark.django_db(transaction=True)

SECONDS = {"DBQUEUE_TEST_SETTINGS": json.dumps({"QUEUES": {OPERATIONS: {"lease": 3.0}}})}
"""On SQLite a dead worker is known by the end of its lease only."""


def moved_once(operation: BulkOperation, ids: list[int]) -> None:
    """The operation has said what it did, and what it did was done to each message once."""
    assert counts(operation) == ("done", len(ids), 0)
    dropped = MessageEvent.objects.filter(kind="dropped", message_id__in=ids).values_list("message_id", flat=True)
    assert Counter(dropped) == Counter(ids)
    assert Message.objects.done(QUEUE).filter(pk__in=ids).count() == len(ids)


def test_a_process_that_is_killed_before_every_statement_in_turn_leaves_no_message_moved_twice(
    worker_env: dict[str, str],
) -> None:
    ids = dead_many(12)
    operation = order()
    deaths = 0
    while counts(operation)[0] == "running":
        process = subprocess.run(
            [sys.executable, "-m", "tests.operations.dying", str(deaths + 1)],
            env=worker_env,
            check=False,
            timeout=patience(120),
        )
        if process.returncode != -signal.SIGKILL:
            assert process.returncode == 0
            break
        deaths += 1
        assert Message.objects.done(QUEUE).count() == counts(operation)[1], "the count and the moves are one commit"
        Message.objects.in_queue(OPERATIONS).filter(status="run").update(available_at=DbNow(), max_reads=0)
        Message.objects.rescue(OPERATIONS)
    assert deaths > 20
    moved_once(operation, ids)


def test_workers_that_are_killed_leave_the_rest_to_the_next_one(start_worker: Callable[..., Any]) -> None:
    ids = dead_many(6 * bulk.STEP)
    operation = order()
    killed_at = []
    for part in (1, 2, 4):
        worker = start_worker("--processes", "2", **SECONDS)
        wait_until(lambda part=part: counts(operation)[1] >= part * bulk.STEP, "some steps")
        worker.signal_all(signal.SIGKILL)
        worker.ended()
        killed_at.append(counts(operation)[1])
    start_worker("--processes", "2", **SECONDS)
    wait_until(lambda: counts(operation)[0] != "running", "the operation's end")
    moved_once(operation, ids)
    assert killed_at == sorted(killed_at)


def test_a_worker_that_names_other_queues_leaves_operations_alone_and_one_that_names_theirs_does_them(
    start_worker: Callable[..., Any],
) -> None:
    ids = dead_many(3)
    operation = order()
    other = waiting(payload={"do": "ok"}, queue="test")
    worker = start_worker("--queues", "test", "--drain")
    assert worker.ended() == 0
    assert Message.objects.done("test").get().pk == other.pk
    assert counts(operation) == ("running", 0, 0)
    worker = start_worker("--queues", f"test,{OPERATIONS}", "--drain")
    assert worker.ended() == 0
    moved_once(operation, ids)


def test_operations_that_rest_cost_a_worker_no_statement(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(random, "uniform", lambda _least, most: most)  # what is done once a minute, at its end
    spent = []
    for queues in ((QUEUE,), (QUEUE, OPERATIONS)):
        maintenance = Maintenance(session_of("default"), queues)
        maintenance.run(0.0)
        with CaptureQueriesContext(connection) as queries:
            for second in range(1, 20):
                maintenance.run(second * 1.01)
        spent.append(len(queries))
    assert spent[0] == spent[1]
    assert maintenance.idle_poll.closed == {OPERATIONS}


def test_a_worker_notices_an_operation_within_a_second_and_until_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "STEP", 2)
    maintenance = Maintenance(session_of("default"), (QUEUE, OPERATIONS))
    maintenance.run(0.0)
    dead_many(5)
    order("drop", select())
    maintenance.run(1.01)
    assert maintenance.idle_poll.closed == set()
    while next_step():
        pass
    maintenance.run(2.02)
    assert maintenance.idle_poll.closed == {OPERATIONS}
