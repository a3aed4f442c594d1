"""What steps, events and flows hand on has the types that it was given (P12)."""

from __future__ import annotations

import uuid
from decimal import Decimal
from typing import Any

import pytest
from django.test import override_settings

from django_dbqueue import consumer, flow
from django_dbqueue.models import Event, Message, Step
from django_dbqueue.testing import run_consumers
from tests.factories import QUEUE, claim_one, held
from tests.of_types import LOOKALIKES, VALUES, as_seen
from tests.steps.stepping import again, block, steps
from tests.steps.suspending import suspends

pytestmark = pytest.mark.django_db(transaction=True)

ALL: list[Any] = [*VALUES, *LOOKALIKES]
ORDER = uuid.UUID(int=1)


def test_a_step_and_a_block_give_the_next_attempt_what_they_gave_the_first() -> None:
    message = held()
    first = [message.step("all", lambda: ALL), block(message, "block", lambda: {"price": Decimal("1.50")}).result]
    message = again(message)
    with message.step("block") as step:
        assert not step.is_new
    second = [message.step("all", lambda: None), step.result]
    assert as_seen(first) == as_seen(second) == as_seen([ALL, {"price": Decimal("1.50")}])
    assert as_seen([value for _, value in steps()]) == as_seen(first)
    assert Step.objects.get(name="block").body == '{"price":"1.50"}'


def test_a_wait_gives_the_payload_of_the_event_whenever_it_came() -> None:
    message = held()
    assert Event.objects.emit("before", ALL)
    assert as_seen(message.wait_for("before")) == as_seen(ALL)
    assert as_seen(Event.objects.get().payload) == as_seen(ALL)
    suspends(lambda: message.wait_for("after"))
    assert Event.objects.emit("after", ORDER)
    message = claim_one()
    assert message.wait_for("after") == ORDER
    Event.objects.all().delete()
    message = again(message)
    assert as_seen([message.wait_for("before"), message.wait_for("after")]) == as_seen([ALL, ORDER])


def test_a_step_whose_types_were_forged_gives_the_plain_value() -> None:
    message = held()
    message.step("order", lambda: ORDER)
    Step.objects.update(types='"os.system"')
    assert again(message).step("order", lambda: None) == str(ORDER)


@override_settings(DBQUEUE={"QUEUES": {QUEUE: {"max_reads": 1}}})
def test_a_flow_hands_on_what_its_messages_return(registry: Any) -> None:
    found: list[Any] = []

    def handle(message: Message) -> Any:
        if message.payload == "last":
            found.extend(message.results())
            return None
        return message.payload

    consumer(QUEUE)(handle)
    with flow("typed") as f:
        parts = f.enqueue_many([ALL, ORDER, {"order": ORDER}, "text"], queue=QUEUE)
        f.enqueue("last", queue=QUEUE, after=parts)
    run_consumers(QUEUE)
    assert as_seen(found) == as_seen([ALL, ORDER, {"order": ORDER}, "text"])
