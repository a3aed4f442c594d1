"""The claim: who gets what, in which order, what the row says of it, and where it is refused (P4, P10)."""

from __future__ import annotations

import os
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection, transaction

from django_dbqueue import InvalidMessage, LeaseLost
from django_dbqueue.exceptions import TransactionNotAllowed
from django_dbqueue.lifecycle.claimer import Claimer
from django_dbqueue.models import Message
from django_dbqueue.models.fields import DbNow
from django_dbqueue.sessions.django_session import DjangoSession
from tests.factories import (
    QUEUE,
    claim_one,
    claimed,
    dead,
    done,
    held,
    held_many,
    let_pass,
    row,
    rows,
    waiting,
    written_by_sql,
)

pytestmark = pytest.mark.django_db
transactional = pytest.mark.django_db(transaction=True)


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


def test_the_message_that_is_returned_has_what_its_row_has() -> None:
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


def test_a_message_that_is_claimed_is_not_returned_again() -> None:
    waiting()
    assert len(claimed()) == 1
    assert claimed() == []


@pytest.mark.parametrize("make", [held, done, dead])
def test_running_done_and_dead_ones_are_not_given_out(make: Any) -> None:
    make()
    assert claimed() == []


def test_a_claim_returns_no_more_than_was_requested_and_leaves_the_others() -> None:
    Message.objects.enqueue_many(range(10), queue=QUEUE)
    assert claimed(4) == [0, 1, 2, 3]
    assert Message.objects.ready(QUEUE).count() == 6
    assert claimed(100) == [4, 5, 6, 7, 8, 9]


def test_a_claim_of_many_priorities_returns_no_more_than_was_requested() -> None:
    for priority in (1, 2, 3):
        for number in range(3):
            waiting(payload=(priority, number), priority=priority)
    assert claimed(4) == [[3, 0], [3, 1], [3, 2], [2, 0]]
    assert claimed(4) == [[2, 1], [2, 2], [1, 0], [1, 1]]


def test_a_claim_takes_only_from_its_own_queue() -> None:
    waiting(queue="a", payload="a")
    waiting(queue="b", payload="b")
    assert [message.payload for message in Message.objects.claim(10, queue="a")] == ["a"]


def test_who_reads_a_message_without_claiming_it_holds_nothing() -> None:
    message = waiting()
    for object_ in (message, Message.objects.get(pk=message.pk)):
        before = row(message)
        with pytest.raises(LeaseLost):
            object_.ack()
        assert row(message) == before


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
    found = Message.objects.claim(100, queue=QUEUE)
    assert [message.payload for message in found] == [
        [priority, age] for priority in (100, 7, 0, -100) for age in (30, 20, 20, 10)
    ]
    zero = [message.pk for message in found if message.payload[0] == 0]
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


def test_a_delayed_message_of_a_higher_priority_holds_nothing_up() -> None:
    waiting(payload="later", priority=100, delay=60)
    waiting(payload="now")
    assert claimed() == ["now"]


def test_a_delayed_message_comes_when_its_time_has_come() -> None:
    message = waiting(payload="later", delay=3600)
    let_pass(message, 3500)
    assert claimed() == []
    let_pass(message, 100)
    assert claimed() == ["later"]


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
def test_a_claim_with_autocommit_off_is_refused_since_it_would_not_be_committed() -> None:
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
    ({"lease": 0}, "lease must be a number of seconds above 0"),
    ({"lease": timedelta(0)}, "lease must be a number of seconds above 0"),
    ({"lease": float("nan")}, "lease must be a number of seconds"),
    ({"lease": "60"}, "lease must be a number of seconds"),
    ({"queue": "no good"}, "is not a queue name"),
]


@pytest.mark.parametrize(("options", "error"), BAD_CLAIMS, ids=str)
def test_a_claim_names_the_argument_that_is_wrong_and_claims_nothing(options: dict[str, Any], error: str) -> None:
    waiting()
    before = rows()
    arguments = {"limit": 1, "queue": QUEUE} | options
    with pytest.raises(InvalidMessage, match=error):
        Message.objects.claim(arguments.pop("limit"), **arguments)
    assert rows() == before


def test_a_lease_may_be_a_timedelta() -> None:
    waiting()
    [message] = Message.objects.claim(1, queue=QUEUE, lease=timedelta(minutes=3))
    assert row(message)["lease_seconds"] == 180


def test_a_lease_of_nothing_that_sql_wrote_is_none_and_the_claims_own_holds() -> None:
    for number in range(2):
        written_by_sql(f'"{number}"', lease_seconds=0)
    [message] = Message.objects.claim(1, queue=QUEUE, lease=600)
    [found] = Claimer(Message, DjangoSession("default"), QUEUE).take(1, lease=600, max_reads=5)
    assert (message.lease_seconds, found.lease_seconds, found.message.lease_seconds) == (600, 600, 600)
    assert Message.objects.running(QUEUE).filter(lease_seconds=600).count() == 2


def test_what_had_a_lease_of_nothing_can_be_sent_again() -> None:
    old = written_by_sql('"x"', lease_seconds=0)
    assert Message.objects.filter(pk=old.pk).send_again() == 1
    assert Message.objects.exclude(pk=old.pk).get().lease_seconds is None
