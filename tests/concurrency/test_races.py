"""Two who want the same message: one wins, the loser is told and has changed nothing (P4, P5, P11)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import pytest
from django.db import connection

from django_dbqueue import LeaseLost
from django_dbqueue.databases import Statement
from django_dbqueue.models import ArchivedMessage, Message
from django_dbqueue.sessions.django_session import DjangoSession
from tests.concurrency.contenders import claim, claim_in_transaction, drop, drop_by_key, requeue, rescue, update
from tests.concurrency.steps import meet
from tests.factories import QUEUE, claim_one, dead, held, row, stuck, waiting

pytestmark = pytest.mark.django_db(transaction=True)

VERBS: dict[str, Callable[[Message], Any]] = {
    "ack": lambda message: message.ack(),
    "nack": lambda message: message.nack(error="late"),
    "reject": lambda message: message.reject("late"),
    "release": lambda message: message.release(),
    "extend": lambda message: message.extend(60),
    "batch ack": lambda message: Message.objects.ack([message]),
}


def is_lost(result: Any, message: Message) -> bool:
    """The loser's answer, of one or of a batch."""
    return isinstance(result, LeaseLost) or result == [message]


# A holder against the rescue


@pytest.mark.parametrize("verb", VERBS)
def test_a_rescue_alongside_a_holder_who_settles_passes_the_row_by(verb: str) -> None:
    message = stuck(key="k")
    met = meet(lambda: VERBS[verb](message), rescue, waits=False)
    assert not is_lost(met.first, message)
    stored = row(message)
    if verb in {"release", "nack"} or connection.vendor != "sqlite":
        assert met.second == 0
    assert stored["crashes"] == 0
    assert stored["status"] == {"ack": "y", "batch ack": "y", "extend": "run"}.get(verb, "n")


@pytest.mark.parametrize("verb", VERBS)
def test_a_holder_who_settles_during_the_rescue_has_lost(verb: str) -> None:
    message = stuck(key="k")
    met = meet(rescue, lambda: VERBS[verb](message), waits=True)
    assert met.first == 1
    assert is_lost(met.second, message)
    stored = row(message)
    assert (stored["status"], stored["crashes"], stored["read_count"], stored["live"]) == ("n", 1, 1, 1)
    assert "LeaseOver" in stored["error"]


@pytest.mark.parametrize("verb", VERBS)
def test_a_holder_wins_when_the_rescue_is_rolled_back(verb: str) -> None:
    message = stuck(key="k")
    met = meet(rescue, lambda: VERBS[verb](message), then_roll_back=True, waits=True)
    assert not is_lost(met.second, message)
    assert row(message)["crashes"] == 0


def test_of_two_rescues_one_takes_the_row_and_neither_waits() -> None:
    message = stuck()
    met = meet(rescue, rescue, waits=False)
    assert (met.first, met.second) == (1, 0)
    assert (row(message)["crashes"], row(message)["read_count"]) == (1, 1)


# A holder against an update of his message


@pytest.mark.parametrize("verb", VERBS)
def test_a_holder_who_settles_during_an_update_has_lost(verb: str) -> None:
    message = held(payload="old", key="k")
    met = meet(update, lambda: VERBS[verb](message), waits=True)
    assert met.first.outcome == "updated"
    assert is_lost(met.second, message)
    stored = row(message)
    assert (stored["status"], stored["body"], stored["read_count"], stored["error"]) == ("n", "new", 0, None)


@pytest.mark.parametrize("verb", ["ack", "batch ack", "reject"])
def test_an_update_alongside_a_holder_who_ends_the_message_creates_a_new_one(verb: str) -> None:
    message = held(payload="old", key="k")
    met = meet(lambda: VERBS[verb](message), update, waits=True)
    assert met.second.outcome == "created"
    assert met.second.pk != message.pk
    assert row(message)["body"] == "old"
    assert claim_one().payload == "new"


@pytest.mark.parametrize("verb", ["nack", "release", "extend"])
def test_an_update_alongside_a_holder_who_releases_finds_the_message_live(verb: str) -> None:
    message = held(payload="old", key="k")
    met = meet(lambda: VERBS[verb](message), update, waits=None)
    assert (met.second.outcome, met.second.pk) == ("updated", message.pk)
    assert (row(message)["body"], row(message)["status"]) == ("new", "n")


# A holder against an operator


@pytest.mark.parametrize("operator", [requeue, drop])
@pytest.mark.parametrize("verb", VERBS)
def test_a_holder_who_settles_alongside_an_operator_has_lost(verb: str, operator: Callable[[], int]) -> None:
    message = held(key="k")
    met = meet(operator, lambda: VERBS[verb](message), waits=True)
    assert met.first == 1
    assert is_lost(met.second, message)
    assert row(message)["status"] == {requeue: "n", drop: "y"}[operator]
    assert row(message)["read_count"] == {requeue: 0, drop: 1}[operator]


@pytest.mark.parametrize("operator", [requeue, drop])
@pytest.mark.parametrize("verb", ["ack", "batch ack"])
def test_an_operator_alongside_a_holder_who_acks_changes_nothing(verb: str, operator: Callable[[], int]) -> None:
    message = held(key="k")
    met = meet(lambda: VERBS[verb](message), operator)
    assert met.second == 0
    assert (row(message)["status"], row(message)["error"]) == ("y", None)


def test_an_operator_who_requeues_alongside_a_holder_who_releases_changes_nothing() -> None:
    message = held(key="k")
    met = meet(message.release, requeue)
    assert met.second == 0
    assert (row(message)["status"], row(message)["read_count"]) == ("n", 0)


# Claims


def test_of_two_claims_at_once_each_gets_its_own_message_and_neither_waits() -> None:
    first, second = waiting(), waiting()
    met = meet(claim_in_transaction, claim, waits=False)
    assert (met.first, met.second) == ([first], [second])
    assert row(first)["claim_token"] != row(second)["claim_token"]


def test_a_claim_alongside_one_that_took_all_gets_nothing_and_does_not_wait() -> None:
    message = waiting()
    met = meet(claim_in_transaction, claim, waits=False)
    assert (met.first, met.second) == ([message], [])
    assert row(message)["read_count"] == 1


@pytest.mark.parametrize(
    ("first", "second"),
    [*product(["claim", "claim elsewhere"], ["claim", "ack", "enqueue"]), ("rescue", "claim"), ("rescue", "enqueue")],
)
def test_who_finds_nothing_holds_nothing_up(first: str, second: str) -> None:
    holder = held()
    due = [] if first == "claim" else [waiting()]
    find = {"claim": claim_in_transaction, "claim elsewhere": partial(claim_in_transaction, "empty"), "rescue": rescue}
    met = meet(find[first], {"claim": claim, "ack": holder.ack, "enqueue": waiting}[second], waits=False)
    assert not met.first
    assert row(holder)["status"] == ("y" if second == "ack" else "run")
    assert second != "claim" or met.second == due
    assert second != "enqueue" or met.second.outcome == "created"


def test_a_claim_alongside_a_holder_who_releases_does_not_wait_for_him() -> None:
    holder, other = held(), waiting()
    met = meet(holder.nack, claim, waits=False)
    assert len(met.second) == 1
    assert met.second == [other] or connection.vendor == "sqlite"


def test_a_claim_does_not_wait_for_an_enqueue_that_is_not_committed() -> None:
    message = waiting()
    met = meet(waiting, claim, waits=False)
    assert met.second == [message]


def test_a_claim_during_an_update_of_its_message_takes_the_new_content_or_nothing() -> None:
    waiting(payload="old", key="k")
    met = meet(update, claim, waits=False)
    assert [message.payload for message in met.second] == (["new"] if connection.vendor == "sqlite" else [])


def test_an_update_during_a_claim_ends_that_claim() -> None:
    waiting(payload="old", key="k")
    met = meet(claim_in_transaction, update, waits=True)
    [holder] = met.first
    assert met.second.outcome == "updated"
    with pytest.raises(LeaseLost):
        holder.ack()
    assert row(holder)["body"] == "new"


@pytest.mark.parametrize("verb", ["reject_waiting", "drop_all"])
def test_an_operator_who_saw_the_message_waiting_changes_nothing_during_its_claim(verb: str) -> None:
    waiting(key="k")
    met = meet(claim_in_transaction, lambda: int(getattr(Message.objects.ready(QUEUE), verb)("by me")))
    assert met.second == 0
    met.first[0].ack()


# Drop by key, beside who holds the message or takes it


@pytest.mark.parametrize("verb", [*VERBS])
def test_of_a_holder_and_a_drop_by_key_the_second_has_lost(verb: str) -> None:
    message = held(key="k")
    met = meet(drop_by_key, lambda: VERBS[verb](message), waits=True)
    assert met.first is True
    assert is_lost(met.second, message)
    assert row(message)["error"] == "dropped by its key"


def test_a_drop_by_key_during_an_ack_finds_nothing_to_drop() -> None:
    message = held(key="k")
    met = meet(message.ack, drop_by_key, waits=True)
    assert (met.first, met.second) == (None, False)
    assert (row(message)["status"], row(message)["error"]) == ("y", None)


def test_a_drop_by_key_during_a_claim_takes_the_message_from_it() -> None:
    waiting(key="k")
    met = meet(claim_in_transaction, drop_by_key, waits=True)
    assert met.second is True
    with pytest.raises(LeaseLost):
        met.first[0].ack()


# Two operators


def test_a_requeue_during_a_purge_of_the_same_dead_message_finds_it_gone() -> None:
    message = dead(key="k")
    met = meet(lambda: Message.objects.filter(pk=message.pk).purge(), requeue)
    assert (met.first, met.second) == (1, 0)
    assert (Message.objects.count(), ArchivedMessage.objects.count()) == (0, 1)


def test_a_purge_during_a_requeue_of_the_same_dead_message_leaves_it() -> None:
    message = dead(key="k")
    met = meet(requeue, lambda: Message.objects.filter(pk=message.pk).purge())
    assert (met.first, met.second) == (1, 0)
    assert (row(message)["status"], ArchivedMessage.objects.count()) == ("n", 0)


# Between two statements of one verb


def test_a_rescue_names_the_state_that_it_leaves_and_does_not_lean_on_its_locks_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    message = stuck()
    find = DjangoSession.fetch

    def find_and_be_overtaken(session: DjangoSession, statement: Statement) -> list[tuple[Any, ...]]:
        found = find(session, statement)
        if "read_count" in statement.sql:  # the one that locks what is over its lease
            message.ack()  # by the rescue's own connection, which no lock keeps out
        return found

    monkeypatch.setattr(DjangoSession, "fetch", find_and_be_overtaken)
    Message.objects.rescue(QUEUE)
    assert row(message)["status"] == "y"
