"""What the doctor says of workers whose beat is late, and of queues that nobody serves; on every database."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from datetime import timedelta

import pytest

from django_dbqueue.doctor import worker_checks
from django_dbqueue.models import Message, Queue, Stream
from django_dbqueue.models.fields import DbNow
from tests.doctor.conftest import AGO, examined, levels, worker
from tests.factories import QUEUE, dead, done, let_pass, let_pause_end, waiting

pytestmark = pytest.mark.django_db


def test_a_worker_that_missed_three_beats_is_a_warning_and_one_that_is_late_once_is_a_note() -> None:
    began = time.monotonic()
    worker(1, beat_at=AGO, late_at=AGO)
    worker(2, beat_every=60, late_at=DbNow() - timedelta(seconds=5))
    worker(3)
    found = examined()
    assert levels(found, "workers") == ["warning", "note"]
    gone, late = found["workers"]
    assert "The worker there:7 has sent no heartbeat for 6" in gone.found
    assert "that it held at its last one: 2)" in gone.found
    match = re.search(r"heartbeat of the worker there:\d+ is ([\d.]+) s late", late.found)
    assert match is not None, late.found
    assert 5 <= float(match[1]) < 5.1 + time.monotonic() - began


def test_of_many_workers_that_are_gone_the_first_are_named_and_the_rest_is_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(worker_checks, "MOST_NAMED", 2)
    for number in range(1, 6):
        worker(number, beat_at=AGO, late_at=AGO)
    found = examined()
    assert levels(found, "workers") == ["warning"] * 3
    assert "5 workers" in found["workers"][2].found


def test_a_queue_with_due_messages_and_no_worker_that_lives_is_a_warning() -> None:
    let_pass(waiting(queue="lonely"), 90)
    worker(queues=f"{QUEUE},lonely", beat_at=AGO, late_at=AGO)
    found = examined()
    assert levels(found, "unserved-queues") == ["warning"]
    assert (
        "No worker serves the queue 'lonely', where a message has been due for 9" in found["unserved-queues"][0].found
    )
    assert "has no consumer for it" in found["unserved-queues"][0].do
    worker(2, queues=f"{QUEUE},lonely")
    assert levels(examined(), "unserved-queues") == ["ok"]


def test_a_queue_that_has_a_consumer_here_comes_with_how_to_serve_it(register: Callable[..., None]) -> None:
    waiting(queue="ours")
    register("ours")
    assert examined()["unserved-queues"][0].do == "manage.py run_queue_worker --queues ours"


def test_a_queue_with_delayed_messages_only_is_a_note_and_one_without_any_that_wait_is_fine() -> None:
    done(queue="past")
    dead(queue="past")
    assert levels(examined(), "unserved-queues") == ["ok"]
    waiting(queue="future", delay=3600)
    found = examined()
    assert levels(found, "unserved-queues") == ["note"]
    assert "'future', which has delayed messages" in found["unserved-queues"][0].found


def test_a_queue_that_a_running_stream_consumes_is_served() -> None:
    waiting(queue="streamed")
    stream = Stream.objects.create(name="s", queue="streamed", on_expired="hold", lease_seconds=60)
    assert levels(examined(), "unserved-queues") == ["ok"]
    Stream.objects.filter(pk=stream.pk).update(beat_at=AGO)
    assert levels(examined(), "unserved-queues") == ["warning"]


def test_a_paused_queue_with_messages_is_a_note_that_names_who_and_why() -> None:
    waiting()
    worker()
    Queue.objects.pause(QUEUE, by="ann", reason="mail server is down")
    found = examined()
    assert levels(found, "unserved-queues") == ["note"]
    assert "by ann (mail server is down)" in found["unserved-queues"][0].found
    assert "Resume it in the admin" in found["unserved-queues"][0].do


def test_a_pause_with_an_end_shows_when_it_continues_and_is_fine_after_that() -> None:
    waiting()
    worker()
    Queue.objects.pause(QUEUE, for_=3_600)
    [finding] = examined()["unserved-queues"]
    assert finding.level == "note"
    assert f"at {Queue.objects.get().paused_until:%Y-%m-%d %H:%M:%S} UTC" in finding.do
    let_pause_end()
    assert levels(examined(), "unserved-queues") == ["ok"]


def test_a_name_that_no_queue_can_have_is_a_warning() -> None:
    Message.objects.create(queue="not a name", body="1", content_type="json", available_at=DbNow())
    found = examined()
    assert levels(found, "unserved-queues") == ["warning"]
    assert "'not a name'" in found["unserved-queues"][0].found


def test_of_many_unserved_queues_the_first_are_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(worker_checks, "MOST_NAMED", 2)
    for number in range(5):
        waiting(queue=f"q{number}")
    found = examined()
    assert levels(found, "unserved-queues") == ["warning"] * 3
    assert "than the 2 listed" in found["unserved-queues"][2].found
