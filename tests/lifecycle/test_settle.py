"""Only the holder of the present claim settles, and at most once; who lost it changes nothing (P5, P6)."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from django_dbqueue import InvalidMessage, LeaseLost
from django_dbqueue.models import ArchivedMessage, Message
from django_dbqueue.signals import lease_lost
from tests.factories import (
    QUEUE,
    claim_one,
    held,
    held_many,
    let_pass,
    row,
    rows,
    waiting,
)
from tests.lifecycle.rollback import Abandoned, rolled_back

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.django_db
transactional = pytest.mark.django_db(transaction=True)

# What each verb writes


def test_ack_makes_a_message_done() -> None:
    message = held(key="k")
    message.ack()
    stored = row(message)
    assert (stored["status"], stored["live"], stored["error"], stored["crashes"]) == ("y", None, None, 0)
    assert stored["available_at"] == stored["finished_at"] >= stored["claimed_at"]
    assert (stored["key"], stored["read_count"]) == ("k", 1)
    assert message.status == "y"


def test_ack_forgets_the_error_of_an_earlier_delivery() -> None:
    held().nack(error="failed once")
    message = claim_one()
    assert message.error == "failed once"
    message.ack()
    assert row(message)["error"] is None


def test_nack_gives_back_charged_where_it_stood() -> None:
    message = held(key="k")
    due_at = row(message)["due_at"]
    message.nack(error="failed")
    stored = row(message)
    assert (stored["status"], stored["read_count"], stored["live"], stored["error"]) == ("n", 1, 1, "failed")
    assert stored["available_at"] == stored["due_at"] == due_at
    assert (stored["conn_id"], stored["worker_id"], stored["finished_at"]) == (None, None, None)
    assert message.status == "n"


@pytest.mark.parametrize("delay", [30, timedelta(seconds=30)])
def test_nack_with_a_delay_is_due_that_long_from_now(delay: Any) -> None:
    message = held()
    let_pass(message, 1000)
    message.nack(delay=delay)
    stored = row(message)
    assert stored["due_at"] == stored["available_at"]
    assert 1029 < (stored["due_at"] - stored["claimed_at"]).total_seconds() < 1045
    assert Message.objects.delayed(QUEUE).get() == message


def test_nack_without_an_error_keeps_the_one_that_stood() -> None:
    held().nack(error="the first")
    message = claim_one()
    message.nack()
    assert row(message)["error"] == "the first"


def test_nack_of_the_last_read_makes_it_dead_whatever_the_delay() -> None:
    message = held(max_reads=1)
    due_at = row(message)["due_at"]
    message.nack(delay=30, error="failed")
    stored = row(message)
    assert (stored["status"], stored["available_at"], stored["error"]) == ("n", None, "failed")
    assert (stored["due_at"], bool(stored["finished_at"])) == (due_at, True)


def test_reject_makes_a_message_dead_with_the_reason() -> None:
    message = held(key="k")
    message.reject("no such user")
    stored = row(message)
    assert (stored["status"], stored["available_at"], stored["live"]) == ("n", None, None)
    assert (stored["error"], stored["read_count"], bool(stored["finished_at"])) == ("no such user", 1, True)
    assert message.is_dead


def test_reject_without_a_reason_says_that_it_was_rejected() -> None:
    message = held()
    message.reject()
    assert row(message)["error"] == "Rejected"


def test_release_gives_back_uncharged_where_it_stood() -> None:
    message = held()
    before = row(message)
    message.release()
    stored = row(message)
    assert (stored["status"], stored["read_count"], stored["conn_id"]) == ("n", 0, None)
    assert stored["available_at"] == stored["due_at"] == before["due_at"]


def test_release_of_a_retry_keeps_its_place_and_its_earlier_charges() -> None:
    held().nack(delay=20)
    message = Message.objects.get()
    let_pass(message, 21)
    due_at = row(message)["due_at"]
    claim_one().release()
    assert (row(message)["read_count"], row(message)["available_at"]) == (1, due_at)


def test_extend_moves_the_deadline_and_nothing_else() -> None:
    message = held()
    before = row(message)
    message.extend(500)
    after = row(message)
    assert after.pop("available_at") > before.pop("available_at")
    assert after == before


def test_an_exception_is_kept_as_class_message_and_traceback() -> None:
    def fail() -> None:
        raise ValueError("no such\0user \ud800 \N{GRINNING FACE}")

    message = held()
    try:
        fail()
    except ValueError as error:
        message.nack(error=error)
    kept = row(message)["error"]
    assert kept.startswith("ValueError: no such\\0user \\ud800 \N{GRINNING FACE}\n\nTraceback")
    assert "in fail" in kept


@pytest.mark.parametrize("verb", ["nack", "reject"])
def test_an_error_is_cut_at_16_kib_without_breaking_a_character(verb: str) -> None:
    message = held()
    text = "a" + "\N{GRINNING FACE}" * 10_000
    message.nack(error=text) if verb == "nack" else message.reject(text)
    kept = row(message)["error"]
    assert text.startswith(kept)
    assert 16 * 1024 - 4 < len(kept.encode()) <= 16 * 1024


@pytest.mark.parametrize("seconds", [-1, float("nan"), "5", 1e12])
def test_a_bad_delay_or_lease_is_refused_and_the_claim_stays(seconds: Any) -> None:
    message = held()
    before = row(message)
    for call in (
        lambda: message.nack(delay=seconds),
        lambda: message.extend(seconds),
        lambda: Message.objects.nack([message], delay=seconds),
        lambda: Message.objects.extend([message], seconds),
    ):
        with pytest.raises(InvalidMessage):
            call()
    assert row(message) == before
    message.ack()


# P5: who lost the claim changes nothing

VERBS: dict[str, tuple[Callable[[Message], None], Callable[[list[Message]], list[Message]]]] = {
    "ack": (lambda m: m.ack(), lambda ms: Message.objects.ack(ms)),
    "nack": (
        lambda m: m.nack(delay=5, error="late"),
        lambda ms: Message.objects.nack(ms, delay=5, error="late"),
    ),
    "nack at once": (lambda m: m.nack(), lambda ms: Message.objects.nack(ms)),
    "reject": (lambda m: m.reject("late"), lambda ms: Message.objects.reject(ms, "late")),
    "release": (lambda m: m.release(), lambda ms: Message.objects.release(ms)),
    "extend": (lambda m: m.extend(99), lambda ms: Message.objects.extend(ms, 99)),
    "extend by its own": (lambda m: m.extend(), lambda ms: Message.objects.extend(ms)),
}


def rescued(message: Message) -> None:
    let_pass(message, 61)
    assert Message.objects.rescue(QUEUE) == 1


def rescued_and_taken_again(message: Message) -> None:
    rescued(message)
    assert claim_one() == message


def rescued_to_the_dead(message: Message) -> None:
    Message.objects.filter(pk=message.pk).update(max_reads=1)
    rescued(message)


def updated(message: Message) -> None:
    assert waiting(payload="new", key="k", on_conflict="update").outcome == "updated"


def updated_and_taken_again(message: Message) -> None:
    updated(message)
    assert claim_one() == message


def requeued(message: Message) -> None:
    assert Message.objects.filter(pk=message.pk).requeue() == 1


def requeued_and_taken_again(message: Message) -> None:
    requeued(message)
    assert claim_one() == message


def released_and_taken_again(message: Message) -> None:
    Message.objects.get(pk=message.pk).release()
    assert claim_one() == message


def acked(message: Message) -> None:
    Message.objects.get(pk=message.pk).ack()


def nacked(message: Message) -> None:
    Message.objects.get(pk=message.pk).nack()


def released(message: Message) -> None:
    Message.objects.get(pk=message.pk).release()


def rejected(message: Message) -> None:
    Message.objects.get(pk=message.pk).reject("unwanted")


def dropped(message: Message) -> None:
    assert Message.objects.filter(pk=message.pk).drop_all("by me") == 1


def archived(message: Message) -> None:
    acked(message)
    assert Message.objects.archive(QUEUE, older_than=0) == 1


LOST_BY = [
    rescued,
    rescued_and_taken_again,
    rescued_to_the_dead,
    updated,
    updated_and_taken_again,
    requeued,
    requeued_and_taken_again,
    released_and_taken_again,
    acked,
    nacked,
    released,
    rejected,
    dropped,
    archived,
]


@pytest.mark.parametrize("lose", LOST_BY, ids=lambda lose: lose.__name__)
@pytest.mark.parametrize("verb", VERBS)
def test_who_lost_the_claim_changes_nothing_and_is_told(verb: str, lose: Callable[[Message], None]) -> None:
    one, many = VERBS[verb]
    message = held(key="k")
    lose(message)
    before = rows(), list(ArchivedMessage.objects.values())
    with pytest.raises(LeaseLost, match=f"of message {message.pk} changed nothing") as refused:
        one(message)
    assert refused.value.message_id == message.pk
    assert message.lease_lost
    assert not message.settled
    message.lease_lost = False
    assert many([message]) == [message]
    assert message.lease_lost
    assert (rows(), list(ArchivedMessage.objects.values())) == before


@pytest.mark.parametrize("verb", VERBS)
def test_a_stale_object_that_looks_at_the_row_again_gains_no_claim_by_it(verb: str) -> None:
    message = held(key="k")
    rescued_and_taken_again(message)
    message.refresh_from_db()
    before = row(message)
    with pytest.raises(LeaseLost):
        VERBS[verb][0](message)
    assert row(message) == before


def test_a_lost_lease_is_signalled_with_message_and_verb() -> None:
    heard: list[dict[str, Any]] = []

    def hear(**said: Any) -> None:
        heard.append(said)

    message = held()
    message.ack()
    lease_lost.connect(hear)
    try:
        with pytest.raises(LeaseLost):
            message.nack()
        Message.objects.release([message])
    finally:
        lease_lost.disconnect(hear)
    assert [(said["sender"], said["queue"], said["message_id"], said["verb"]) for said in heard] == [
        (Message, QUEUE, message.pk, "nack"),
        (Message, QUEUE, message.pk, "release"),
    ]


# Batches


@pytest.mark.parametrize("verb", VERBS)
def test_a_batch_moves_what_is_held_and_returns_what_was_lost(verb: str) -> None:
    messages = held_many(6)
    lost = [messages[1], messages[4]]
    for message in lost:
        Message.objects.get(pk=message.pk).reject("taken away")
    before = [row(message) for message in lost]
    others = [row(message) for message in messages if message not in lost]
    assert VERBS[verb][1](messages) == lost
    assert [row(message) for message in lost] == before
    assert all(
        row(message) != other
        for message, other in zip([message for message in messages if message not in lost], others, strict=True)
    )
    assert [message.lease_lost for message in messages] == [message in lost for message in messages]


@transactional
@pytest.mark.parametrize("verb", VERBS)
def test_a_batch_outside_a_transaction_does_the_same(verb: str) -> None:
    messages = held_many(5)
    Message.objects.get(pk=messages[2].pk).reject("taken away")
    before = row(messages[2])
    assert VERBS[verb][1](messages) == [messages[2]]
    assert row(messages[2]) == before
    assert [message.settled for message in messages] == [
        not verb.startswith("extend") and message != messages[2] for message in messages
    ]


@pytest.mark.parametrize("verb", VERBS)
def test_a_batch_may_mix_messages_of_several_claims(verb: str) -> None:
    mine = held_many(3)
    yours = held_many(3)
    lost_one = mine[0]
    rescued_lease = row(lost_one)["available_at"]
    Message.objects.get(pk=lost_one.pk).release()
    again = claim_one()
    assert again == lost_one
    assert rescued_lease
    before = row(lost_one)
    assert VERBS[verb][1]([*mine, *yours]) == [lost_one]
    assert row(lost_one) == before
    again.ack()


@pytest.mark.parametrize("order", [1, -1])
def test_a_lost_claim_beside_the_present_one_of_the_same_message_is_the_only_one_lost(order: int) -> None:
    stale = held()
    rescued(stale)
    fresh = claim_one()
    other = held()
    lost = Message.objects.ack([stale, fresh, other][::order])
    assert [message is stale for message in lost] == [True]
    assert (row(fresh)["status"], row(other)["status"]) == ("y", "y")


def test_the_same_claim_twice_in_a_batch_counts_once() -> None:
    message = held()
    assert Message.objects.ack([message, message]) == []
    assert Message.objects.ack([message]) == [message]


def test_a_batch_of_swapped_tokens_moves_nothing() -> None:
    """Each id must be held under its own token, not under anybody's."""
    first, second = held(), held()
    before = rows()
    first.held_token, second.held_token = second.held_token, first.held_token
    assert Message.objects.ack([first, second]) == [first, second]
    assert rows() == before


@pytest.mark.parametrize("mixed", [False, True])
def test_a_batch_of_thousands_is_cut_into_statements(mixed: bool) -> None:
    Message.objects.enqueue_many(range(2000), queue=QUEUE)
    messages = Message.objects.claim(1000, queue=QUEUE)
    if mixed:
        for _ in range(20):
            messages += Message.objects.claim(50, queue=QUEUE)
    else:
        messages += Message.objects.claim(1000, queue=QUEUE)
    lost = messages[::400]
    Message.objects.filter(pk__in=[message.pk for message in lost]).requeue()
    with CaptureQueriesContext(connection) as captured:
        assert Message.objects.ack(messages) == lost
    assert len(captured) < 30
    assert Message.objects.done(QUEUE).count() == 2000 - len(lost)
    assert Message.objects.ready(QUEUE).count() == len(lost)


def test_a_batch_of_a_few_is_one_statement_when_nothing_was_lost() -> None:
    messages = held_many(50)
    with CaptureQueriesContext(connection) as captured:
        assert Message.objects.ack(messages) == []
    assert len([query for query in captured if "SAVEPOINT" not in query["sql"]]) == 1


@pytest.mark.parametrize("verb", VERBS)
def test_an_empty_batch_loses_nothing(verb: str) -> None:
    assert VERBS[verb][1]([]) == []
    assert VERBS[verb][1](iter([])) == []


# P6: at most one ack, and decidable after


def test_the_second_ack_is_refused() -> None:
    message = held()
    message.ack()
    before = row(message)
    with pytest.raises(LeaseLost):
        message.ack()
    assert Message.objects.ack([message]) == [message]
    assert row(message) == before


def test_after_a_lost_reply_the_row_says_whose_ack_it_was() -> None:
    message = held()
    token = message.claim_token
    message.ack()
    assert (row(message)["status"], row(message)["claim_token"]) == ("y", token)


@pytest.mark.parametrize("verb", [verb for verb in VERBS if not verb.startswith("extend")])
def test_the_token_of_the_last_claim_stays_in_every_state(verb: str) -> None:
    message = held(key="k")
    token = message.claim_token
    VERBS[verb][0](message)
    assert row(message)["claim_token"] == message.claim_token == token


def test_the_token_stays_after_a_rescue_an_update_a_requeue_and_a_drop() -> None:
    for end in (rescued, updated, requeued, dropped):
        message = held(key="k")
        token = message.claim_token
        end(message)
        assert row(message)["claim_token"] == token
        Message.objects.filter(pk=message.pk).drop_all("for the next")


# A settlement joins the caller's transaction


@transactional
def test_a_settlement_is_remembered_with_the_commit_and_not_before() -> None:
    message = held()
    with transaction.atomic():
        message.ack()
        assert not message.settled
        assert message.status == "y"
    assert message.settled


@transactional
@pytest.mark.parametrize("verb", VERBS)
def test_a_settlement_in_a_transaction_that_rolls_back_did_not_happen(verb: str) -> None:
    message = held(key="k")
    before = row(message)
    for call in (lambda: VERBS[verb][0](message), lambda: VERBS[verb][1]([message])):
        with rolled_back():
            call()
        assert row(message) == before
        assert not message.settled
        assert message.status == "run"
    message.ack()
    assert message.settled


@transactional
def test_a_settlement_in_a_savepoint_that_rolls_back_did_not_happen() -> None:
    message = held()
    with transaction.atomic():
        with rolled_back():
            message.ack()
        assert message.status == "run"
    assert not message.settled
    message.ack()


@transactional
def test_an_extension_settles_nothing() -> None:
    message = held()
    message.extend(5)
    assert not message.settled


@transactional
def test_work_and_ack_in_one_atomic_are_one_commit() -> None:
    message = held()
    with rolled_back():
        waiting(payload="the work")
        message.ack()
    assert (Message.objects.count(), row(message)["status"]) == (1, "run")
    with transaction.atomic():
        waiting(payload="the work")
        message.ack()
    assert (Message.objects.count(), row(message)["status"]) == (2, "y")


@transactional
def test_a_batch_that_lost_some_leaves_the_callers_transaction_usable() -> None:
    messages = held_many(3)
    Message.objects.get(pk=messages[0].pk).release()
    with transaction.atomic():
        waiting(payload="before")
        assert Message.objects.ack(messages) == [messages[0]]
        waiting(payload="after")
    assert Message.objects.done(QUEUE).count() == 2
    assert Message.objects.ready(QUEUE).count() == 3


# P15: message.transaction()


@transactional
def test_the_block_and_the_ack_are_one_commit(other_connection: Any) -> None:
    message = held()
    with message.transaction():
        waiting(payload="the work")
        assert row(message)["status"] == "run"
    assert message.settled
    with other_connection.cursor() as cursor:
        cursor.execute("SELECT status FROM django_dbqueue_message ORDER BY id")
        assert [status for (status,) in cursor.fetchall()] == ["y", "n"]


@transactional
def test_an_exception_in_the_block_rolls_back_the_work_and_the_message_stays_held() -> None:
    message = held()
    before = rows()

    def work() -> None:
        with message.transaction():
            waiting(payload="the work")
            raise Abandoned

    with pytest.raises(Abandoned):
        work()
    assert rows() == before
    assert not message.settled
    message.nack()


@transactional
@pytest.mark.parametrize("lose", LOST_BY, ids=lambda lose: lose.__name__)
def test_a_lost_claim_rolls_back_all_that_the_block_did(lose: Callable[[Message], None]) -> None:
    message = held(key="k")
    lose(message)
    before = rows()

    def work() -> None:
        with message.transaction():
            waiting(payload="the work", queue="elsewhere")
            Message.objects.enqueue_many(range(3), queue="elsewhere")

    with pytest.raises(LeaseLost):
        work()
    assert rows() == before
    assert not message.settled


@transactional
def test_a_claim_lost_in_the_block_rolls_it_back_too() -> None:
    message = held()

    def work() -> None:
        with message.transaction():
            waiting(payload="the work")
            Message.objects.get(pk=message.pk).release()  # another object's word, which this one doesn't know of

    with pytest.raises(LeaseLost):
        work()
    assert row(message)["status"] == "run"
    assert Message.objects.count() == 1


@transactional
def test_the_block_may_stand_inside_the_callers_transaction() -> None:
    message = held()
    with rolled_back(), message.transaction():
        waiting(payload="the work")
    assert (row(message)["status"], message.settled, Message.objects.count()) == ("run", False, 1)
