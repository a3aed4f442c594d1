"""What async handlers ask in threads of their own: the sessions on the server stay few, and go with the handler."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from django_dbqueue.models import Message
from tests.process.conftest import wait_until
from tests.process.sessions import sessions

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.process.conftest import WorkerProcess

pytestmark = pytest.mark.django_db(transaction=True)

THREADS = 2
OWN = THREADS + 2 + 1 + 1
"""Sessions that a worker has: of its child, where it listens, too, and of its supervisor."""


def test_sessions_of_async_handlers_are_bounded_while_they_run_and_gone_afterwards(
    start_worker: Callable[..., WorkerProcess], tmp_path: Path
) -> None:
    before = sessions()
    go_on = tmp_path / "go on"
    what = {"queries": 40, "file": str(go_on)}
    Message.objects.enqueue_many([what] * 20, queue="async-crowd")
    worker = start_worker("--threads", str(THREADS), "--queues", "async-crowd")
    worker.wait_for("asked", times=THREADS)
    assert len(sessions() - before) <= OWN + 5 * THREADS
    go_on.touch()
    wait_until(lambda: Message.objects.done("async-crowd").count() == 20, lambda: f"all done; output:\n{worker.output}")
    left = wait_until(lambda: (now := sessions() - before) and len(now) <= OWN and now, "the sessions' end")
    assert len(left) <= OWN


def test_what_a_handler_leaves_running_in_such_a_thread_is_waited_for_and_its_session_is_closed(
    start_worker: Callable[..., WorkerProcess], tmp_path: Path
) -> None:
    before = sessions()
    go_on = tmp_path / "go on"
    message = Message.objects.enqueue({"queries": 3, "file": str(go_on), "cancelled": True}, queue="async-crowd")
    worker = start_worker("--queues", "async-crowd")
    worker.wait_for("asked")
    go_on.touch()
    wait_until(lambda: Message.objects.done("async-crowd").filter(pk=message.pk), lambda: worker.output)
    wait_until(lambda: len(sessions() - before) <= OWN - 1, "the sessions' end")
