"""A holder who settles, beside whoever takes the message from it: one wins, and the loser is told (P5, P6, P7)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import override_settings

from django_dbqueue import LeaseLost
from django_dbqueue.models import Message, MessageEvent
from tests.factories import QUEUE, held, held_many, row, stuck, waiting
from tests.stepper.contenders import SETTLEMENTS, places
from tests.stepper.exploring import Explored
from tests.stepper.scene import Ended, Scene

AFTER = {"ack": "y", "batch ack": "y", "nack": "n", "reject": "n", "release": "n"}


def has_lost(ended: Ended, message: Message) -> bool:
    """The loser's answer, of one or of a batch."""
    return ended.raised("holder", LeaseLost) or ended["holder"] == [message]


@pytest.mark.parametrize("verb", SETTLEMENTS)
def test_of_a_settlement_and_a_rescue_one_wins_and_the_holder_knows_which(
    explore: Callable[..., Explored], verb: str
) -> None:
    def world() -> Scene:
        message = stuck(max_reads=2)

        def check(ended: Ended) -> str:
            stored = row(message)
            assert len(places(message.pk)) == 1
            if has_lost(ended, message):
                assert ended["rescuer"] == 1
                assert (stored["status"], stored["crashes"], stored["read_count"]) == ("n", 1, 1)
                return "rescued"
            assert ended["rescuer"] == 0
            reads = 0 if verb == "release" else 1
            assert (stored["status"], stored["crashes"], stored["read_count"]) == (AFTER[verb], 0, reads)
            return "settled"

        actors = {"holder": lambda: SETTLEMENTS[verb](message), "rescuer": lambda: Message.objects.rescue(QUEUE)}
        return Scene(actors, check, (LeaseLost,))

    assert set(explore(world).seen) == {"rescued", "settled"}


@override_settings(DBQUEUE={"QUEUES": {QUEUE: {"on_ack": "delete"}}})
def test_of_an_ack_that_removes_the_message_and_a_rescue_one_wins(explore: Callable[..., Explored]) -> None:
    def world() -> Scene:
        message = stuck()

        def check(ended: Ended) -> str:
            has_lost = ended.raised("holder", LeaseLost)
            assert ended["rescuer"] == int(has_lost)
            assert places(message.pk) == (["n"] if has_lost else [])
            return "rescued" if has_lost else "removed"

        return Scene({"holder": message.ack, "rescuer": lambda: Message.objects.rescue(QUEUE)}, check, (LeaseLost,))

    assert set(explore(world).seen) == {"rescued", "removed"}


def test_the_last_read_is_the_death_of_a_message_once_whether_its_nack_or_a_rescue_is_first(
    explore: Callable[..., Explored],
) -> None:
    def world() -> Scene:
        message = stuck(max_reads=1)

        def check(ended: Ended) -> str:
            stored = row(message)
            assert (stored["status"], stored["available_at"], stored["read_count"]) == ("n", None, 1)
            assert MessageEvent.objects.filter(message_id=message.pk, kind="died").count() == 1
            assert ended["rescuer"] == int(ended.raised("holder", LeaseLost)) == stored["crashes"]
            return "rescued" if stored["crashes"] else "nacked"

        actors = {"holder": lambda: message.nack(error="no"), "rescuer": lambda: Message.objects.rescue(QUEUE)}
        return Scene(actors, check, (LeaseLost,))

    assert set(explore(world).seen) == {"rescued", "nacked"}


def test_who_was_rescued_can_not_settle_what_the_next_holder_has(explore: Callable[..., Explored]) -> None:
    def world() -> Scene:
        message = stuck()

        def rescue_and_claim() -> list[Message]:
            Message.objects.rescue(QUEUE)
            return Message.objects.claim(1, queue=QUEUE)

        def check(ended: Ended) -> str:
            if not ended.raised("holder", LeaseLost):
                assert ended["next"] == []
                assert row(message)["status"] == "y"
                return "acked by the first"
            [again] = ended["next"]
            again.ack()  # raises if the first holder's ack has ended its claim
            assert (row(message)["read_count"], row(message)["status"]) == (2, "y")
            return "acked by the second"

        return Scene({"holder": message.ack, "next": rescue_and_claim}, check, (LeaseLost,))

    assert set(explore(world).seen) == {"acked by the first", "acked by the second"}


def test_of_two_acks_under_one_claim_one_succeeds(explore: Callable[..., Explored]) -> None:
    def world() -> Scene:
        message = held()
        copy = Message.objects.get(pk=message.pk)

        def check(ended: Ended) -> str:
            assert [ended.raised(name, LeaseLost) for name in ("handler", "worker")].count(True) == 1
            assert row(message)["status"] == "y"
            return "worker" if ended.raised("handler", LeaseLost) else "handler"

        return Scene({"handler": message.ack, "worker": copy.ack}, check, (LeaseLost,))

    assert set(explore(world).seen) == {"worker", "handler"}


OPERATORS: dict[str, tuple[Callable[[int], int], dict[str, Any]]] = {
    "requeue": (
        lambda pk: int(Message.objects.filter(pk=pk).requeue(by="eve")),
        {"status": "n", "read_count": 0, "live": 1},
    ),
    "drop": (
        lambda pk: int(Message.objects.filter(pk=pk).drop_all("by me", by="eve")),
        {"status": "y", "read_count": 1, "live": None},
    ),
    "drop by key": (
        lambda _: int(Message.objects.drop(QUEUE, "k", reason="by me")),
        {"status": "y", "read_count": 1, "live": None},
    ),
}


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("verb", ["ack", "batch ack"])
def test_of_an_ack_and_an_operator_one_wins_and_both_know_which(
    explore: Callable[..., Explored], verb: str, operator: str
) -> None:
    act, after = OPERATORS[operator]

    def world() -> Scene:
        message = held(key="k")

        def check(ended: Ended) -> str:
            stored = row(message)
            if has_lost(ended, message):
                assert ended["operator"] == 1
                assert {name: stored[name] for name in after} == after
                return "operator"
            assert ended["operator"] == 0
            assert (stored["status"], stored["error"], stored["live"]) == ("y", None, None)
            return "holder"

        actors = {"holder": lambda: SETTLEMENTS[verb](message), "operator": lambda: act(message.pk)}
        return Scene(actors, check, (LeaseLost,))

    assert set(explore(world).seen) == {"operator", "holder"}


def test_a_batch_ack_alongside_an_operator_loses_that_message_alone(explore: Callable[..., Explored]) -> None:
    def world() -> Scene:
        first, second = held_many(2)

        def check(ended: Ended) -> str:
            assert row(first)["status"] == row(second)["status"] == "y"
            assert row(first)["error"] is None
            is_dropped = row(second)["error"] is not None
            assert ended["operator"] == int(is_dropped)
            assert ended["holder"] == ([second] if is_dropped else [])
            return "dropped" if is_dropped else "acked"

        actors = {
            "holder": lambda: Message.objects.ack([first, second]),
            "operator": lambda: int(Message.objects.filter(pk=second.pk).drop_all("by me")),
        }
        return Scene(actors, check)

    assert set(explore(world).seen) == {"dropped", "acked"}


def test_what_a_block_wrote_is_there_if_and_only_if_its_ack_was_committed_during_a_rescue_and_a_death(
    explore: Callable[..., Explored],
) -> None:
    def world() -> Scene:
        message = stuck()

        def work() -> None:
            with message.transaction():
                waiting(queue="effects")

        def check(ended: Ended) -> str:
            is_acked = row(message)["status"] == "y"
            assert Message.objects.filter(queue="effects").count() == int(is_acked)
            [place] = places(message.pk)
            if ended.was_killed("holder") or ended.was_killed("rescuer"):
                return "killed"
            assert place == ("y" if is_acked else "n")
            assert ended.raised("holder", LeaseLost) is not is_acked
            return "acked" if is_acked else "lost"

        return Scene({"holder": work, "rescuer": lambda: Message.objects.rescue(QUEUE)}, check, (LeaseLost,))

    assert set(explore(world, preemptions=1, deaths=1).seen) == {"acked", "lost", "killed"}
