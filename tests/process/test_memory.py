"""Payloads that are large beside what a worker's memory holds: none of them is an outage, and none comes for ever."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable

import pytest
from django.db import connection
from django.test import override_settings

from django_dbqueue.models import Message
from tests.process.conftest import WorkerProcess

pytestmark = pytest.mark.django_db(transaction=True)

MEBIBYTE = 1024 * 1024
LITTLE = {"DBQUEUE_TEST_MEMORY": str(110 * 1_000_000), "MALLOC_ARENA_MAX": "1"}
"""Bytes of address space beyond what a child has when it is forked, so that no import matters. Without the bound on
arenas, glibc would reserve most of it for threads."""
LARGE = 200
"""Messages of a mebibyte: nearly twice what the share holds."""


def of_about(size: int) -> dict[str, str]:
    return {"do": "ok", "blob": "x" * (size - 50)}


def test_hundreds_of_large_messages_behind_small_ones_are_done_in_little_memory_and_each_is_charged_once(
    start_worker: Callable[..., WorkerProcess],
) -> None:
    Message.objects.enqueue_many([{"do": "ok"}] * 500, queue="test")
    Message.objects.enqueue_many((of_about(MEBIBYTE) for _ in range(LARGE)), queue="test")
    worker = start_worker("--drain", "--queues", "test", "--threads", "2", **LITTLE)
    assert worker.ended() == 0, worker.output
    assert Counter(Message.objects.values_list("status", "read_count", "crashes")) == {("y", 1, 0): 500 + LARGE}
    assert "trouble" not in worker.output
    assert len(worker.notes("ok")) == 500 + LARGE


def test_a_message_that_fits_into_no_memory_is_charged_and_dies_and_holds_nothing_up(
    start_worker: Callable[..., WorkerProcess],
) -> None:
    Message.objects.enqueue({"do": "starve", "bytes": 6 * MEBIBYTE}, queue="test")
    with override_settings(DBQUEUE={"MAX_PAYLOAD_BYTES": 20 * MEBIBYTE}):
        monster = Message.objects.enqueue(of_about(10 * MEBIBYTE), queue="test", max_reads=2)
    others = [Message.objects.enqueue({"do": "ok"}, queue="test") for _ in range(5)]
    worker = start_worker("--drain", "--queues", "test", MALLOC_ARENA_MAX="1", MALLOC_MMAP_THRESHOLD_="131072")
    assert worker.ended() == 0, worker.output
    assert worker.notes("starved"), worker.output
    monster.refresh_from_db()
    if connection.vendor == "sqlite":  # a row is written by who has read it whole: only another child could
        assert (monster.status, monster.read_count, "another child takes over" in worker.output) == ("y", 1, True)
        return
    assert (monster.is_dead, monster.read_count, monster.crashes) == (True, 2, 0)
    assert monster.error is not None
    assert "MemoryError: the payload does not fit into the memory of the worker, or into a packet" in monster.error
    assert Message.objects.done("test").filter(pk__in=[each.pk for each in others]).count() == 5
    assert "trouble" not in worker.output


def test_a_claim_that_does_not_fit_into_memory_asks_for_fewer_and_all_is_done(
    start_worker: Callable[..., WorkerProcess],
) -> None:
    Message.objects.enqueue({"do": "starve", "bytes": 40 * MEBIBYTE}, queue="test", priority=1)
    Message.objects.enqueue_many([{"do": "ok"}] * 300, queue="test")
    Message.objects.enqueue_many((of_about(200_000) for _ in range(400)), queue="test")
    worker = start_worker("--drain", "--queues", "test", "--batch-bytes", "100000000", MALLOC_ARENA_MAX="1")
    assert worker.ended() == 0, worker.output
    logged = re.findall(
        r"a claim of (\d+) messages does not fit into memory .*; claiming (\d+) from now on", worker.output
    )
    assert logged, worker.output
    assert all(int(fewer) == max(1, int(many) // 2) for many, fewer in logged), logged
    assert Counter(Message.objects.values_list("status", "crashes")) == {("y", 0): 701}
