"""run_consumers and flows: those that wait run in the same run, and get what those before them returned (P22)."""

from __future__ import annotations

from typing import Any

import pytest

from django_dbqueue import InvalidFlow, flow
from django_dbqueue.models import Message, Result
from django_dbqueue.testing import run_consumers
from tests.factories import QUEUE
from tests.testing.conftest import Consumes

pytestmark = pytest.mark.usefixtures("kind")


def square_and_sum(message: Message) -> Any:
    if message.payload == "sum":
        return sum(message.results())
    if message.payload == "spawn":
        message.spawn(10, queue=QUEUE)
        return None
    return message.payload**2


@pytest.mark.parametrize("options", [{}, {"transactional": True}], ids=["plain", "transactional"])
def test_results_are_handed_on_those_of_children_too(consumes: Consumes, options: dict[str, Any]) -> None:
    consumes(square_and_sum, **options)
    with flow("others") as other:
        other.enqueue(7, queue=QUEUE)
    with flow("squares") as f:
        first = f.enqueue(1, queue=QUEUE)
        last = f.enqueue_many([2, 3, "spawn"], queue=QUEUE)
        f.enqueue("sum", queue=QUEUE, after=[first, last])
    run = run_consumers(QUEUE)
    assert {handled.outcome for handled in run} == {"done"}
    assert run[-1].message.payload == "sum"
    assert Result.objects.get(message_id=run[-1].message.pk).value == 1 + 4 + 9 + 100


def test_what_has_an_id_between_theirs_and_is_of_another_flow_hands_nothing_on(consumes: Consumes) -> None:
    consumes(square_and_sum)
    with flow("others") as other:
        other.enqueue(7, queue=QUEUE)
    with flow("squares") as f:
        f.enqueue("sum", queue=QUEUE, after=f.enqueue_many([1, 2, 3], queue=QUEUE))
    # As where several servers take turns with ids, and those of one INSERT leave gaps
    assert Message.objects.filter(body="2").update(flow=Message.objects.get(body="7").flow) == 1
    run = run_consumers(QUEUE)
    assert Result.objects.get(message_id=run[-1].message.pk).value == 1 + 9


def test_what_can_not_be_handed_on_is_a_death_with_a_sentence(consumes: Consumes) -> None:
    consumes(lambda _: {1, 2})
    with flow("f") as f:
        f.enqueue(1, queue=QUEUE)
    [handled] = run_consumers(QUEUE, on_error="collect")
    assert handled.outcome == "dead"
    assert isinstance(handled.error, InvalidFlow)
    assert "can't be handed on in its flow" in str(handled.error)


def test_outside_a_flow_nothing_is_kept_and_nothing_is_handed_on(consumes: Consumes) -> None:
    seen: list[Any] = []

    def see(message: Message) -> set[int]:
        seen.append(message.results())
        return {1}

    consumes(see)
    Message.objects.enqueue(1, queue=QUEUE, headers={"dbqueue.after": [[1, 100]]})
    assert [handled.outcome for handled in run_consumers(QUEUE)] == ["done"]
    assert (seen, Result.objects.count()) == ([[]], 0)
