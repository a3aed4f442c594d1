"""Steps under real workers: threads and coroutines are suspended and woken, from wherever the event comes (P21)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connections

from django_dbqueue.models import Event, Message
from tests.process.conftest import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]
KINDS = pytest.mark.parametrize("queue", ["stepping", "stepping-async"])


def notes_of(worker: Any, message: Message) -> list[str]:
    return [note["step"] for note in worker.notes(message_id=message.pk)]


@KINDS
def test_a_drain_waits_for_a_short_sleep_and_the_handler_continues_behind_it(
    drain: Callable[..., Any], queue: str
) -> None:
    message = Message.objects.enqueue({"nap": 1}, queue=queue)
    worker = drain("--queues", queue)
    assert notes_of(worker, message) == ["begin", "first", "begin", "end"]
    assert "worker ended: 1 done, 0 failed and retried, 0 dead, 0 released" in worker.output
    assert Message.objects.get(pk=message.pk).read_count == 1


@KINDS
def test_a_drain_does_not_wait_for_a_long_sleep_or_an_event(drain: Callable[..., Any], queue: str) -> None:
    sleeper = Message.objects.enqueue({"nap": 7_200}, queue=queue)
    waiter = Message.objects.enqueue({"events": ["never"]}, queue=queue)
    worker = drain("--queues", queue)
    assert notes_of(worker, sleeper) == notes_of(worker, waiter) == ["begin", "first"]
    assert Message.objects.filter(status="n", read_count=0, crashes=0, error=None).count() == 2


@KINDS
def test_an_emit_in_another_process_wakes_who_waits_once_however_they_meet(
    start_worker: Callable[..., Any], queue: str
) -> None:
    """Some events are there before the wait, some come while it begins, and some after it."""
    names = [f"event {number}" for number in range(40)]
    for name in names[:10]:
        Event.objects.emit(name)
    messages = [Message.objects.enqueue({"events": [name]}, queue=queue) for name in names]
    emitting = threading.Thread(target=_emit, args=(names[10:30],))
    worker = start_worker("--queues", queue, "--threads", "3")
    worker.wait_for("begin")
    emitting.start()
    emitting.join()
    wait_until(
        lambda: Message.objects.exclude(status="y").count() == Message.objects.waiting(queue).count() == 10,
        lambda: f"all but ten done, and these at rest: {worker.output}",
    )
    _emit(names[30:])
    wait_until(lambda: not Message.objects.exclude(status="y").exists(), lambda: f"all done: {worker.output}")
    for message in messages:
        found = notes_of(worker, message)
        assert found.count("first") == found.count("end") == 1, found
        assert found.count("begin") <= 2, found


def _emit(names: list[str]) -> None:
    for name in names:
        Event.objects.emit(name)
    if threading.current_thread() is not threading.main_thread():
        connections.close_all()


def test_a_handler_that_catches_what_ends_it_has_lost_its_claim_and_the_log_has_it(drain: Callable[..., Any]) -> None:
    message = Message.objects.enqueue({"swallow": True}, queue="stepping")
    worker = drain("--queues", "stepping")
    assert f"message {message.pk} is suspended, but its handler caught Suspended and went on" in worker.output
    assert notes_of(worker, message) == ["begin", "first", "swallowed", "begin", "end"]
    assert "worker ended: 1 done" in worker.output


def test_a_handler_killed_behind_its_sleep_is_no_crash_and_sleeps_on(drain: Callable[..., Any]) -> None:
    message = Message.objects.enqueue({"die": True}, queue="stepping")
    worker = drain("--queues", "stepping")
    assert "child 0 ended by signal 9" in worker.output
    assert "rescued" not in worker.output
    stored = Message.objects.get(pk=message.pk)
    assert (stored.status, stored.read_count, stored.crashes, stored.worker_id) == ("n", 0, 0, None)
    assert notes_of(worker, message) == ["begin", "first"]


def test_a_resumable_step_whose_process_is_killed_anywhere_writes_each_slice_once(drain: Callable[..., Any]) -> None:
    deaths = ["before 0", "written 0", "saved 0", "committed 0", "written 2", "saved 3", "committed 4", "done"]
    message = Message.objects.enqueue({"slices": 5, "deaths": deaths}, queue="resuming")
    worker = drain("--queues", "resuming")
    assert [note["point"] for note in worker.notes("dies", message.pk)] == deaths
    [end] = worker.notes("end", message.pk)
    assert end["result"] == 5
    written = Message.objects.filter(queue="slices").order_by("pk")
    assert [each.payload for each in written] == [0, 1, 2, 3, 4], worker.output
