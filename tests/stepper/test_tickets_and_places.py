"""Who moves a message while its lane hands a ticket on: it has the ticket or a place in the line, never both (P18).

One with both stands still for ever, and so does its group: nobody who looks after a commit sees a free ticket.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import override_settings

from django_dbqueue import LeaseLost
from django_dbqueue.lifecycle.claimer import Claimer
from django_dbqueue.models import Group, Line, Message, Ticket
from django_dbqueue.sessions.django_session import session_of
from tests.factories import QUEUE, claim_one, let_end, row
from tests.flows.fans import keep
from tests.stepper.exploring import Explored
from tests.stepper.lanes import (
    ENDS,
    GROUP,
    TWO_AT_ONCE,
    assert_lane_is_right,
    assert_rest_runs_in_order,
    ends,
    may_run,
    running,
    send,
    waits,
)
from tests.stepper.scene import Ended, Scene

HOLDS: dict[str, Any] = {"QUEUES": {QUEUE: {"on_dead": "hold"}}}
IN_A_ROW: dict[str, Any] = {"QUEUES": {QUEUE: {"group_batch": 10}}}


def take(*, in_a_row: int = 10) -> list[Message]:
    """Claim the first of the lane as a worker does, with what follows it."""
    claimer = Claimer(Message, session_of("default"), QUEUE, in_a_row=in_a_row, room=100)
    [head] = claimer.take(1, lease=60, max_reads=5)
    return [one.message for one in (head, *claimer.followers.get(head.claim.id, ()))]


@ends
@override_settings(DBQUEUE=HOLDS)
def test_a_dead_one_that_holds_the_line_can_be_requeued_while_the_one_before_it_ends(
    explore: Callable[..., Explored], end: str
) -> None:
    def world() -> Scene:
        send()
        message, dead, last = claim_one(), send(), send()
        assert Message.objects.filter(pk=dead.pk).reject_waiting("unwanted") == 1
        assert waits() == [dead.pk, last.pk]

        def check(ended: Ended) -> str:
            assert ended["operator"] == 1
            assert row(message)["status"] == "y"
            assert_lane_is_right()
            assert may_run() == [dead.pk]
            assert_rest_runs_in_order()
            return "requeued"

        actors = {
            "ender": lambda: ENDS[end](message),
            "operator": lambda: Message.objects.filter(pk=dead.pk).requeue(),
        }
        return Scene(actors, check)

    assert set(explore(world, preemptions=1).seen) == {"requeued"}


BACK: dict[str, Callable[[Message], object]] = {
    "release": lambda follower: follower.release(),
    "nack": lambda follower: follower.nack(error="no"),
    "requeue": lambda follower: Message.objects.filter(pk=follower.pk).requeue(),
    "rescue": lambda _: Message.objects.rescue(QUEUE),
}


@pytest.mark.parametrize("back", BACK)
@override_settings(DBQUEUE=IN_A_ROW)
def test_a_follower_can_come_back_while_the_one_before_it_ends(explore: Callable[..., Explored], back: str) -> None:
    def world() -> Scene:
        send(), send()
        head, follower = take()
        if back == "rescue":
            let_end(follower)

        def check(ended: Ended) -> str:
            assert row(head)["status"] == "y"
            assert_lane_is_right()
            assert may_run() == [follower.pk]
            assert_rest_runs_in_order()
            return "comes back"

        return Scene({"ender": lambda: head.ack(), "other": lambda: BACK[back](follower)}, check)

    assert set(explore(world, preemptions=1).seen) == {"comes back"}


@override_settings(DBQUEUE=IN_A_ROW)
def test_a_worker_takes_none_along_that_is_moved_to_another_queue_then(explore: Callable[..., Explored]) -> None:
    def world() -> Scene:
        send()
        moved = send()
        Message.objects.enqueue(0, queue="there", group=GROUP)
        claim_one("there")

        def check(ended: Ended) -> str:
            there = Message.objects.get(pk=moved.pk)
            took = [message.pk for message in ended["worker"]]
            if moved.pk in took:
                assert (there.queue, there.status) == (QUEUE, "run")
                assert ended["operator"] == 0
                return "taken along"
            assert (there.queue, there.status) == ("there", "n")
            assert list(Line.objects.values_list("lane", "message_id")) == [(there.lane, moved.pk)]
            return "moved"

        actors = {"worker": take, "operator": lambda: Message.objects.filter(pk=moved.pk).move_to("there")}
        return Scene(actors, check)

    assert set(explore(world, preemptions=1).seen) == {"taken along", "moved"}


GOES: dict[str, Callable[[Message], object]] = {
    "moved": lambda message: Message.objects.filter(pk=message.pk).move_to("there"),
    "regrouped": lambda _: Message.objects.enqueue(1, queue=QUEUE, key="k", group="b", on_conflict="update"),
    "ungrouped": lambda _: Message.objects.enqueue(1, queue=QUEUE, key="k", on_conflict="update"),
}


@pytest.mark.parametrize("way", GOES)
def test_a_pause_parks_none_that_has_left_its_group(explore: Callable[..., Explored], way: str) -> None:
    def world() -> Scene:
        message = send(key="k")

        def check(ended: Ended) -> str:
            there = Message.objects.get(pk=message.pk)
            assert (there.queue, there.group_name) != (QUEUE, GROUP)
            assert may_run() == [message.pk], "where it is now, nothing holds it"
            out = list(Ticket.objects.values_list("lane", "message_id"))
            assert out == ([] if there.lane is None else [(there.lane, message.pk)])
            assert waits() == []
            return "left"

        return Scene(
            {"operator": lambda: Group.objects.pause(QUEUE, GROUP), "other": lambda: GOES[way](message)}, check
        )

    assert set(explore(world, preemptions=1).seen) == {"left"}


@override_settings(DBQUEUE=TWO_AT_ONCE)
def test_a_rate_that_is_removed_while_its_group_is_paused_lets_none_begin(explore: Callable[..., Explored]) -> None:
    def world() -> Scene:
        Group.objects.rate(QUEUE, GROUP, "1/h")
        first, second = send(), send()

        def check(ended: Ended) -> str:
            assert_lane_is_right(width=2, is_paused=True)
            assert (may_run(), waits()) == ([], [first.pk, second.pk])
            return "wait"

        actors = {
            "operator": lambda: Group.objects.rate(QUEUE, GROUP, None),
            "another": lambda: Group.objects.pause(QUEUE, GROUP),
        }
        return Scene(actors, check)

    assert set(explore(world, preemptions=1).seen) == {"wait"}


def test_the_keeper_frees_no_ticket_of_a_dead_one_that_is_requeued_then(explore: Callable[..., Explored]) -> None:
    """It had held its group, before a change of the settings."""

    def world() -> Scene:
        with override_settings(DBQUEUE=HOLDS):
            send()
            dead, last = claim_one(), send()
            dead.reject("unwanted")

        def check(ended: Ended) -> str:
            assert ended["operator"] == 1
            assert_lane_is_right()
            first = may_run()
            assert first in ([dead.pk], [last.pk])
            assert_rest_runs_in_order()
            return "it" if first == [dead.pk] else "the next"

        return Scene({"keeper": keep, "operator": lambda: Message.objects.filter(pk=dead.pk).requeue()}, check)

    assert set(explore(world, preemptions=1).seen) == {"it", "the next"}


@override_settings(DBQUEUE=IN_A_ROW)
def test_of_an_ack_of_a_follower_and_of_the_one_before_it_the_last_frees_the_ticket(
    explore: Callable[..., Explored],
) -> None:
    def world() -> Scene:
        send(), send()
        head, follower = take()
        last = send()

        def check(ended: Ended) -> str:
            assert running() == []
            assert_lane_is_right()
            assert may_run() == [last.pk]
            assert_rest_runs_in_order()
            return "goes on"

        actors = {"ender": lambda: head.ack(), "other": lambda: follower.ack()}
        return Scene(actors, check, (LeaseLost,))

    assert set(explore(world, preemptions=1).seen) == {"goes on"}
