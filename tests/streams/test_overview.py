"""What operators see of a queue that a stream consumes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.commands.running import run
from tests.factories import QUEUE, waiting
from tests.streams.conftest import Query

pytestmark = pytest.mark.django_db(transaction=True)


def seen() -> Any:
    [queue] = run("queue_status", "--json").document["queues"]
    return queue


def test_a_queue_needs_no_worker_while_a_query_consumes_it(query: Callable[..., Query]) -> None:
    running = query()
    assert seen()["queue"] == QUEUE, "its queue is shown before it has a message"
    waiting()
    assert (seen()["streams"], seen()["wrong"]) == (["s"], [])
    assert run("queue_status").out.splitlines()[1].endswith("  open; streams: s")
    running.die()
    assert (seen()["streams"], seen()["wrong"]) == ([], ["no-worker"])
    assert run("queue_status").out.splitlines()[1].endswith("  no worker")
