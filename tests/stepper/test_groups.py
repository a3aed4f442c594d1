"""Who sends into a lane, and who frees its tickets, beside each other: order, limit, and nobody left behind (P18, P19).

The look after the commit is what these orders are about: of two that look after their commits, one sees both.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from django.db import transaction
from django.test import override_settings

from django_dbqueue import LeaseLost
from django_dbqueue.lifecycle.settle import settle_claims
from django_dbqueue.models import Group, Line, Message, Ticket
from django_dbqueue.sessions.django_session import session_of
from django_dbqueue.worker.keepers import Keepers
from tests.factories import QUEUE, claim_one, let_end, row
from tests.stepper.contenders import SETTLEMENTS, claim
from tests.stepper.scene import Ended, Scene

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.stepper.exploring import Explored

GROUP = "a"
PARKED = datetime(9999, 1, 1, tzinfo=UTC)
"""What is due later than this waits in its line."""
TWO_AT_ONCE = {"QUEUES": {QUEUE: {"group_limit": 2}}}


def send(payload: object = 0, **options: Any) -> Message:
    return Message.objects.enqueue(payload, queue=QUEUE, group=GROUP, **options)


def ack_in_a_transaction(message: Message) -> None:
    with transaction.atomic():
        message.ack()


def ack_as_a_worker(message: Message) -> None:
    """As a worker's batch of acks, which returns what it still held."""
    session = session_of("default")
    if not settle_claims(session, session.dialect.messages.ack(), [message.claim]):
        raise LeaseLost(message.pk, "ack")


ENDS: dict[str, Callable[[Message], Any]] = {
    "ack": lambda message: message.ack(),
    "ack in a transaction": ack_in_a_transaction,
    "batch ack": ack_as_a_worker,
}
ends = pytest.mark.parametrize("end", ENDS)


def may_run() -> list[int]:
    """Who runs, or is due: by its own row, whatever its ticket says."""
    ready = Message.objects.filter(status="n", available_at__lt=PARKED)
    return sorted([*ready.values_list("pk", flat=True), *running()])


def running() -> list[int]:
    return list(Message.objects.filter(status="run").values_list("pk", flat=True))


def waits() -> list[int]:
    return list(Line.objects.order_by("message_id").values_list("message_id", flat=True))


def assert_lane_is_right(*, width: int = 1, is_paused: bool = False) -> None:
    """Nobody will kick any more: who waits must wait for a ticket that is out, and who may run must have one."""
    out = dict(Ticket.objects.values_list("ticket", "message_id"))
    assert sorted(out.values()) == may_run(), "a ticket names an ended message, or one may run without a ticket"
    assert len(out) <= width, "more run at once than the limit"
    parked = Message.objects.filter(status="n", available_at__gte=PARKED).order_by("pk").values_list("pk", flat=True)
    assert waits() == list(parked), "the line is not who waits"
    assert is_paused or not waits() or set(range(width)) <= set(out), "one is left behind: a ticket is free"


def let_all_run(*, width: int = 1) -> list[int]:
    """Let the messages of the lane run as workers do; return the ids in the order in which they began."""
    began = sorted(running())
    for pk in began:
        message = Message.objects.get(pk=pk)
        message.held_token = message.claim_token
        message.ack()
        assert_lane_is_right(width=width)
    while messages := claim(100):
        assert len(messages) <= width
        began += [message.pk for message in messages]
        for message in messages:
            message.ack()
        assert_lane_is_right(width=width)
    assert waits() == list(Ticket.objects.all()) == []
    return began


def keep() -> None:
    """What a worker does every 15 seconds: nobody else looks after what the dead did not come to do."""
    keeper = Keepers(session_of("default"))
    while keeper.turn():
        pass


def live() -> list[int]:
    rest = Message.objects.exclude(status="y").exclude(available_at=None)
    return list(rest.order_by("pk").values_list("pk", flat=True))


def in_order(first: list[int], began: list[int]) -> bool:
    """Whether those that were due at first began first, and the others by their ids."""
    rest = began[len(first) :]
    return began[: len(first)] == first and rest == sorted(rest)


def assert_rest_runs_in_order(*, width: int = 1) -> None:
    due, alive = may_run(), live()
    began = let_all_run(width=width)
    assert sorted(began) == alive
    assert in_order(due, began)


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


@ends
def test_a_message_that_is_sent_while_the_last_of_its_lane_ends_is_not_left_behind(
    explore: Callable[..., Explored], end: str
) -> None:
    def world() -> Scene:
        send()
        message = claim_one()

        def check(ended: Ended) -> str:
            assert row(message)["status"] == "y"
            assert_lane_is_right()
            assert may_run() == [ended["sender"].pk]
            assert_rest_runs_in_order()
            return "runs"

        return Scene({"sender": send, "ender": lambda: ENDS[end](message)}, check)

    assert set(explore(world).seen) == {"runs"}


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


def test_nothing_runs_beside_a_message_whose_ack_is_rolled_back(explore: Callable[..., Explored]) -> None:
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
def test_a_worker_beside_the_end_of_a_message_gets_the_next_one_after_it_or_nothing(
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
def test_a_pause_beside_the_end_of_a_message_holds_the_next_one_until_it_is_resumed(
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


@pytest.mark.parametrize("death", ["nack", "reject"])
def test_a_message_that_is_sent_beside_a_death_is_not_left_behind(explore: Callable[..., Explored], death: str) -> None:
    def world() -> Scene:
        send(max_reads=1)
        message = claim_one()

        def check(ended: Ended) -> str:
            assert row(message)["available_at"] is None
            assert_lane_is_right()
            assert may_run() == [ended["sender"].pk]
            assert_rest_runs_in_order()
            return "runs"

        return Scene({"sender": send, "ender": lambda: SETTLEMENTS[death](message)}, check)

    assert set(explore(world, preemptions=1).seen) == {"runs"}


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
