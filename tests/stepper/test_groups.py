"""Who sends into a lane, and who frees its tickets, beside each other: order, limit, and nobody left behind (P18, P19).

The look after the commit is what these orders are about: of two that look after their commits, one sees both.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.db import transaction
from django.test import override_settings

from django_dbqueue import LeaseLost
from django_dbqueue.models import Message
from tests.factories import QUEUE, claim_one, let_end, row
from tests.flows.fans import keep
from tests.stepper.contenders import SETTLEMENTS, claim
from tests.stepper.exploring import Explored
from tests.stepper.lanes import (
    ENDS,
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


@pytest.mark.parametrize("lane", ["empty", "busy"])
def test_of_two_who_send_into_a_lane_one_message_runs_and_the_other_waits(
    explore: Callable[..., Explored], lane: str
) -> None:
    def world() -> Scene:
        if lane == "busy":
            send()
            claim_one()

        def check(ended: Ended) -> str:
            assert_lane_is_right()
            sent = sorted([ended["ann"].pk, ended["bob"].pk])
            assert waits() == (sent if lane == "busy" else [pk for pk in sent if pk not in may_run()])
            first = "ann" if ended["ann"].pk == sent[0] else "bob"
            assert_rest_runs_in_order()
            return first

        return Scene({"ann": send, "bob": send}, check)

    assert set(explore(world, preemptions=1).seen) == {"ann", "bob"}


@pytest.mark.parametrize("end", [*ENDS, "nack", "reject"])
def test_a_message_that_is_sent_while_the_last_of_its_lane_ends_is_not_left_behind(
    explore: Callable[..., Explored], end: str
) -> None:
    def world() -> Scene:
        send(max_reads=1)
        message = claim_one()

        def check(ended: Ended) -> str:
            assert row(message)["status"] == ("y" if end in ENDS else "n")
            assert end in ENDS or row(message)["available_at"] is None
            assert_lane_is_right()
            assert may_run() == [ended["sender"].pk]
            assert_rest_runs_in_order()
            return "runs"

        return Scene({"sender": send, "ender": lambda: (SETTLEMENTS | ENDS)[end](message)}, check)

    assert set(explore(world, preemptions=2 if end in ENDS else 1).seen) == {"runs"}


@ends
def test_what_a_sender_or_an_ender_that_died_left_undone_the_keeper_does(
    explore: Callable[..., Explored], end: str
) -> None:
    def world() -> Scene:
        send()
        message = claim_one()

        def check(ended: Ended) -> str:
            was_left = bool(waits()) and not may_run()
            keep()
            assert_lane_is_right()
            assert_rest_runs_in_order()
            return "the keeper" if was_left else "they themselves"

        return Scene({"sender": send, "ender": lambda: ENDS[end](message)}, check)

    assert set(explore(world, preemptions=1, deaths=1).seen) == {"the keeper", "they themselves"}


@pytest.mark.parametrize("waiting", [1, 2])
@pytest.mark.parametrize("end", ["ack in a transaction", "batch ack"])
@override_settings(DBQUEUE=TWO_AT_ONCE)
def test_two_who_end_in_a_lane_with_two_tickets_hand_both_on(
    explore: Callable[..., Explored], end: str, waiting: int
) -> None:
    def world() -> Scene:
        send(), send()
        both = claim(2)
        rest = [send().pk for _ in range(waiting)]

        def check(ended: Ended) -> str:
            assert_lane_is_right(width=2)
            assert may_run() == rest
            assert_rest_runs_in_order(width=2)
            return "handed on"

        return Scene({"ann": lambda: ENDS[end](both[0]), "bob": lambda: ENDS[end](both[1])}, check)

    assert set(explore(world, preemptions=1).seen) == {"handed on"}


@ends
@override_settings(DBQUEUE=TWO_AT_ONCE)
def test_who_ends_in_a_lane_waits_for_no_long_transaction_that_ends_another(
    explore: Callable[..., Explored], end: str
) -> None:
    def world() -> Scene:
        send(), send()
        both = claim(2)

        def work() -> None:
            with transaction.atomic():
                both[0].ack()
                Message.objects.filter(pk=0).exists()

        def check(ended: Ended) -> str:
            assert not ended.waited
            assert_lane_is_right(width=2)
            return "nobody waits"

        return Scene({"ann": work, "bob": lambda: ENDS[end](both[1])}, check)

    assert set(explore(world, preemptions=1).seen) == {"nobody waits"}


def test_nothing_runs_alongside_a_message_whose_ack_is_rolled_back(explore: Callable[..., Explored]) -> None:
    def world() -> Scene:
        send()
        message, last = claim_one(), send()

        def work() -> None:
            with transaction.atomic():
                message.ack()
                transaction.set_rollback(True)

        def check(ended: Ended) -> str:
            assert ended["worker"] == []
            assert (running(), waits()) == ([message.pk], [last.pk])
            assert_lane_is_right()
            assert_rest_runs_in_order()
            return "runs on"

        return Scene({"ender": work, "worker": lambda: claim(2)}, check)

    assert set(explore(world).seen) == {"runs on"}


@ends
def test_a_worker_during_the_end_of_a_message_gets_the_next_one_after_it_or_nothing(
    explore: Callable[..., Explored], end: str
) -> None:
    def world() -> Scene:
        send()
        message, last = claim_one(), send()

        def check(ended: Ended) -> str:
            has_one = [each.pk for each in ended["worker"]] == [last.pk]
            assert has_one or ended["worker"] == []
            assert_lane_is_right()
            assert_rest_runs_in_order()
            return "after it" if has_one else "nothing"

        return Scene({"ender": lambda: ENDS[end](message), "worker": lambda: claim(2)}, check)

    assert set(explore(world, preemptions=1).seen) == {"after it", "nothing"}


@pytest.mark.parametrize("end", ["ack", "ack in a transaction"])
@pytest.mark.parametrize("max_reads", [1, 2], ids=["its last read", "it comes again"])
def test_of_an_ack_and_a_rescue_in_a_lane_one_wins_and_the_lane_goes_on(
    explore: Callable[..., Explored], end: str, max_reads: int
) -> None:
    def world() -> Scene:
        send(max_reads=max_reads)
        message, last = claim_one(), send()
        let_end(message)

        def check(ended: Ended) -> str:
            is_rescued = ended.raised("ender", LeaseLost)
            assert ended["rescuer"] == int(is_rescued)
            assert_lane_is_right()
            assert may_run() == [message.pk if is_rescued and max_reads == 2 else last.pk]
            assert_rest_runs_in_order()
            return "rescued" if is_rescued else "acked"

        actors = {"ender": lambda: ENDS[end](message), "rescuer": lambda: Message.objects.rescue(QUEUE)}
        return Scene(actors, check, (LeaseLost,))

    assert set(explore(world).seen) == {"rescued", "acked"}
