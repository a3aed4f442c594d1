"""What coroutines ask in threads: the sessions on the server stay few, however many ask, and go with the child."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from django_dbqueue.models import Message
from tests.process.conftest import WorkerProcess, wait_until
from tests.process.sessions import sessions

pytestmark = pytest.mark.django_db(transaction=True)

THREADS = 2
OWN = THREADS + 2 + 1 + 1
"""Sessions that a worker has: of its child, where it listens, too, and of its supervisor."""
OF_COROUTINES = 9
"""Sessions of the threads that all coroutines share."""
CROWD = 100


def test_sessions_of_coroutines_are_bounded_and_gone_with_their_child(
    start_worker: Callable[..., WorkerProcess], tmp_path: Path
) -> None:
    before = sessions()
    go_on = tmp_path / "go on"
    Message.objects.enqueue_many([{"queries": 10, "file": str(go_on)}] * CROWD, queue="async-crowd")
    Message.objects.enqueue_many([{"do": "query"}] * CROWD, queue="coroutines")
    worker = start_worker(
        "--threads", str(THREADS), "--concurrency", str(2 * CROWD), "--queues", "async-crowd,coroutines"
    )
    worker.wait_for("asked", times=CROWD)
    worker.wait_for("queried", times=CROWD)
    assert OWN < len(sessions() - before) <= OWN + OF_COROUTINES
    go_on.touch()
    wait_until(lambda: Message.objects.done().count() == 2 * CROWD, lambda: f"all done; output:\n{worker.output}")
    assert len(sessions() - before) <= OWN + OF_COROUTINES
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0, worker.output
    wait_until(lambda: not sessions() - before, "the sessions' end")


def test_what_a_coroutine_leaves_running_in_a_thread_is_waited_for(
    start_worker: Callable[..., WorkerProcess], tmp_path: Path
) -> None:
    go_on = tmp_path / "go on"
    message = Message.objects.enqueue({"queries": 3, "file": str(go_on), "cancelled": True}, queue="async-crowd")
    worker = start_worker("--queues", "async-crowd,coroutines")
    worker.wait_for("asked")
    other = Message.objects.enqueue({"do": "ok"}, queue="coroutines")
    wait_until(lambda: Message.objects.done("coroutines").filter(pk=other.pk), lambda: worker.output)
    assert Message.objects.running("async-crowd").filter(pk=message.pk)
    go_on.touch()
    wait_until(lambda: Message.objects.done("async-crowd").filter(pk=message.pk), lambda: worker.output)
