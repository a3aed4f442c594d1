"""Two who want the same message: one wins, the loser is told and has changed nothing (P4, P5, P11)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.db import connection

from django_dbqueue import DuplicateKey, Envelope, LeaseLost
from django_dbqueue.lifecycle import enqueue as enqueue_module
from django_dbqueue.lifecycle import rescue as rescue_module
from django_dbqueue.lifecycle.claim import Claimer
from django_dbqueue.models import ArchivedMessage, Message
from tests.concurrency.steps import aside, meet, outcome, waits_for_a_lock
from tests.factories import QUEUE, claim_one, dead, done, held, held_many, row, stuck, waiting

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

pytestmark = pytest.mark.django_db(transaction=True)


def rescue() -> int:
    return Message.objects.rescue(QUEUE)


def update() -> Message:
    return waiting(payload="new", key="k", on_conflict="update")


def requeue() -> int:
    return int(Message.objects.filter(key="k").requeue())


def drop() -> int:
    return int(Message.objects.filter(key="k").drop_all("by me"))


def claim() -> list[Message]:
    return Message.objects.claim(1, queue=QUEUE)


def claim_in_transaction() -> list[Message]:
    """What a claim does before it commits."""
    return Claimer(Message, "default", QUEUE).claim(1, lease=60, max_reads=5)


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
def test_a_rescue_beside_a_holder_who_settles_passes_the_row_by(verb: str) -> None:
    message = stuck(key="k")
    met = meet(lambda: VERBS[verb](message), rescue, waits=False)
    assert not is_lost(met.first, message)
    stored = row(message)
    if verb in {"release", "nack"} or connection.vendor != "sqlite":
        assert met.second == 0
    assert stored["crashes"] == 0
    assert stored["status"] == {"ack": "y", "batch ack": "y", "extend": "run"}.get(verb, "n")


@pytest.mark.parametrize("verb", VERBS)
def test_a_holder_who_settles_beside_the_rescue_has_lost(verb: str) -> None:
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
def test_a_holder_who_settles_beside_an_update_has_lost(verb: str) -> None:
    message = held(payload="old", key="k")
    met = meet(update, lambda: VERBS[verb](message), waits=True)
    assert met.first.outcome == "updated"
    assert is_lost(met.second, message)
    stored = row(message)
    assert (stored["status"], stored["body"], stored["read_count"], stored["error"]) == ("n", "new", 0, None)


@pytest.mark.parametrize("verb", ["ack", "batch ack", "reject"])
def test_an_update_beside_a_holder_who_ends_the_message_creates_a_new_one(verb: str) -> None:
    message = held(payload="old", key="k")
    met = meet(lambda: VERBS[verb](message), update, waits=True)
    assert met.second.outcome == "created"
    assert met.second.pk != message.pk
    assert row(message)["body"] == "old"
    assert claim_one().payload == "new"


@pytest.mark.parametrize("verb", ["nack", "release", "extend"])
def test_an_update_beside_a_holder_who_gives_back_finds_the_message_live(verb: str) -> None:
    message = held(payload="old", key="k")
    met = meet(lambda: VERBS[verb](message), update, waits=None)
    assert (met.second.outcome, met.second.pk) == ("updated", message.pk)
    assert (row(message)["body"], row(message)["status"]) == ("new", "n")


# A holder against an operator


@pytest.mark.parametrize("operator", [requeue, drop])
@pytest.mark.parametrize("verb", VERBS)
def test_a_holder_who_settles_beside_an_operator_has_lost(verb: str, operator: Callable[[], int]) -> None:
    message = held(key="k")
    met = meet(operator, lambda: VERBS[verb](message), waits=True)
    assert met.first == 1
    assert is_lost(met.second, message)
    assert row(message)["status"] == {requeue: "n", drop: "y"}[operator]
    assert row(message)["read_count"] == {requeue: 0, drop: 1}[operator]


@pytest.mark.parametrize("operator", [requeue, drop])
@pytest.mark.parametrize("verb", ["ack", "batch ack"])
def test_an_operator_beside_a_holder_who_acks_changes_nothing(verb: str, operator: Callable[[], int]) -> None:
    message = held(key="k")
    met = meet(lambda: VERBS[verb](message), operator)
    assert met.second == 0
    assert (row(message)["status"], row(message)["error"]) == ("y", None)


def test_an_operator_who_requeues_beside_a_holder_who_releases_changes_nothing() -> None:
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


def test_a_claim_beside_one_that_took_all_gets_nothing_and_does_not_wait() -> None:
    message = waiting()
    met = meet(claim_in_transaction, claim, waits=False)
    assert (met.first, met.second) == ([message], [])
    assert row(message)["read_count"] == 1


def test_a_claim_beside_a_holder_who_gives_back_does_not_wait_for_him() -> None:
    holder, other = held(), waiting()
    met = meet(holder.nack, claim, waits=False)
    assert len(met.second) == 1
    assert met.second == [other] or connection.vendor == "sqlite"


def test_a_claim_does_not_wait_for_an_enqueue_that_is_not_committed() -> None:
    message = waiting()
    met = meet(waiting, claim, waits=False)
    assert met.second == [message]


def test_a_claim_beside_an_update_of_its_message_takes_the_new_content_or_nothing() -> None:
    waiting(payload="old", key="k")
    met = meet(update, claim, waits=False)
    assert [message.payload for message in met.second] == (["new"] if connection.vendor == "sqlite" else [])


def test_an_update_beside_a_claim_ends_that_claim() -> None:
    waiting(payload="old", key="k")
    met = meet(claim_in_transaction, update, waits=True)
    [holder] = met.first
    assert met.second.outcome == "updated"
    with pytest.raises(LeaseLost):
        holder.ack()
    assert row(holder)["body"] == "new"


@pytest.mark.parametrize("verb", ["reject_waiting", "drop_all"])
def test_an_operator_who_saw_the_message_waiting_changes_nothing_beside_its_claim(verb: str) -> None:
    waiting(key="k")
    met = meet(claim_in_transaction, lambda: int(getattr(Message.objects.ready(QUEUE), verb)("by me")))
    assert met.second == 0
    met.first[0].ack()


# Drop by key, beside who holds the message or takes it


def drop_by_key() -> bool:
    return Message.objects.drop(QUEUE, "k")


@pytest.mark.parametrize("verb", [*VERBS])
def test_of_a_holder_and_a_drop_by_key_the_second_has_lost(verb: str) -> None:
    message = held(key="k")
    met = meet(drop_by_key, lambda: VERBS[verb](message), waits=True)
    assert met.first is True
    assert is_lost(met.second, message)
    assert row(message)["error"] == "dropped by its key"


def test_a_drop_by_key_beside_an_ack_finds_nothing_to_drop() -> None:
    message = held(key="k")
    met = meet(message.ack, drop_by_key, waits=True)
    assert (met.first, met.second) == (None, False)
    assert (row(message)["status"], row(message)["error"]) == ("y", None)


def test_a_drop_by_key_beside_a_claim_takes_the_message_from_it() -> None:
    waiting(key="k")
    met = meet(claim_in_transaction, drop_by_key, waits=True)
    assert met.second is True
    with pytest.raises(LeaseLost):
        met.first[0].ack()


# Batches and rows that are none of theirs


def test_a_batch_does_not_wait_for_rows_that_are_not_in_it() -> None:
    mine, yours = held_many(3), held_many(3)
    met = meet(lambda: Message.objects.extend(yours, 60), lambda: Message.objects.ack(mine), waits=False)
    assert (met.first, met.second) == ([], [])


def test_a_batch_with_one_lost_does_not_wait_for_rows_that_are_not_in_it() -> None:
    mine, yours = held_many(3), held_many(3)
    Message.objects.get(pk=mine[1].pk).reject("taken away")
    met = meet(lambda: Message.objects.extend(yours, 60), lambda: Message.objects.ack(mine), waits=False)
    assert (met.first, met.second) == ([], [mine[1]])


def test_an_enqueue_of_many_keys_does_not_wait_for_other_keys() -> None:
    message = held(key="elsewhere")
    keys = [f"k{number}" for number in range(20)]
    items = [Envelope(key, key=key) for key in keys]
    Message.objects.enqueue_many(items[:10], queue=QUEUE)
    met = meet(message.ack, lambda: Message.objects.enqueue_many(items, queue=QUEUE), waits=False)
    assert (met.second.created, met.second.ignored) == (10, 10)


def test_the_archive_does_not_wait_for_rows_that_it_does_not_take() -> None:
    holder = held(key="k")
    for _ in range(3):
        done()
    met = meet(holder.extend, lambda: Message.objects.archive(QUEUE, older_than=0), waits=False)
    assert met.second == 3


def test_a_requeue_beside_a_purge_of_the_same_dead_message_finds_it_gone() -> None:
    message = dead(key="k")
    met = meet(lambda: Message.objects.filter(pk=message.pk).purge(), requeue)
    assert (met.first, met.second) == (1, 0)
    assert (Message.objects.count(), ArchivedMessage.objects.count()) == (0, 1)


def test_a_purge_beside_a_requeue_of_the_same_dead_message_leaves_it() -> None:
    message = dead(key="k")
    met = meet(requeue, lambda: Message.objects.filter(pk=message.pk).purge())
    assert (met.first, met.second) == (1, 0)
    assert (row(message)["status"], ArchivedMessage.objects.count()) == ("n", 0)


# The same key at once


@pytest.mark.parametrize("on_conflict", ["ignore", "update", "error"])
@pytest.mark.parametrize("second_many", [False, True])
@pytest.mark.parametrize("first_many", [False, True])
def test_of_two_producers_of_one_key_the_second_waits_and_meets_the_first_ones_message(
    first_many: bool, second_many: bool, on_conflict: Any
) -> None:
    met = meet(producer("first", many=first_many), producer("second", on_conflict, many=second_many), waits=True)
    assert (met.first, Message.objects.count()) == ("created", 1)
    if on_conflict == "error":
        assert isinstance(met.second, DuplicateKey)
    else:
        assert met.second == {"ignore": "ignored", "update": "updated"}[on_conflict]
    assert Message.objects.get().payload == {"update": "second"}.get(on_conflict, "first")


@pytest.mark.parametrize("on_conflict", ["ignore", "update", "error"])
@pytest.mark.parametrize("many", [False, True])
def test_when_the_first_producer_rolls_back_the_second_ones_message_is_created(many: bool, on_conflict: Any) -> None:
    met = meet(producer("first"), producer("second", on_conflict, many=many), then_roll_back=True, waits=True)
    assert met.second == "created"
    assert Message.objects.get().payload == "second"


def test_producers_of_other_keys_do_not_wait() -> None:
    met = meet(lambda: waiting(key="a"), lambda: waiting(key="A"), waits=False)
    assert (met.first.outcome, met.second.outcome) == ("created", "created")


def test_a_requeue_that_takes_the_key_back_makes_an_enqueue_wait_and_meet_it() -> None:
    message = dead(payload="old", key="k")
    met = meet(requeue, lambda: waiting(payload="new", key="k"), waits=True)
    assert (met.first, met.second.outcome, met.second.pk) == (1, "ignored", message.pk)


def test_an_enqueue_of_the_key_makes_a_requeue_wait_and_report_it() -> None:
    message = dead(payload="old", key="k")
    met = meet(lambda: waiting(payload="new", key="k"), Message.objects.filter(pk=message.pk).requeue, waits=True)
    assert met.first.outcome == "created"
    assert (met.second, [conflict.message_id for conflict in met.second.conflicts]) == (0, [message.pk])
    assert row(message)["live"] is None


def producer(payload: str, on_conflict: Any = "ignore", *, many: bool = False) -> Callable[[], str]:
    """Enqueues the key "k" and says what became of it."""

    def one() -> str:
        return str(waiting(payload=payload, key="k", on_conflict=on_conflict).outcome)

    def several() -> str:
        items = [Envelope(payload, key="k")]
        report = Message.objects.enqueue_many(items, queue=QUEUE, on_conflict=on_conflict)
        return next(name for name in ("created", "updated", "ignored") if getattr(report, name))

    return several if many else one


# Between two statements of one verb


def test_a_rescue_names_the_state_that_it_leaves_and_does_not_lean_on_its_locks_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    message = stuck()
    find = rescue_module.fetch

    def find_and_be_overtaken(using: str, statement: Any) -> Any:
        found = find(using, statement)
        if "read_count" in statement.sql:  # the one that locks what is over its lease
            message.ack()  # by the rescue's own connection, which no lock keeps out
        return found

    monkeypatch.setattr(rescue_module, "fetch", find_and_be_overtaken)
    Message.objects.rescue(QUEUE)
    assert row(message)["status"] == "y"


@pytest.mark.parametrize("many", [False, True])
def test_an_update_holds_the_message_that_it_met_until_it_has_written_it(
    many: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    message = held(payload="old", key="k")
    compare = enqueue_module._says_the_same
    with aside() as other:
        acking: list[Future[Any]] = []

        def compare_beside_an_ack(*said: Any) -> bool:
            acking.append(other.begin(lambda: outcome(message.ack)))
            if connection.vendor != "sqlite":
                assert waits_for_a_lock(other.session, acking[0])
            return compare(*said)

        monkeypatch.setattr(enqueue_module, "_says_the_same", compare_beside_an_ack)
        assert producer("new", "update", many=many)() == "updated"
        assert isinstance(acking[0].result(60), LeaseLost)
    assert (row(message)["status"], row(message)["body"]) == ("n", "new")


@pytest.mark.parametrize("lost", [0, 1])
def test_a_batch_of_nearly_all_rows_does_not_wait_for_the_others(lost: int) -> None:
    """A server that reads a small table whole to find what the batch names runs into everybody's locks."""
    mine, yours = held_many(60), held_many(2)
    for message in mine[:lost]:
        Message.objects.get(pk=message.pk).reject("taken away")
    met = meet(lambda: Message.objects.extend(yours, 60), lambda: Message.objects.ack(mine), waits=False)
    assert met.second == mine[:lost]


def test_a_history_of_nearly_all_rows_does_not_wait_for_the_others() -> None:
    mine, holder = held_many(60), held()
    Message.objects.ack(mine)
    met = meet(holder.extend, lambda: Message.objects.archive(QUEUE, older_than=0), waits=False)
    assert met.second == 60


def test_an_enqueue_of_keys_that_nearly_all_stand_does_not_wait_for_the_others() -> None:
    holder = held(key="elsewhere")
    items = [Envelope(number, key=str(number)) for number in range(60)]
    Message.objects.enqueue_many(items, queue=QUEUE)
    met = meet(holder.extend, lambda: Message.objects.enqueue_many(items, queue=QUEUE), waits=False)
    assert met.second.ignored == 60
