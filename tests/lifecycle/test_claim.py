"""The claim: who gets what, in which order, how often, and what the row says of it (P4, P7, P10)."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.test import override_settings

from django_dbqueue import InvalidMessage, LeaseLost
from django_dbqueue.exceptions import TransactionNotAllowed
from django_dbqueue.models import Message, Queue
from django_dbqueue.models.fields import DbNow
from tests.factories import (
    QUEUE,
    claim_one,
    dead,
    done,
    held,
    held_many,
    let_pass,
    row,
    rows,
    stuck,
    waiting,
)

pytestmark = pytest.mark.django_db
transactional = pytest.mark.django_db(transaction=True)


def claimed(limit: int = 100, **options: Any) -> list[Any]:
    return [message.payload for message in Message.objects.claim(limit, queue=QUEUE, **options)]


def session_id(database: str) -> int:
    if database == "sqlite":
        return os.getpid()
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()" if database == "postgres" else "SELECT CONNECTION_ID()")
        return int(cursor.fetchone()[0])


# What the row says


@pytest.mark.parametrize("mode", ["in the test's transaction", "in its own"])
def test_the_claim_writes_whose_it_is_and_until_when(database: str, mode: str, request: Any) -> None:
    request.getfixturevalue("db" if mode.startswith("in the test") else "transactional_db")
    waiting()
    message = claim_one(lease=90)
    stored = row(message)
    assert (stored["status"], stored["read_count"], stored["crashes"], stored["live"]) == ("run", 1, 0, None)
    assert (stored["conn_id"], stored["worker_id"]) == (session_id(database), None)
    assert 0 < stored["claim_token"] < 2**63
    assert (stored["lease_seconds"], stored["max_reads"]) == (90, 5)
    assert abs(stored["available_at"] - stored["claimed_at"] - timedelta(seconds=90)) < timedelta(milliseconds=2)
    assert stored["claimed_at"] >= stored["due_at"] == stored["created_at"]
    assert (stored["finished_at"], stored["error"]) == (None, None)


def test_the_message_that_is_given_out_says_what_its_row_says() -> None:
    waiting(payload={"a": 1}, key="k", headers={"h": 1}, priority=4)
    message = claim_one(lease=45.5)
    for name, value in row(message).items():
        mine = getattr(message, name)
        if isinstance(value, datetime):
            assert abs(mine - value) < timedelta(milliseconds=2), name
        else:
            assert mine == value, name
    assert (message.payload, message.headers) == ({"a": 1}, {"h": 1})


def test_every_claim_has_a_token_of_its_own_that_all_its_messages_share() -> None:
    first, second = held_many(3), held_many(3)
    tokens = {message.claim_token for message in first}, {message.claim_token for message in second}
    assert [len(kind) for kind in tokens] == [1, 1]
    assert tokens[0] != tokens[1]


def test_a_message_that_is_taken_is_not_given_out_again() -> None:
    waiting()
    assert len(claimed()) == 1
    assert claimed() == []


@pytest.mark.parametrize("make", [held, done, dead])
def test_running_done_and_dead_ones_are_not_given_out(make: Any) -> None:
    make()
    assert claimed() == []


def test_a_claim_gives_out_no_more_than_was_asked_for_and_leaves_the_others() -> None:
    Message.objects.enqueue_many(range(10), queue=QUEUE)
    assert claimed(4) == [0, 1, 2, 3]
    assert Message.objects.ready(QUEUE).count() == 6
    assert claimed(100) == [4, 5, 6, 7, 8, 9]


def test_a_claim_of_many_priorities_gives_out_no_more_than_was_asked_for() -> None:
    for priority in (1, 2, 3):
        for number in range(3):
            waiting(payload=(priority, number), priority=priority)
    assert claimed(4) == [[3, 0], [3, 1], [3, 2], [2, 0]]
    assert claimed(4) == [[2, 1], [2, 2], [1, 0], [1, 1]]


def test_a_claim_takes_only_from_its_own_queue() -> None:
    waiting(queue="a", payload="a")
    waiting(queue="b", payload="b")
    assert [message.payload for message in Message.objects.claim(10, queue="a")] == ["a"]


# P10: priority, then due time, then id


def test_the_order_is_priority_then_due_time_then_id() -> None:
    made = [
        waiting(payload=(priority, age), priority=priority)
        for priority in (0, 100, -100, 7)
        for age in (10, 30, 20, 20)
    ]
    for message in made:
        let_pass(message, message.payload[1])
    same_moment = row(made[2])["available_at"]
    Message.objects.filter(pk__in=[made[2].pk, made[3].pk]).update(available_at=same_moment)
    got = Message.objects.claim(100, queue=QUEUE)
    assert [message.payload for message in got] == [
        [priority, age] for priority in (100, 7, 0, -100) for age in (30, 20, 20, 10)
    ]
    zero = [message.pk for message in got if message.payload[0] == 0]
    assert zero == [made[1].pk, made[2].pk, made[3].pk, made[0].pk]


def test_messages_of_one_moment_come_in_the_order_of_their_ids() -> None:
    Message.objects.enqueue_many(range(300), queue=QUEUE)
    Message.objects.update(available_at=DbNow())
    assert claimed(7) == list(range(7))
    assert claimed(300) == list(range(7, 300))


def test_what_is_due_earlier_goes_before_what_came_earlier() -> None:
    retried = held(payload="retried")
    waiting(payload="young")
    retried.nack()  # back where it stood
    assert claimed() == ["retried", "young"]


def test_a_delayed_message_of_a_higher_priority_holds_nobody_up() -> None:
    waiting(payload="later", priority=100, delay=60)
    waiting(payload="now")
    assert claimed() == ["now"]


def test_a_delayed_message_comes_when_its_time_has_come() -> None:
    message = waiting(payload="later", delay=60)
    let_pass(message, 59)
    assert claimed() == []
    let_pass(message, 1)
    assert claimed() == ["later"]


# P7: at most max_reads deliveries


def deliveries(*, give_up_after: int, end: Any) -> int:
    """How often a message comes back, when each delivery ends like this."""
    for number in range(give_up_after):
        messages = Message.objects.claim(1, queue=QUEUE)
        if not messages:
            return number
        assert messages[0].read_count == number + 1
        end(messages[0])
    return give_up_after


def nack(message: Message) -> None:
    message.nack(error="failed")


def crash(message: Message) -> None:
    let_pass(message, 61)
    assert Message.objects.rescue(QUEUE) == 1


@pytest.mark.parametrize("end", [nack, crash])
@pytest.mark.parametrize("max_reads", [1, 3])
def test_after_max_reads_deliveries_the_message_is_dead(max_reads: int, end: Any) -> None:
    message = waiting(max_reads=max_reads, key="k")
    assert deliveries(give_up_after=10, end=end) == max_reads
    stored = row(message)
    assert (stored["status"], stored["available_at"], stored["live"]) == ("n", None, None)
    assert (stored["read_count"], stored["conn_id"], stored["worker_id"]) == (max_reads, None, None)
    assert stored["finished_at"] >= stored["claimed_at"]
    assert stored["error"]
    assert Message.objects.dead(QUEUE).get().is_dead
    assert claimed() == []


@pytest.mark.parametrize("end", [nack, crash])
def test_without_a_limit_a_message_comes_back_for_ever(end: Any) -> None:
    message = waiting(max_reads=0)
    assert deliveries(give_up_after=12, end=end) == 12
    assert (row(message)["read_count"], row(message)["max_reads"]) == (12, 0)
    assert Message.objects.dead(QUEUE).count() == 0


@override_settings(DBQUEUE={"DEFAULTS": {"max_reads": 4}, "QUEUES": {QUEUE: {"max_reads": 2, "lease": 33}}})
def test_a_limit_and_a_lease_that_were_not_said_are_taken_from_the_settings_and_written_down() -> None:
    message = waiting()
    other = waiting(queue="other")
    claimed()
    Message.objects.claim(1, queue="other")
    assert (row(message)["max_reads"], row(message)["lease_seconds"]) == (2, 33)
    assert (row(other)["max_reads"], row(other)["lease_seconds"]) == (4, 60)


def test_a_release_is_not_charged() -> None:
    message = waiting(max_reads=1)
    for _ in range(5):
        claim_one().release()
    assert row(message)["read_count"] == 0
    claim_one().nack()
    assert Message.objects.dead(QUEUE).count() == 1


def test_a_message_whose_reads_were_spent_already_goes_to_the_dead_instead() -> None:
    spent = waiting(payload="spent", max_reads=2, key="k")
    waiting(payload="good")
    Message.objects.filter(pk=spent.pk).update(read_count=2)
    assert claimed() == ["good"]
    stored = row(spent)
    assert (stored["status"], stored["available_at"], stored["read_count"], stored["live"]) == (
        "n",
        None,
        2,
        None,
    )
    assert "ReadsSpent" in stored["error"]


def test_a_thousand_whose_reads_were_spent_hold_nobody_up() -> None:
    Message.objects.enqueue_many(range(1000), queue=QUEUE)
    Message.objects.update(read_count=5, max_reads=5)
    waiting(payload="good")
    assert claimed(1) == ["good"]
    assert Message.objects.dead(QUEUE).count() == 1000


# Rescue


def test_a_rescue_gives_back_what_is_over_its_lease_charged_and_as_a_crash() -> None:
    message = stuck(key="k")
    due_at = row(message)["due_at"]
    assert Message.objects.rescue() == 1
    stored = row(message)
    assert (stored["status"], stored["read_count"], stored["crashes"], stored["live"]) == ("n", 1, 1, 1)
    assert (stored["conn_id"], stored["worker_id"], stored["finished_at"]) == (None, None, None)
    assert stored["available_at"] == stored["due_at"] == due_at
    assert stored["claim_token"] == message.claim_token
    assert "LeaseOver" in stored["error"]
    assert claim_one().pk == message.pk


def test_a_rescue_leaves_what_is_within_its_lease() -> None:
    message = held(lease=60)
    let_pass(message, 59)
    before = row(message)
    assert Message.objects.rescue() == 0
    assert row(message) == before


def test_a_rescue_leaves_all_that_does_not_run() -> None:
    for make in (waiting, done, dead):
        message = make(queue=make.__name__)
        let_pass(message, 1000)
    before = rows()
    assert Message.objects.rescue() == 0
    assert rows() == before


def test_a_rescue_is_of_one_queue_or_of_all() -> None:
    for name in ("a", "b", "c"):
        stuck(queue=name)
    assert Message.objects.rescue("b") == 1
    assert Message.objects.rescue() == 2
    assert Message.objects.rescue() == 0


def test_a_rescue_takes_more_than_one_batch_and_every_priority() -> None:
    Message.objects.enqueue_many(range(1100), queue=QUEUE)
    waiting(priority=5)
    assert len(Message.objects.claim(1101, queue=QUEUE, lease=0)) == 1101
    assert Message.objects.rescue() == 1101


def test_a_claim_that_comes_back_short_rescues_and_asks_again() -> None:
    message = stuck(payload="stuck")
    waiting(payload="fresh")
    assert sorted(claimed(2)) == ["fresh", "stuck"]
    assert (row(message)["read_count"], row(message)["crashes"]) == (2, 1)


def test_a_claim_that_comes_back_full_rescues_nothing() -> None:
    message = stuck()
    waiting(payload="fresh")
    assert claimed(1) == ["fresh"]
    assert row(message)["status"] == "run"


def test_a_holder_that_settles_sets_the_crashes_to_zero() -> None:
    for verb in ("ack", "nack", "reject"):
        message = stuck(queue=verb)
        Message.objects.rescue(verb)
        again = claim_one(verb)
        assert again.crashes == 1
        getattr(again, verb)()
        assert row(message)["crashes"] == 0
    message = stuck(queue="release")
    Message.objects.rescue("release")
    claim_one("release").release()
    assert row(message)["crashes"] == 1  # a suspect stays one


# A lease of nothing


def test_a_lease_of_zero_is_over_at_once_and_its_holder_may_still_be_first() -> None:
    message = held(lease=0)
    assert Message.objects.stuck(QUEUE).get() == message
    message.ack()
    assert row(message)["status"] == "y"


def test_a_claim_with_a_lease_of_zero_does_not_take_its_own_messages_twice() -> None:
    Message.objects.enqueue_many(range(3), queue=QUEUE)
    messages = Message.objects.claim(10, queue=QUEUE, lease=0)
    assert [(message.payload, message.read_count) for message in messages] == [(0, 1), (1, 1), (2, 1)]


def test_a_lease_is_extended_from_now_and_by_its_own_length_when_none_is_said() -> None:
    message = held(lease=30)
    let_pass(message, 29)
    message.extend(100)
    assert 99 < (row(message)["available_at"] - row(message)["claimed_at"]).total_seconds() - 29 < 110
    let_pass(message, 10)
    message.extend()
    assert 29 < (row(message)["available_at"] - row(message)["claimed_at"]).total_seconds() - 39 < 40
    assert row(message)["status"] == "run"
    message.ack()


def test_a_lease_that_is_over_may_be_extended_until_somebody_rescues() -> None:
    message = stuck()
    message.extend(60)
    assert Message.objects.rescue() == 0
    message.ack()


# The messages own lease


def test_a_messages_own_lease_goes_before_the_claims() -> None:
    waiting(lease=500)
    message = claim_one(lease=5)
    assert message.lease_seconds == row(message)["lease_seconds"] == 500
    assert abs((row(message)["available_at"] - row(message)["claimed_at"]).total_seconds() - 500) < 0.002


# Where and when a claim is refused


@transactional
def test_a_claim_inside_atomic_is_refused_with_a_sentence() -> None:
    message = waiting()
    before = row(message)
    with (
        transaction.atomic(),
        pytest.raises(TransactionNotAllowed, match="was called inside atomic") as refused,
    ):
        Message.objects.claim(1, queue=QUEUE)
    assert isinstance(refused.value, RuntimeError)
    assert row(message) == before


@transactional
def test_a_claim_with_autocommit_off_is_refused_since_nobody_would_commit_it() -> None:
    message = waiting()
    before = row(message)
    transaction.set_autocommit(False)
    try:
        with pytest.raises(TransactionNotAllowed, match="with autocommit off"):
            Message.objects.claim(1, queue=QUEUE)
        transaction.rollback()
    finally:
        transaction.set_autocommit(True)
    assert row(message) == before


@transactional
def test_a_claim_is_committed_when_it_returns(other_connection: Any) -> None:
    waiting()
    token = claim_one().claim_token
    assert not connection.in_atomic_block
    with other_connection.cursor() as cursor:
        cursor.execute("SELECT status, claim_token FROM django_dbqueue_message")
        assert list(cursor.fetchall()) == [("run", token)]


BAD_CLAIMS: list[tuple[dict[str, Any], str]] = [
    ({"limit": 0}, "limit must be a whole number from 1 to 10000, not 0"),
    ({"limit": -1}, "limit must be"),
    ({"limit": 10_001}, "limit must be"),
    ({"limit": 1.5}, "limit must be"),
    ({"limit": "1"}, "limit must be"),
    ({"limit": True}, "limit must be"),
    ({"limit": None}, "limit must be"),
    ({"lease": -1}, "lease must be from 0"),
    ({"lease": float("nan")}, "lease must be a number of seconds"),
    ({"lease": "60"}, "lease must be a number of seconds"),
    ({"queue": "no good"}, "is no queue name"),
]


@pytest.mark.parametrize(("options", "said"), BAD_CLAIMS, ids=str)
def test_a_claim_says_which_argument_is_wrong_and_takes_nothing(options: dict[str, Any], said: str) -> None:
    waiting()
    before = rows()
    arguments = {"limit": 1, "queue": QUEUE} | options
    with pytest.raises(InvalidMessage, match=said):
        Message.objects.claim(arguments.pop("limit"), **arguments)
    assert rows() == before


def test_a_lease_may_be_a_timedelta() -> None:
    waiting()
    [message] = Message.objects.claim(1, queue=QUEUE, lease=timedelta(minutes=3))
    assert row(message)["lease_seconds"] == 180


# Paused queues


def test_a_paused_queue_gives_nothing_until_it_is_resumed() -> None:
    waiting(payload="a")
    Queue.objects.pause(QUEUE, by="me", reason="the mail server is down")
    before = rows()
    assert claimed() == []
    assert rows() == before
    said = Queue.objects.get(pk=QUEUE)
    assert (said.is_paused, said.paused_by, said.pause_reason) == (True, "me", "the mail server is down")
    assert abs(said.paused_at - datetime.now(UTC)) < timedelta(minutes=5)
    assert Queue.objects.paused_names() == {QUEUE}
    Queue.objects.resume(QUEUE)
    assert Queue.objects.paused_names() == set()
    said.refresh_from_db()
    assert (said.is_paused, said.paused_at, said.paused_by, said.pause_reason) == (False, None, "", "")
    assert claimed() == ["a"]


def test_a_pause_holds_for_its_own_queue_only() -> None:
    waiting(queue="other")
    Queue.objects.pause(QUEUE)
    assert len(Message.objects.claim(1, queue="other")) == 1


def test_a_paused_queue_takes_messages_and_lets_what_runs_finish() -> None:
    message = held()
    Queue.objects.pause(QUEUE)
    assert waiting().outcome == "created"
    message.extend(5)
    message.ack()


def test_a_pause_of_a_bad_name_is_refused() -> None:
    with pytest.raises(InvalidMessage):
        Queue.objects.pause("no good")


def test_who_reads_a_message_without_claiming_it_holds_nothing() -> None:
    message = waiting()
    for object_ in (message, Message.objects.get(pk=message.pk)):
        before = row(message)
        with pytest.raises(LeaseLost):
            object_.ack()
        assert row(message) == before
