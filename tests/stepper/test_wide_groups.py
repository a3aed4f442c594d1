"""Messages of one group that end together, beside whatever else moves its tickets (P18, P19)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.db import transaction
from django.test import override_settings

from django_dbqueue.models import Group, Message
from tests.factories import QUEUE
from tests.stepper.contenders import claim
from tests.stepper.exploring import Explored
from tests.stepper.lanes import (
    ENDS,
    GROUP,
    TWO_AT_ONCE,
    assert_lane_is_right,
    assert_rest_runs_in_order,
    ends,
    may_run,
    send,
)
from tests.stepper.scene import Ended, Scene


def end_together(messages: list[Message], *, in_a_transaction: bool) -> None:
    if not in_a_transaction:
        Message.objects.ack(messages)
        return
    with transaction.atomic():
        Message.objects.ack(messages)


def drop(message: Message) -> None:
    Message.objects.filter(pk=message.pk).drop_all("unwanted")


MOVES: dict[str, Callable[[list[Message]], object]] = {
    "a sender": lambda _: send(),
    "a drop of the next": lambda waiting: drop(waiting[0]),
    "a drop of the second": lambda waiting: drop(waiting[1]),
    "a lower limit": lambda _: Group.objects.limit(QUEUE, GROUP, 1),
    "a higher limit": lambda _: Group.objects.limit(QUEUE, GROUP, 3),
}


@pytest.mark.parametrize(("move", "in_a_transaction"), [*((move, False) for move in MOVES), ("a sender", True)])
@override_settings(DBQUEUE=TWO_AT_ONCE)
def test_two_that_end_together_make_way_for_two_whatever_else_moves(
    explore: Callable[..., Explored], move: str, *, in_a_transaction: bool
) -> None:
    def world() -> Scene:
        send(), send()
        both, waiting = claim(2), [send() for _ in range(3)]

        def check(ended: Ended) -> str:
            most = {"a lower limit": 1, "a higher limit": 3}.get(move, 2)
            rest = list(Message.objects.filter(status="n").order_by("pk").values_list("pk", flat=True))
            went_on = may_run()
            assert went_on == rest[: len(went_on)], "one was overtaken"
            width = max(most, len(went_on))
            assert width <= max(most, 2)
            assert_lane_is_right(width=width)
            if move != "a lower limit":
                assert_rest_runs_in_order(width=width)
            return f"{len(went_on)} go on"

        actors = {
            "ender": lambda: end_together(both, in_a_transaction=in_a_transaction),
            "other": lambda: MOVES[move](waiting),
        }
        return Scene(actors, check)

    seen = {"a lower limit": {"1 go on", "2 go on"}, "a higher limit": {"3 go on"}}.get(move, {"2 go on"})
    assert set(explore(world, preemptions=1).seen) == seen


@ends
def test_a_limit_that_is_raised_while_a_message_ends_lets_all_go_on(explore: Callable[..., Explored], end: str) -> None:
    def world() -> Scene:
        send()
        [message] = claim(1)
        waiting = [send().pk for _ in range(4)]

        def check(ended: Ended) -> str:
            assert_lane_is_right(width=3)
            assert may_run() == waiting[:3]
            assert_rest_runs_in_order(width=3)
            return "all go on"

        actors = {"ender": lambda: ENDS[end](message), "operator": lambda: Group.objects.limit(QUEUE, GROUP, 3)}
        return Scene(actors, check)

    assert set(explore(world, preemptions=1).seen) == {"all go on"}
