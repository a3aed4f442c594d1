"""No handler, whatever it raises or breaks, stops the worker or keeps its message running for ever."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from django_dbqueue.models import Message
from tests.consumers_app.hostile import ERRORS
from tests.process.conftest import wait_until

pytestmark = pytest.mark.django_db(transaction=True)


def send(**what: Any) -> Message:
    return Message.objects.enqueue(what, queue="test")


def test_an_error_that_cannot_be_read_settles_its_message_and_the_thread_goes_on(drain: Callable[..., Any]) -> None:
    sent = {name: send(do="raise", error=name) for name in ERRORS}
    ok = send(do="ok")
    worker = drain()
    assert Message.objects.get(pk=ok.pk).status == "y"
    rows = {name: Message.objects.get(pk=message.pk) for name, message in sent.items()}
    assert {name: row.is_dead for name, row in rows.items()} == dict.fromkeys(rows, True)
    assert {name: row.read_count for name, row in rows.items() if row.read_count != 3} == dict.fromkeys(
        ("reject without words", "reject that leaves", "reject of an object without words"), 1
    )
    assert {row.crashes for row in rows.values()} == {0}
    assert "after must be a number of seconds" in str(rows["retry after text"].error)
    assert "no such customer" in str(rows["retry after a property that raises"].error)
    assert "SpeechlessReject" in str(rows["reject without words"].error)
    assert "Speechless" in str(rows["error without words"].error)
    assert "first" in str(rows["error in a circle"].error)
    assert "failed" not in "".join(line for line in worker.output.splitlines() if "CRITICAL" in line)


def test_a_retry_of_a_class_of_ones_own_comes_again_after_the_usual_back_off(drain: Callable[..., Any]) -> None:
    message = send(do="raise", error="retry without super")
    drain()
    error = str(Message.objects.get(pk=message.pk).error)
    assert error == "Retry: 17"


def test_a_handler_that_uses_a_database_of_another_vendor_is_cleaned_up_after(start_worker: Callable[..., Any]) -> None:
    other, ok = send(do="use other vendor"), send(do="ok")
    worker = start_worker("--drain", DJANGO_SETTINGS_MODULE="tests.process.other_vendor_settings")
    assert worker.ended() == 0, worker.output
    assert {Message.objects.get(pk=each.pk).status for each in (other, ok)} == {"y"}
    assert len({note["pid"] for note in worker.notes("begin")}) == 1


@pytest.mark.parametrize("threads", [1, 2])
def test_a_thread_that_fails_has_its_child_replaced_and_the_message_comes_again(
    start_worker: Callable[..., Any], threads: int
) -> None:
    breaking = send(do="break thread")
    worker = start_worker("--grace", "600", "--threads", str(threads))
    wait_until(lambda: Message.objects.get(pk=breaking.pk).status == "y", "the thread to be broken")
    after = send(do="ok")
    worker.wait_for("end", after.pk)
    wait_until(lambda: Message.objects.get(pk=after.pk).status == "y", "the message to be done by the next child")
    row = Message.objects.get(pk=after.pk)
    assert (row.read_count, row.crashes) == (2, 0)  # the delivery that the thread lost had begun, and has failed
    assert "a thread that runs handlers failed" in worker.output


def test_a_main_thread_that_fails_ends_its_child_whatever_threads_its_handlers_left(
    start_worker: Callable[..., Any],
) -> None:
    breaking = send(do="break main thread")
    worker = start_worker("--grace", "1")
    worker.wait_for_output("a child's main thread failed")
    after = send(do="ok")
    worker.wait_for("end", after.pk)
    assert Message.objects.get(pk=breaking.pk).status == "y"
