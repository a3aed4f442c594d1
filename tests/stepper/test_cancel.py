"""A cancel beside whoever holds, rescues or claims the message: one wins, and the loser is told (P24)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from django_dbqueue import LeaseLost, NotCancelled
from django_dbqueue.models import Message, MessageEvent
from tests.factories import QUEUE, held, row, stuck, waiting
from tests.stepper.contenders import SETTLEMENTS, claim, places
from tests.stepper.exploring import Explored
from tests.stepper.lanes import GROUP, assert_lane_is_right, assert_rest_runs_in_order, may_run, send
from tests.stepper.scene import Ended, Scene


def cancelled(message: Message) -> bool:
    return MessageEvent.objects.filter(message_id=message.pk, kind="cancelled").exists()


def canceller(message: Message) -> Callable[[], Any]:
    return lambda: Message.objects.cancel(message.pk, reason="r", by="ann")


@pytest.mark.parametrize("verb", ["ack", "batch ack"])
def test_of_an_ack_and_a_cancel_one_wins_and_both_know_which(explore: Callable[..., Explored], verb: str) -> None:
    def world() -> Scene:
        message = held()

        def check(ended: Ended) -> str:
            assert len(places(message.pk)) == 1
            has_lost = ended.raised("holder", LeaseLost) or ended["holder"] == [message]
            assert cancelled(message) is has_lost
            assert ended.raised("canceller", NotCancelled) is not has_lost
            assert row(message)["status"] == ("n" if has_lost else "y")
            assert (row(message)["available_at"] is None) is has_lost
            return "cancelled" if has_lost else "acked"

        actors = {"holder": lambda: SETTLEMENTS[verb](message), "canceller": canceller(message)}
        return Scene(actors, check, (LeaseLost, NotCancelled))

    assert set(explore(world).seen) == {"cancelled", "acked"}


def test_whether_it_is_rescued_or_claimed_in_between_it_is_dead_in_the_end(explore: Callable[..., Explored]) -> None:
    def world() -> Scene:
        message = stuck()

        def check(ended: Ended) -> str:
            assert Message.objects.get(pk=message.pk).is_dead
            assert cancelled(message)
            return "rescued before" if ended["rescuer"] else "not rescued"

        actors = {"rescuer": lambda: Message.objects.rescue(QUEUE), "canceller": canceller(message)}
        return Scene(actors, check)

    assert set(explore(world).seen) == {"rescued before", "not rescued"}


def test_a_claim_alongside_it_gets_nothing_or_what_is_gone_at_once(explore: Callable[..., Explored]) -> None:
    def world() -> Scene:
        message = waiting()

        def check(ended: Ended) -> str:
            assert Message.objects.get(pk=message.pk).is_dead
            for each in ended["claimer"]:
                with pytest.raises(LeaseLost):
                    each.ack()
            return "claimed" if ended["claimer"] else "nothing"

        return Scene({"claimer": lambda: claim(1), "canceller": canceller(message)}, check)

    assert set(explore(world).seen) == {"claimed", "nothing"}


def test_its_group_goes_on_though_another_one_ends_at_the_same_time(explore: Callable[..., Explored]) -> None:
    def world() -> Scene:
        send()
        [first] = claim(1)
        second, last = send(), send()
        assert first.group == GROUP

        def check(_ended: Ended) -> str:
            assert Message.objects.get(pk=second.pk).is_dead
            assert_lane_is_right()
            assert may_run() == [last.pk]
            assert_rest_runs_in_order()
            return "goes on"

        return Scene({"holder": first.ack, "canceller": canceller(second)}, check)

    assert set(explore(world, preemptions=1).seen) == {"goes on"}
