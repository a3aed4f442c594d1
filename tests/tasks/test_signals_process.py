"""``task_finished`` in real workers: a task that is killed at its last attempt has ended, and that is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from django_dbqueue.tasks import wait_for
from tests.process.conftest import PATIENCE

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_task_that_is_killed_at_its_last_attempt_is_signalled_by_the_supervisor(
    start_worker: Callable[..., Any], jobs: Any
) -> None:
    killed, done = jobs.end_the_process.enqueue(), jobs.add.enqueue(1, 2)
    worker = start_worker("--drain", "--queues", "default", DJANGO_SETTINGS_MODULE="tests.tasks.logging_settings")
    worker.ended()
    wait_for(killed, timeout=PATIENCE)
    done.refresh()
    assert (killed.status, done.status) == ("FAILED", "SUCCESSFUL")
    lines = [line for line in worker.output.splitlines() if f"id={killed.id} " in line and "state=FAILED" in line]
    assert len(lines) == 1, worker.output
