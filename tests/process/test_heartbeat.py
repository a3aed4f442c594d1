"""A heartbeat that meets with trouble goes on, and one that ends takes its child along."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from django_dbqueue.models import Message
from tests.process.conftest import wait_until

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def fault(tmp_path: Path) -> Path:
    return tmp_path / "fault"


@pytest.fixture
def start_sick_worker(start_worker: Callable[..., Any], fault: Path) -> Callable[..., Any]:
    """Start a worker that runs one message on a lease of two seconds, until the gate is opened."""

    def start(*arguments: str) -> Any:
        return start_worker(
            *arguments, DJANGO_SETTINGS_MODULE="tests.process.sick_settings", DBQUEUE_TEST_FAULT=str(fault)
        )

    return start


def lease_moves(message: Message, times: int) -> None:
    """Wait until its lease was extended so often."""
    for _ in range(times):
        before = Message.objects.get(pk=message.pk).available_at
        wait_until(lambda before=before: Message.objects.get(pk=message.pk).available_at > before, "an extension")


@contextmanager
def table_of_workers_hidden() -> Iterator[None]:
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE django_dbqueue_worker RENAME TO hidden_workers")
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE hidden_workers RENAME TO django_dbqueue_worker")


def until(gate: Path) -> Message:
    return Message.objects.enqueue({"do": "until", "file": str(gate)}, queue="short-lease")


def done_at_its_first_read(message: Message) -> bool:
    return bool(Message.objects.done("short-lease").filter(pk=message.pk, read_count=1).exists())


def test_a_beat_that_fails_for_long_by_an_error_of_nobodys_database_keeps_no_lease_from_being_extended(
    start_sick_worker: Callable[..., Any], fault: Path, tmp_path: Path
) -> None:
    message = until(tmp_path / "gate")
    worker = start_sick_worker()
    worker.wait_for("begin", message.pk)
    fault.write_text("KeyError")
    worker.wait_for_output("the heartbeat failed, retrying: KeyError('as told')")
    lease_moves(message, 4)
    fault.unlink()
    (tmp_path / "gate").touch()
    wait_until(lambda: done_at_its_first_read(message), "its end")
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0
    assert worker.output.count("the heartbeat failed") == 1, "said once, not each time"


def test_a_beat_that_fails_for_long_by_an_error_of_the_database_keeps_no_lease_from_being_extended(
    start_worker: Callable[..., Any], tmp_path: Path
) -> None:
    message = until(tmp_path / "gate")
    worker = start_worker()
    worker.wait_for("begin", message.pk)
    with table_of_workers_hidden():
        worker.wait_for_output("the heartbeat can't reach the database, retrying")
        lease_moves(message, 4)
    (tmp_path / "gate").touch()
    wait_until(lambda: done_at_its_first_read(message), "its end")


def test_a_heartbeat_that_ends_unasked_ends_its_child_and_another_one_runs_the_message(
    start_sick_worker: Callable[..., Any], fault: Path, tmp_path: Path
) -> None:
    message = until(tmp_path / "gate")
    worker = start_sick_worker("--lease", "600")
    [first] = worker.wait_for("begin", message.pk)
    fault.write_text("SystemExit")
    worker.wait_for_output("the heartbeat has ended, so its process exits")
    fault.unlink()
    notes = worker.wait_for("begin", message.pk, times=2)
    assert notes[1]["pid"] != first["pid"]
    (tmp_path / "gate").touch()
    wait_until(lambda: Message.objects.get(pk=message.pk).status == "y", "its end")
