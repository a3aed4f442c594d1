"""run_consumers and steps: a sleep is a delay, an event is waited for, and a handler continues where it was (P21)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction

from django_dbqueue import EventTimedOut, InvalidStep
from django_dbqueue.models import Event, Message, Step
from django_dbqueue.testing import run_consumers
from tests.factories import QUEUE, MessageFactory
from tests.testing.conftest import Consumes

pytestmark = pytest.mark.usefixtures("kind")


def outcomes(**how: Any) -> list[str]:
    return [handled.outcome for handled in run_consumers(QUEUE, **how)]


def test_a_handler_continues_behind_its_sleep_when_later_messages_are_run(consumes: Consumes) -> None:
    heard: list[str] = []

    def order(message: Message) -> None:
        message.step("charge", lambda: heard.append("charge"))
        message.sleep("cool off", timedelta(days=2))
        with message.step("book") as step:
            heard.append(f"book {step.is_new}")

    consumes(order)
    MessageFactory()
    assert outcomes() == ["waiting"]
    assert outcomes() == []
    assert outcomes(until=timedelta(days=1)) == []
    assert outcomes(with_delayed=True) == ["done"]
    assert heard == ["charge", "book True"]


def test_a_step_that_failed_continues_at_its_cursor(consumes: Consumes) -> None:
    written: list[int] = []

    def count(message: Message) -> None:
        with message.resumable_step("count") as step:
            while (step.cursor or 0) < 4:
                with transaction.atomic():
                    number = step.cursor or 0
                    step.save(number + 1)
                    if number == 2 and message.read_count == 1:
                        raise ValueError("in the middle of a slice")
                written.append(number)

    consumes(count)
    MessageFactory()
    assert outcomes(with_delayed=True, on_error="collect") == ["waiting", "done"]
    assert written == [0, 1, 2, 3]


def test_what_a_sleep_ends_is_no_error(consumes: Consumes) -> None:
    consumes(lambda message: message.sleep("cool off", 60))
    MessageFactory()
    [handled] = run_consumers(QUEUE)
    assert (handled.error, handled.outcome, handled.message.read_count) == (None, "waiting", 0)


def test_an_event_that_a_test_emits_wakes_who_waits(consumes: Consumes) -> None:
    heard: list[Any] = []
    consumes(lambda message: heard.append(message.wait_for("paid:17")))
    MessageFactory()
    assert outcomes(with_delayed=True) == ["waiting"], "no time that passes brings the event"
    Event.objects.emit("paid:17", 5)
    assert outcomes() == ["done"]
    assert heard == [5]


def test_an_event_that_another_handler_emits_wakes_who_waits_in_the_same_run(consumes: Consumes) -> None:
    heard: list[Any] = []

    def talk(message: Message) -> None:
        if message.payload == "emit":
            Event.objects.emit("paid:17", 5)
        else:
            heard.append(message.wait_for("paid:17"))

    consumes(talk)
    MessageFactory(payload="wait")
    MessageFactory(payload="emit")
    assert outcomes() == ["waiting", "done", "done"]
    assert heard == [5]


def test_a_wait_times_out_when_later_messages_are_run(consumes: Consumes) -> None:
    errors: list[Exception] = []

    def wait(message: Message) -> None:
        try:
            message.wait_for("paid:17", timeout=timedelta(days=3))
        except EventTimedOut as error:
            errors.append(error)

    consumes(wait)
    MessageFactory()
    assert outcomes() == ["waiting"]
    assert outcomes(with_delayed=True) == ["done"]
    assert len(errors) == 1


def test_what_a_handler_does_wrong_in_steps_is_dead_at_once(consumes: Consumes) -> None:
    consumes(lambda message: message.step("work", object), max_reads=5)
    MessageFactory()
    drained = run_consumers(QUEUE, on_error="collect")
    assert [type(error) for error in drained.errors] == [InvalidStep]
    assert [message.read_count for message in drained.dead] == [1]
    assert "can't be remembered" in (drained.dead[0].error or "")


def test_a_batch_has_steps_but_no_sleep(consumes: Consumes) -> None:
    def work(messages: list[Message]) -> None:
        for message in messages:
            message.step("work", lambda message=message: message.pk)
        messages[0].sleep("cool off", 60)

    consumes(work, batch=2, max_reads=5)
    MessageFactory.create_batch(2)
    drained = run_consumers(QUEUE, on_error="collect")
    assert {type(error) for error in drained.errors} == {InvalidStep}
    assert "a batch consumer can't sleep" in str(drained.errors[0])
    assert len(drained.waiting) == 2, "neither is at fault alone"
    assert Step.objects.count() == 2


def test_in_a_transactional_consumer_steps_are_of_its_one_commit(consumes: Consumes) -> None:
    calls: list[int] = []

    def work(message: Message) -> None:
        message.step("work", lambda: calls.append(1))
        with message.step("book") as step:
            step.result = MessageFactory(queue="booked").pk
        if len(calls) < 2:
            raise ValueError("as told")

    consumes(work, transactional=True, backoff=0)
    MessageFactory()
    assert [handled.outcome for handled in run_consumers(QUEUE, on_error="collect")] == ["waiting", "done"]
    assert len(calls) == 2, "what it remembered was rolled back with all else"
    assert Message.objects.filter(queue="booked").count() == 1
    assert sorted(Step.objects.values_list("name", flat=True)) == ["book", "work"]


def test_a_transactional_consumer_can_not_sleep(consumes: Consumes) -> None:
    consumes(lambda message: message.sleep("cool off", 60), transactional=True)
    MessageFactory()
    drained = run_consumers(QUEUE, on_error="collect")
    assert "inside a transaction (of a transactional consumer" in str(drained.errors[0])
    assert len(drained.dead) == 1


def test_async_handlers_have_steps(consumes: Consumes) -> None:
    heard: list[Any] = []

    async def charge(amount: int) -> int:
        heard.append("charge")
        return amount

    async def order(message: Message) -> None:
        paid = await message.astep("charge", charge, 5)
        heard.append(await message.astep("in a thread", lambda: paid + 1))
        await message.asleep("cool off", 60)
        heard.append((await message.await_for("paid:17"), sorted(await message.asteps_done())))

    consumes(order)
    MessageFactory()
    assert outcomes(with_delayed=True) == ["waiting", "waiting"]
    Event.objects.emit("paid:17", "yes")
    assert outcomes() == ["done"]
    done = ["charge", "cool off", "in a thread", "paid:17"]
    assert heard == ["charge", 6, 6, 6, ("yes", done)]
