"""A token that a sender gives is taken once in its time: another message with it is ignored (P20)."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.conf import settings
from django.db import connection, connections, transaction

from django_dbqueue import DuplicateKey, Envelope, InvalidMessage
from django_dbqueue.lifecycle.expired_rows import forget_tokens
from django_dbqueue.models import ArchivedMessage, Message, Once
from django_dbqueue.models.fields import clock
from django_dbqueue.sessions.django_session import session_of
from tests.factories import QUEUE, claim_one, claimed
from tests.lifecycle.tokens import bodies, let_expire, named, send, send_many
from tests.patience import patience

pytestmark = pytest.mark.django_db(transaction=True)

PRODUCERS = 64
MILLISECOND = timedelta(milliseconds=1)
"""What SQLite rounds to."""


def test_a_second_message_with_the_token_is_ignored_and_the_first_one_returned() -> None:
    first, second = send("first"), send("second")
    assert (first.outcome, second.outcome) == ("created", "ignored")
    assert (second.pk, second.payload, second.status) == (first.pk, "first", "n")
    assert bodies() == ["first"]
    assert named() == {first.pk: 1}


def test_a_token_is_its_queues_and_compared_byte_by_byte() -> None:
    sent = [send(queue=queue, token=token) for queue in ("tests", "others") for token in ("t", "T", "t ", "ť")]
    assert [message.outcome for message in sent] == ["created"] * 8


def test_a_day_is_what_holds_by_default() -> None:
    began = clock("default")
    send()
    send(token="hour", once_for=timedelta(hours=1))
    send(token="second", once_for=1.5)
    ended = clock("default")
    ends = Once.objects.order_by("expires_at").values_list("expires_at", flat=True)
    for end, seconds in zip(ends, (1.5, 3_600, 86_400), strict=True):
        assert began - MILLISECOND <= end - timedelta(seconds=seconds) <= ended + MILLISECOND


def test_when_its_time_has_ended_the_token_can_be_used_again() -> None:
    first = send("first", once_for=60)
    let_expire()
    second = send("second", once_for=60)
    assert (second.outcome, bodies(), named()) == ("created", ["first", "second"], {second.pk: 1})
    assert second.pk != first.pk
    assert send("third").pk == second.pk


def test_a_message_does_not_prolong_the_time_of_the_one_that_it_repeats() -> None:
    send(once_for=60)
    before = Once.objects.get().expires_at
    send(once_for=3_600)
    assert Once.objects.get().expires_at == before


def test_what_is_rolled_back_frees_its_token() -> None:
    with transaction.atomic():
        send("undone")
        transaction.set_rollback(True)
    assert not Once.objects.exists()
    assert send("sent").outcome == "created"
    let_expire()
    with transaction.atomic():
        assert send("undone").outcome == "created"
        transaction.set_rollback(True)
    assert send("sent again").outcome == "created"
    assert bodies() == ["sent", "sent again"]


@pytest.mark.parametrize("end", ["ack", "reject", "drop"])
@pytest.mark.parametrize("is_archived", [False, True], ids=["in the queue", "archived"])
def test_a_message_that_has_ended_still_has_its_token_and_shows_how_it_ended(end: str, is_archived: bool) -> None:
    send("first", key="k", group="g", headers={"by": "ann"})
    message = claim_one()
    if end == "drop":
        Message.objects.drop(QUEUE, "k", reason="unwanted")
    else:
        message.ack() if end == "ack" else message.reject("unwanted")
    if is_archived:
        Message.objects.filter(pk=message.pk).purge()
        assert ArchivedMessage.objects.count() == 1
    again = send("second", key="k", group="g")
    assert (again.outcome, again.pk, again.payload) == ("ignored", message.pk, "first")
    assert (again.is_dead, again.status) == (end == "reject", "n" if end == "reject" else "y")
    assert (again.error is None) is (end == "ack")
    assert (again.queue, again.key, again.group, again.headers) == (QUEUE, "k", "g", {"by": "ann"})
    assert (again.read_count, again.finished_at is None, again.claimed_at is None) == (1, False, False)
    assert Message.objects.filter(pk=message.pk).exists() is not is_archived
    assert claimed() == []


def test_of_a_message_that_is_nowhere_the_id_is_known() -> None:
    first = send()
    Message.objects.all().delete()
    again = send()
    assert (again.outcome, again.pk, again.queue) == ("ignored", first.pk, QUEUE)
    with pytest.raises(Message.DoesNotExist):
        _ = again.status


def test_with_a_key_the_token_stands_for_the_message_that_the_sender_received() -> None:
    live = send("live", token=None, key="k")
    met = send("met", token="t1", key="k")
    assert (met.outcome, met.pk, met.payload) == ("ignored", live.pk, "live")
    updated = send("new", token="t2", key="k", on_conflict="update")
    assert (updated.outcome, updated.pk, bodies()) == ("updated", live.pk, ["new"])
    with pytest.raises(DuplicateKey):
        send("refused", token="t3", key="k", on_conflict="error")
    assert named() == {live.pk: 2}, "the refused one freed its own"
    live.refresh_from_db()
    claim_one().ack()
    late = send("late", token="t1", key="k", on_conflict="update")
    assert (late.outcome, late.pk) == ("ignored", live.pk)
    assert send("late", token="t3", key="k").outcome == "created"


def test_it_goes_from_async_code_too() -> None:
    async def work() -> tuple[Message, Message, Any]:
        first = await Message.objects.aenqueue("a", queue=QUEUE, once="t")
        second = await Message.objects.aenqueue("b", queue=QUEUE, once="t", once_for=timedelta(days=366))
        return first, second, await Message.objects.aenqueue_many([Envelope("c", once="t")], queue=QUEUE)

    first, second, report = async_to_sync(work)()
    assert (second.outcome, second.pk, report.ignored) == ("ignored", first.pk, 1)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"once": ""}, "token once has 0 characters"),
        ({"once": "x" * 201}, "token once has 201 characters"),
        ({"once": 17}, "token once must be a string or None, not int"),
        ({"once": "a\0b"}, "NUL"),
        ({"once": "a\ud800"}, "token once"),
        ({"once_for": 60}, "give once too"),
        ({"once": "t", "once_for": 0}, "once_for must be above 0"),
        ({"once": "t", "once_for": -1}, "once_for must be from 0"),
        ({"once": "t", "once_for": timedelta(days=367)}, "a year"),
        ({"once": "t", "once_for": "1d"}, "once_for must be a number of seconds or a timedelta"),
        ({"once": "t", "once_for": float("nan")}, "once_for must be a number of seconds"),
    ],
)
def test_what_can_not_be_is_refused(options: dict[str, Any], error: str) -> None:
    with pytest.raises(InvalidMessage, match=error):
        Message.objects.enqueue("a", queue=QUEUE, **options)
    with pytest.raises(InvalidMessage, match=error):
        Message.objects.enqueue_many([Envelope("a", **options)], queue=QUEUE)
    assert not Message.objects.exists()
    assert not Once.objects.exists()


def test_workers_delete_those_whose_time_has_ended_and_no_other() -> None:
    send_many(*(Envelope(n, once=str(n)) for n in range(600)))
    let_expire()
    send(token="young")
    assert forget_tokens(session_of("default"), limit=550) == 550
    assert forget_tokens(session_of("default"), limit=550) == 50
    assert forget_tokens(session_of("default"), limit=550) == 0
    assert Once.objects.count() == 1


@pytest.mark.skipif(settings.TEST_DATABASE == "sqlite", reason="SQLite has one writer")
def test_who_deletes_what_has_expired_waits_for_no_sender(other_connection: Any) -> None:
    send_many(*(Envelope(n, once=str(n)) for n in range(5)))
    let_expire()
    held = Once.objects.filter(message_id=min(named())).values_list("hash", flat=True).get()
    other_connection.set_autocommit(False)
    with other_connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM django_dbqueue_once WHERE hash = %s FOR UPDATE", (held,))
        assert forget_tokens(session_of("default"), limit=100) == 4
    other_connection.rollback()
    assert forget_tokens(session_of("default"), limit=100) == 1


def test_of_many_producers_with_one_token_one_stores_a_message() -> None:
    together = threading.Barrier(PRODUCERS, timeout=patience(120))

    def produce(number: int) -> tuple[str | None, int]:
        try:
            connection.ensure_connection()
            together.wait()
            message = send(number)
        finally:
            connections.close_all()
        return message.outcome, message.pk

    with ThreadPoolExecutor(PRODUCERS) as pool:
        answers = list(pool.map(produce, range(PRODUCERS)))
    [stored] = Message.objects.values_list("pk", flat=True)
    assert sorted(outcome or "" for outcome, _ in answers) == ["created"] + ["ignored"] * (PRODUCERS - 1)
    assert {pk for _, pk in answers} == {stored}


@pytest.mark.parametrize("is_rolled_back", [False, True], ids=["commits", "rolls back"])
def test_producers_wait_for_a_transaction_that_has_the_token(is_rolled_back: bool) -> None:
    def produce(number: int) -> str | None:
        try:
            return send(number).outcome
        finally:
            connections.close_all()

    with ThreadPoolExecutor(8) as pool:
        with transaction.atomic():
            send("first")
            others = [pool.submit(produce, number) for number in range(8)]
            transaction.set_rollback(is_rolled_back)
        answers = [other.result(patience(60)) for other in others]
    assert answers.count("created") == is_rolled_back
    assert Message.objects.count() == Once.objects.count() == 1
