"""The last two that end in a flow, beside each other, beside operators, deaths and the keeper (P22).

Nobody counts who is left. So what these orders are about is the look after the commit: of the last two that look after
their commits, one sees that nobody is left.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from django_dbqueue import Envelope, LeaseLost, flow
from django_dbqueue.models import Edge, Message
from tests.factories import QUEUE, let_end, row
from tests.flows.fans import keep
from tests.stepper.contenders import SETTLEMENTS, claim
from tests.stepper.exploring import Explored
from tests.stepper.lanes import ENDS, ends
from tests.stepper.scene import Ended, Scene


def fan(*, when: str = "done", group: str | None = None) -> tuple[list[Message], Message]:
    """Two messages that are held, and one after both."""
    with flow("a fan") as f:
        parts = f.enqueue_many([1, 2], queue=QUEUE)
        last = f.enqueue(Envelope("last", group=group), queue=QUEUE, after=parts, when=when)
    return claim(10), Message.objects.get(pk=last.first)


def state(message: Message) -> str:
    return Message.objects.filter(pk=message.pk).values_list("status", flat=True)[0] + (
        " due" if Message.objects.ready(QUEUE).filter(pk=message.pk).exists() else ""
    )


def assert_it_runs_once(last: Message) -> None:
    messages = claim(10)
    assert [message.pk for message in messages] == [last.pk]
    assert not Edge.objects.exists()
    messages[0].ack()
    assert claim(10) == []


@ends
@pytest.mark.parametrize("group", [None, "g"])
def test_of_the_last_two_that_end_one_lets_the_next_run(
    explore: Callable[..., Explored], end: str, group: str | None
) -> None:
    def world() -> Scene:
        both, last = fan(group=group)

        def check(ended: Ended) -> str:
            assert_it_runs_once(last)
            return "runs"

        return Scene({"ann": lambda: ENDS[end](both[0]), "bob": lambda: ENDS[end](both[1])}, check)

    assert set(explore(world, preemptions=1 if group else 2).seen) == {"runs"}


@ends
def test_what_one_that_died_did_not_check_the_keeper_finds(explore: Callable[..., Explored], end: str) -> None:
    def world() -> Scene:
        both, last = fan()

        def check(ended: Ended) -> str:
            before = state(last)
            keep()
            if all(row(message)["status"] == "y" for message in both):
                assert_it_runs_once(last)
                return "they themselves" if before == "n due" else "the keeper"
            assert state(last) == "n"
            return "not yet"

        return Scene({"ann": lambda: ENDS[end](both[0]), "bob": lambda: ENDS[end](both[1])}, check)

    assert set(explore(world, preemptions=1, deaths=1).seen) == {"they themselves", "the keeper", "not yet"}


def test_the_keeper_during_the_last_end_lets_it_run_once(explore: Callable[..., Explored]) -> None:
    def world() -> Scene:
        both, last = fan()
        both[0].ack()

        def check(ended: Ended) -> str:
            assert_it_runs_once(last)
            return "runs"

        return Scene({"ann": lambda: both[1].ack(), "keeper": keep}, check)

    assert set(explore(world, preemptions=1).seen) == {"runs"}


@pytest.mark.parametrize("end", ["ack", "reject"])
def test_during_a_death_an_end_or_another_death_lets_an_alert_run_once(
    explore: Callable[..., Explored], end: str
) -> None:
    def world() -> Scene:
        both, alert = fan(when="dead")

        def check(ended: Ended) -> str:
            assert_it_runs_once(alert)
            return "runs"

        return Scene({"ann": lambda: both[0].reject("no"), "bob": lambda: SETTLEMENTS[end](both[1])}, check)

    assert set(explore(world, preemptions=1).seen) == {"runs"}


def test_one_that_is_dropped_while_the_last_before_it_ends_does_not_run(explore: Callable[..., Explored]) -> None:
    def world() -> Scene:
        both, last = fan()
        both[0].ack()

        def check(ended: Ended) -> str:
            assert ended["operator"] == 1
            assert row(last)["status"] == "y"
            assert claim(10) == []
            assert not Edge.objects.exists()
            return "dropped"

        actors: dict[str, Callable[[], Any]] = {
            "ann": lambda: both[1].ack(),
            "operator": lambda: Message.objects.filter(pk=last.pk).drop_all("unwanted"),
        }
        return Scene(actors, check)

    assert set(explore(world, preemptions=1).seen) == {"dropped"}


def test_who_waits_does_not_run_before_the_children_of_one_that_spawns_during_the_others_end(
    explore: Callable[..., Explored],
) -> None:
    def world() -> Scene:
        both, last = fan()

        def spawn() -> int:
            child = both[0].spawn("child", queue=QUEUE)
            both[0].ack()
            return child.first

        def check(ended: Ended) -> str:
            assert state(last) == "n"
            [child] = claim(10)
            assert child.pk == ended["ann"]
            child.ack()
            assert_it_runs_once(last)
            return "runs"

        return Scene({"ann": spawn, "bob": lambda: both[1].ack()}, check)

    assert set(explore(world, preemptions=1).seen) == {"runs"}


def test_of_a_spawn_and_a_rescue_one_wins(explore: Callable[..., Explored]) -> None:
    def world() -> Scene:
        both, last = fan()
        both[1].ack()
        let_end(both[0])

        def check(ended: Ended) -> str:
            lost = ended.raised("ann", LeaseLost)
            assert Message.objects.filter(flow=last.flow).count() == (3 if lost else 4)
            assert Edge.objects.filter(upstream__gt=0).count() == (1 if lost else 2)
            for _ in range(2):
                for message in claim(10):
                    message.held_token = message.claim_token
                    message.ack()
            keep()
            return "lost" if lost else "spawned"

        actors: dict[str, Callable[[], Any]] = {
            "ann": lambda: both[0].spawn("child", queue=QUEUE),
            "rescuer": lambda: Message.objects.rescue(),
        }
        return Scene(actors, check, may_raise=(LeaseLost,))

    assert set(explore(world, preemptions=1).seen) == {"lost", "spawned"}
