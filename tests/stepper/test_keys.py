"""Senders by key beside each other, and beside whoever frees the key or takes it back (P3, P11)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection, transaction

from django_dbqueue import DuplicateKey, LeaseLost
from django_dbqueue.models import Message
from tests.factories import dead, held, row, waiting
from tests.stepper.contenders import claim, live_ids
from tests.stepper.exploring import Explored
from tests.stepper.scene import Ended, Scene

SECOND = {"ignore": "ignored", "update": "updated", "error": "DuplicateKey"}
"""What a sender is told if the key is taken."""


def send(payload: str, on_conflict: str) -> Callable[[], Message]:
    return lambda: waiting(payload=payload, key="k", on_conflict=on_conflict)


def answer(result: Any) -> str:
    return str(result.outcome) if isinstance(result, Message) else type(result).__name__


@pytest.mark.parametrize("bob", SECOND)
@pytest.mark.parametrize("ann", SECOND)
def test_of_two_who_send_the_same_key_one_creates_and_the_other_learns_it(
    explore: Callable[..., Explored], ann: str, bob: str
) -> None:
    def world() -> Scene:
        def check(ended: Ended) -> str:
            answers = {name: answer(ended[name]) for name in ("ann", "bob")}
            second, rule = ("bob", bob) if answers["ann"] == "created" else ("ann", ann)
            first = "ann" if second == "bob" else "bob"
            assert answers == {first: "created", second: SECOND[rule]}
            assert live_ids("k") == [ended[first].pk] == list(Message.objects.values_list("pk", flat=True))
            assert row(ended[first])["body"] == (second if rule == "update" else first)
            return f"{first} first"

        return Scene({"ann": send("ann", ann), "bob": send("bob", bob)}, check, (DuplicateKey,))

    assert set(explore(world).seen) == {"ann first", "bob first"}


@pytest.mark.parametrize("ends", ["commits", "rolls back"])
@pytest.mark.parametrize("rule", SECOND)
def test_who_sends_a_key_during_a_transaction_that_sent_it_waits_for_its_end_and_then_creates_or_meets(
    explore: Callable[..., Explored], rule: str, ends: str
) -> None:
    def world() -> Scene:
        def work() -> None:
            with transaction.atomic():
                send("ann", "ignore")()
                transaction.set_rollback(ends == "rolls back")

        def check(ended: Ended) -> str:
            outcome = answer(ended["bob"])
            [live] = live_ids("k")
            stored = Message.objects.get(pk=live)
            if outcome == "created":  # and so it was first, or ann rolled back
                assert (stored.pk, stored.body, Message.objects.count()) == (ended["bob"].pk, "bob", 1)
                return outcome
            assert outcome == SECOND[rule]
            assert ends == "commits"
            assert stored.body == ("bob" if rule == "update" else "ann")
            return outcome

        return Scene({"ann": work, "bob": send("bob", rule)}, check, (DuplicateKey,))

    outcomes = {"created"} if ends == "rolls back" else {"created", SECOND[rule]}
    explored = explore(world)
    assert set(explored.seen) == outcomes
    assert (explored.waits > 0) is (connection.vendor != "sqlite")


@pytest.mark.parametrize("verb", ["ack", "reject"])
@pytest.mark.parametrize("rule", SECOND)
def test_a_sender_alongside_the_holder_who_frees_the_key_creates_or_meets_the_live_message_and_nothing_is_lost(
    explore: Callable[..., Explored], rule: str, verb: str
) -> None:
    def world() -> Scene:
        message = held(payload="old", key="k")
        end: Callable[[], None] = message.ack if verb == "ack" else lambda: message.reject("no")

        def check(ended: Ended) -> str:
            outcome, has_lost = answer(ended["sender"]), ended.raised("holder", LeaseLost)
            assert outcome in {"created", SECOND[rule]}
            assert has_lost is (outcome == "updated")
            if outcome == "created":
                assert live_ids("k") == [ended["sender"].pk] != [message.pk]
                assert row(ended["sender"])["body"] == "new"
            elif outcome == "updated":
                assert live_ids("k") == [message.pk]
                assert (row(message)["body"], row(message)["status"], row(message)["read_count"]) == ("new", "n", 0)
            else:
                assert live_ids("k") == []  # it met the message before its end
            if outcome != "updated":
                assert row(message)["body"] == "old"
                assert row(message)["finished_at"] is not None
            return outcome

        return Scene({"holder": end, "sender": send("new", rule)}, check, (LeaseLost, DuplicateKey))

    assert set(explore(world).seen) == {"created", SECOND[rule]}


@pytest.mark.parametrize("rule", SECOND)
def test_of_a_sender_and_an_operator_who_requeues_the_dead_message_of_the_key_one_has_it(
    explore: Callable[..., Explored], rule: str
) -> None:
    def world() -> Scene:
        message = dead(payload="old", key="k")

        def requeue() -> Any:
            return Message.objects.filter(pk=message.pk).requeue()

        def check(ended: Ended) -> str:
            outcome, changed = answer(ended["sender"]), ended["operator"]
            [live] = live_ids("k")
            if outcome == "created":
                assert (live, int(changed)) == (ended["sender"].pk, 0)
                assert [type(error) for error in changed.conflicts] == [DuplicateKey]
            else:
                assert (live, int(changed), outcome) == (message.pk, 1, SECOND[rule])
                assert row(message)["body"] == ("new" if outcome == "updated" else "old")
            return outcome

        return Scene({"operator": requeue, "sender": send("new", rule)}, check, (DuplicateKey,))

    assert set(explore(world).seen) == {"created", SECOND[rule]}


def test_a_claim_during_an_update_has_the_new_content_or_has_lost(explore: Callable[..., Explored]) -> None:
    def world() -> Scene:
        message = waiting(payload="old", key="k")

        def check(ended: Ended) -> str:
            assert (answer(ended["sender"]), live_ids("k")) == ("updated", [message.pk])
            assert row(message)["body"] == "new"
            if not ended["claimer"]:
                assert (row(message)["status"], row(message)["read_count"]) == ("n", 0)
                return "nothing was due"
            [claimed] = ended["claimer"]
            if claimed.payload == "new":
                claimed.ack()
                return "claimed the new"
            with pytest.raises(LeaseLost):
                claimed.ack()
            assert (row(message)["status"], row(message)["read_count"]) == ("n", 0)
            return "lost the old"

        return Scene({"claimer": lambda: claim(1), "sender": send("new", "update")}, check)

    assert {"claimed the new", "lost the old"} <= set(explore(world).seen)
