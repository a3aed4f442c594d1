"""Two signs of a dead worker, and all that looks like them in a living one. SQLite has no sessions to look at."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest
from django.conf import settings
from django.db import connection

from django_dbqueue.models import Message, Worker
from tests.process.conftest import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.django_db(transaction=True)
TEN_MINUTES = ("--lease", "600")


def send(queue: str = "test", /, **what: Any) -> Message:
    return Message.objects.enqueue(what, queue=queue)


if settings.TEST_DATABASE != "sqlite":

    def test_a_whole_worker_that_was_killed_is_found_by_another_long_before_its_lease_of_ten_minutes(
        start_worker: Callable[..., Any], tmp_path: Path
    ) -> None:
        gate = tmp_path / "gate"
        other = start_worker("--queues", "async")
        wait_until(lambda: Worker.objects.filter(queues="async").exists(), "the other worker to be there")
        messages = [send(do="until", file=str(gate)) for _ in range(3)]
        worker = start_worker(*TEN_MINUTES, "--queues", "test", "--threads", "3")
        worker.wait_for("begin", times=3)
        owner = Worker.objects.get(queues="test")
        assert owner.session_lock is not None
        assert owner.server
        for message in messages:
            row = Message.objects.get(pk=message.pk)
            assert (row.status, row.conn_id, row.worker_id) == ("run", owner.conn_id, owner.pk)
        worker.signal_all(signal.SIGKILL)
        worker.ended()
        began = time.monotonic()
        wait_until(lambda: Message.objects.ready("test").count() == 3, "three to be due again")
        print("FOUND AFTER", time.monotonic() - began)
        for message in messages:
            row = Message.objects.get(pk=message.pk)
            assert (row.read_count, row.crashes) == (1, 1)
            assert f"the named lock {owner.session_lock} of its session {owner.conn_id} is free" in str(row.error)
        assert not Worker.objects.filter(pk=owner.pk).exists()
        other.wait_for_output("session gone")
