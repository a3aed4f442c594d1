"""What operators do to a lane while its messages end or are claimed: a limit, a pause, a drop, a move (P18, P19)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import override_settings

from django_dbqueue.models import Group, Message, Queue, Ticket
from tests.factories import QUEUE, claim_one, row
from tests.stepper.contenders import claim
from tests.stepper.exploring import Explored
from tests.stepper.lanes import (
    ENDS,
    GROUP,
    TWO_AT_ONCE,
    assert_lane_is_right,
    assert_rest_runs_in_order,
    ends,
    let_all_run,
    may_run,
    running,
    send,
    waits,
)
from tests.stepper.scene import Ended, Scene


@pytest.mark.parametrize("end", ["ack", "ack in a transaction"])
@override_settings(DBQUEUE=TWO_AT_ONCE)
def test_a_limit_that_is_lowered_while_a_message_ends_is_kept_by_whoever_sees_it(
    explore: Callable[..., Explored], end: str
) -> None:
    def world() -> Scene:
        send(), send()
        both, last = claim(2), send()

        def check(ended: Ended) -> str:
            is_running = may_run() == [both[0].pk, last.pk]
            assert is_running or (may_run(), waits()) == ([both[0].pk], [last.pk])
            assert_lane_is_right(width=2 if is_running else 1)
            both[0].ack()
            assert may_run() == [last.pk]
            return "was handed on" if is_running else "freed"

        actors = {"ender": lambda: ENDS[end](both[1]), "operator": lambda: Group.objects.limit(QUEUE, GROUP, 1)}
        return Scene(actors, check)

    assert set(explore(world, preemptions=1).seen) == {"was handed on", "freed"}


@ends
def test_who_waits_next_can_be_dropped_while_the_one_before_it_ends(explore: Callable[..., Explored], end: str) -> None:
    def world() -> Scene:
        send()
        message, dropped, last = claim_one(), send(), send()

        def check(ended: Ended) -> str:
            assert ended["operator"] == 1
            assert [row(each)["status"] for each in (message, dropped)] == ["y", "y"]
            assert_lane_is_right()
            assert may_run() == [last.pk]
            assert_rest_runs_in_order()
            return "dropped"

        actors = {
            "ender": lambda: ENDS[end](message),
            "operator": lambda: Message.objects.filter(pk=dropped.pk).drop_all("unwanted"),
        }
        return Scene(actors, check)

    assert set(explore(world, preemptions=1).seen) == {"dropped"}


@pytest.mark.parametrize("end", ["ack", "ack in a transaction"])
def test_a_pause_during_the_end_of_a_message_holds_the_next_one_until_it_is_resumed(
    explore: Callable[..., Explored], end: str
) -> None:
    def world() -> Scene:
        send()
        message, last = claim_one(), send()

        def check(ended: Ended) -> str:
            assert_lane_is_right(is_paused=True)
            was_due = may_run() == [last.pk]
            assert was_due or waits() == [last.pk]
            Group.objects.resume(QUEUE, GROUP)
            assert_lane_is_right()
            assert_rest_runs_in_order()
            return "was handed on" if was_due else "held"

        actors = {"ender": lambda: ENDS[end](message), "operator": lambda: Group.objects.pause(QUEUE, GROUP)}
        return Scene(actors, check)

    assert "held" in explore(world, preemptions=1).seen


@pytest.mark.parametrize("end", ["ack", "ack in a transaction"])
def test_a_group_that_is_resumed_while_its_message_ends_goes_on(explore: Callable[..., Explored], end: str) -> None:
    def world() -> Scene:
        send()
        message, last = claim_one(), send()
        Group.objects.pause(QUEUE, GROUP)

        def check(ended: Ended) -> str:
            assert_lane_is_right()
            assert may_run() == [last.pk]
            assert_rest_runs_in_order()
            return "goes on"

        actors = {"ender": lambda: ENDS[end](message), "operator": lambda: Group.objects.resume(QUEUE, GROUP)}
        return Scene(actors, check)

    assert set(explore(world, preemptions=1).seen) == {"goes on"}


@override_settings(DBQUEUE=TWO_AT_ONCE)
def test_a_pause_while_another_pauses_and_resumes_leaves_no_ticket_to_a_message_that_waits(
    explore: Callable[..., Explored],
) -> None:
    """Who has a ticket gets another one meanwhile, by a pause and a resume."""

    def world() -> Scene:
        first, second = send(), send()

        def pause_and_resume() -> None:
            Group.objects.pause(QUEUE, GROUP)
            Message.objects.filter(pk=first.pk).drop_all("unwanted")
            Group.objects.resume(QUEUE, GROUP)

        def check(ended: Ended) -> str:
            is_paused = Group.objects.get().is_paused
            assert_lane_is_right(width=2, is_paused=is_paused)
            assert [*may_run(), *waits()] == [second.pk]
            return "waits" if is_paused else "may run"

        return Scene({"operator": lambda: Group.objects.pause(QUEUE, GROUP), "another": pause_and_resume}, check)

    assert "may run" in explore(world, preemptions=1).seen


def test_two_first_pauses_of_a_queue_end_without_an_error(explore: Callable[..., Explored]) -> None:
    """On MySQL, two who insert the same row at once may deadlock."""

    def world() -> Scene:
        def pause_and_resume() -> None:
            Queue.objects.pause(QUEUE)
            Queue.objects.resume(QUEUE)

        def check(ended: Ended) -> str:
            return "paused" if Queue.objects.get().is_paused else "open"

        return Scene({"operator": lambda: Queue.objects.pause(QUEUE), "another": pause_and_resume}, check)

    assert set(explore(world, preemptions=1).seen) == {"paused", "open"}


@ends
@pytest.mark.parametrize("place", ["next", "last"])
def test_who_waits_can_be_moved_to_another_queue_while_the_one_before_it_ends(
    explore: Callable[..., Explored], end: str, place: str
) -> None:
    def world() -> Scene:
        send()
        message, waiting = claim_one(), [send(), send()]
        moved = waiting[0 if place == "next" else 1]

        def check(ended: Ended) -> str:
            there = Message.objects.get(pk=moved.pk)
            assert (row(message)["status"], there.queue) == ("y", "there")
            assert ended["operator"] == 1
            assert there.pk in may_run(), "its group there has nothing else to do"
            assert set(Ticket.objects.filter(message_id=there.pk).values_list("lane", flat=True)) == {there.lane}
            Message.objects.filter(pk=there.pk).drop_all("seen")
            assert_lane_is_right()
            [rest] = [each.pk for each in waiting if each.pk != moved.pk]
            assert let_all_run() == [rest]
            return "moved"

        return Scene(
            {
                "ann": lambda: ENDS[end](message),
                "operator": lambda: Message.objects.filter(pk=moved.pk).move_to("there"),
            },
            check,
        )

    assert set(explore(world, preemptions=1).seen) == {"moved"}


def test_of_a_claim_and_a_move_of_the_first_of_a_lane_one_has_it_and_the_lane_goes_on(
    explore: Callable[..., Explored],
) -> None:
    def world() -> Scene:
        first, second = send(), send()

        def check(ended: Ended) -> str:
            stays = row(first)["queue"] == QUEUE
            assert ended["operator"] == int(not stays)
            if stays:
                assert running() == [first.pk]
                assert_lane_is_right()
                assert let_all_run() == [first.pk, second.pk]
                return "claimed"
            Message.objects.filter(pk=first.pk).drop_all("seen")
            assert_lane_is_right()
            assert let_all_run() == [second.pk]
            return "moved"

        return Scene(
            {
                "worker": lambda: claim(1),
                "operator": lambda: Message.objects.filter(pk=first.pk).move_to("there"),
            },
            check,
        )

    assert set(explore(world, preemptions=2).seen) == {"claimed", "moved"}
