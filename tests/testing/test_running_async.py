"""run_consumers with consumers that are async, and with those that take too long or run others."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from threading import Event
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async

from django_dbqueue import Retry
from django_dbqueue.models import Message, Queue
from django_dbqueue.testing import run_consumers
from tests.factories import QUEUE, MessageFactory
from tests.patience import patience
from tests.testing.conftest import Consumes
from tests.testing.handlers import succeed

pytestmark = pytest.mark.usefixtures("kind")


def test_an_async_consumer_works_on_the_tests_own_connection(consumes: Consumes) -> None:
    async def handle(message: Message) -> None:
        assert await Message.objects.filter(pk=message.pk, status="run").aexists()
        await Queue.objects.acreate(name="effect")
        await Message.objects.aenqueue("next", queue="next")

    consumes(handle)
    MessageFactory()
    assert len(run_consumers(QUEUE).done) == 1
    assert Queue.objects.filter(name="effect").exists()
    assert Message.objects.ready("next").count() == 1


def test_an_async_consumer_gets_its_resource(consumes: Consumes) -> None:
    steps: list[str] = []

    async def shared() -> AsyncIterator[str]:
        steps.append("entered")
        yield "shared"
        steps.append("left")

    async def handle(_message: Message, thing: str) -> None:
        steps.append(thing)

    consumes(handle, resource=shared)
    MessageFactory()
    assert len(run_consumers(QUEUE).done) == 1
    assert steps == ["entered", "shared", "left"]


def test_a_resource_that_can_not_be_entered_fails_the_message(consumes: Consumes) -> None:
    async def handle(_message: Message, _thing: object) -> None:
        raise AssertionError("not without its resource")

    consumes(handle, resource=dict)
    MessageFactory()
    with pytest.raises(TypeError, match=r"builtins\.dict returned a dict, which is not an async context manager"):
        run_consumers(QUEUE)


def test_an_async_consumer_settles_its_message_itself(consumes: Consumes) -> None:
    async def handle(message: Message) -> None:
        await message.aextend(300)
        await message.areject("no such user")

    consumes(handle)
    MessageFactory()
    [row] = run_consumers(QUEUE).dead
    assert "no such user" in str(row.error)


def test_an_async_consumer_that_takes_too_long_is_cancelled(consumes: Consumes) -> None:
    async def handle(_message: Message) -> None:
        await asyncio.sleep(600)

    consumes(handle, timeout=0.05)
    MessageFactory()
    began = time.monotonic()
    [handled] = run_consumers(QUEUE, on_error="collect")
    assert time.monotonic() - began < patience(30)
    assert handled.outcome == "waiting"
    assert (handled.message.error or "").startswith("TimedOut: ")
    assert isinstance(handled.error, TimeoutError)


def test_a_consumer_that_took_too_long_has_timed_out_though_it_returned(consumes: Consumes) -> None:
    def handle(_message: Message) -> None:
        time.sleep(0.05)

    consumes(handle, timeout=0.01)
    message = MessageFactory()
    with pytest.raises(TimeoutError, match=r"TimedOut: .* ran longer than its timeout of 0\.01 s"):
        run_consumers(QUEUE)
    message.refresh_from_db()
    assert (message.status, message.read_count) == ("n", 1)


@pytest.mark.parametrize("batch", [None, 2])
def test_what_a_transactional_consumer_wrote_too_late_is_undone(consumes: Consumes, batch: int | None) -> None:
    def handle(given: Any) -> None:
        MessageFactory(queue="written")
        message = given if batch is None else given[0]
        while left := message.remaining():
            Event().wait(left)

    consumes(handle, timeout=0.01, transactional=True, batch=batch)
    message = MessageFactory()
    [handled] = run_consumers(QUEUE, on_error="collect")
    assert isinstance(handled.error, TimeoutError)
    message.refresh_from_db()
    assert (message.status, message.read_count, Message.objects.in_queue("written").count()) == ("n", 1, 0)


def test_a_consumer_that_asks_for_a_retry_too_late_has_timed_out(consumes: Consumes) -> None:
    def handle(_message: Message) -> None:
        time.sleep(0.05)
        raise Retry(after=0)

    consumes(handle, timeout=0.01)
    MessageFactory()
    [handled] = run_consumers(QUEUE, on_error="collect")
    assert isinstance(handled.error, TimeoutError)
    assert (handled.message.error or "").startswith("TimedOut: ")


def test_a_consumer_may_run_others(consumes: Consumes) -> None:
    consumes(lambda _message: [MessageFactory(queue="second"), run_consumers("second")])
    consumes(succeed, queue="second")
    MessageFactory()
    assert len(run_consumers(QUEUE)) == 1
    assert Message.objects.done("second").count() == 1


def test_a_consumer_that_acks_before_it_takes_too_long_is_done(consumes: Consumes) -> None:
    def handle(message: Message) -> None:
        message.ack()
        time.sleep(0.05)

    consumes(handle, timeout=0.01)
    MessageFactory()
    [handled] = run_consumers(QUEUE)
    assert (handled.outcome, handled.error) == ("done", None)


def test_from_an_async_test_it_is_called_by_sync_to_async(consumes: Consumes) -> None:
    async def handle(message: Message) -> None:
        await Message.objects.filter(pk=message.pk).aexists()

    consumes(handle)
    consumes(succeed, queue="plain")
    MessageFactory()
    MessageFactory(queue="plain")

    async def test() -> int:
        return len((await sync_to_async(run_consumers)()).done)

    assert async_to_sync(test)() == 2
