"""Steps that count their calls, a message's next attempt, and what is remembered of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django_dbqueue.models import Message, Step
from django_dbqueue.steps.step_memory import StepBlock
from tests.factories import claim_one


class Counted:
    """A function that counts its calls and returns the same each time."""

    def __init__(self, result: Any = None) -> None:
        self.result = result
        self.calls = 0

    def __call__(self) -> Any:
        self.calls += 1
        return self.result


def block(message: Message, name: str, work: Callable[[], Any]) -> StepBlock:
    with message.step(name) as step:
        step.result = work()
    return step


def again(message: Message) -> Message:
    """Let the message fail, and claim it for its next attempt."""
    message.nack(delay=0, error="again")
    return claim_one()


def steps() -> list[tuple[str, Any]]:
    return [(step.name, step.value) for step in Step.objects.order_by("message_id", "at", "name")]
