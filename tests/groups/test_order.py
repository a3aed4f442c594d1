"""A group's messages run one after the other, in the order in which they were sent (P18)."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import pytest
from django.conf import settings
from django.db import transaction

from django_dbqueue import Envelope, LeaseLost
from django_dbqueue.exceptions import InvalidMessage, TransactionNotAllowed
from django_dbqueue.models import Message, Ticket
from tests.factories import QUEUE, claimed, row
from tests.groups.rows import nothing_is_left
from tests.groups.sending import payloads, send, take

if TYPE_CHECKING:
    from pytest_django.fixtures import SettingsWrapper

pytestmark = pytest.mark.django_db(transaction=True)


def send_and_roll_back(payload: Any) -> None:
    with transaction.atomic():
        send(payload)
        transaction.set_rollback(True)


def test_the_next_of_a_group_comes_when_the_one_before_it_is_done() -> None:
    for payload in (1, 2, 3):
        send(payload)
    for payload in (1, 2, 3):
        message = take()
        assert (message.payload, message.group) == (payload, "a")
        assert claimed() == []
        message.ack()
    assert claimed() == []
    assert nothing_is_left()


def test_groups_and_messages_without_one_do_not_wait_for_each_other() -> None:
    for payload, group in (("a1", "a"), ("a2", "a"), ("b1", "b"), ("none", None), ("b2", "b")):
        send(payload, group)
    assert sorted(payloads()) == ["a1", "b1", "none"]


def test_a_retry_keeps_its_place() -> None:
    send(1)
    send(2)
    take().nack(error="once more")
    again = take()
    assert again.payload == 1
    again.release()
    again = take()
    again.nack(delay=3_600)
    assert claimed() == []


@pytest.mark.parametrize("end", ["ack", "reject", "drop", "batch ack", "transaction", "atomic", "purge of the dead"])
def test_whatever_ends_a_message_lets_the_next_one_run(end: str) -> None:
    first = send(1, key="k")
    send(2)
    message = take()
    if end == "ack":
        message.ack()
    elif end == "reject":
        message.reject("unwanted")
    elif end == "drop":
        assert Message.objects.drop(QUEUE, "k")
    elif end == "batch ack":
        assert Message.objects.ack([message]) == []
    elif end == "transaction":
        with message.transaction():
            pass
    elif end == "atomic":
        with transaction.atomic():
            message.ack()
            assert claimed_elsewhere_is_empty()
    else:
        message.reject("unwanted")
        assert Message.objects.filter(pk=first.pk).purge() == 1
    assert payloads() == [2]


def claimed_elsewhere_is_empty() -> bool:
    """Nothing of the group is due before the commit."""
    return not Message.objects.ready(QUEUE).exists()


def test_a_lease_that_expires_gives_the_message_again_and_its_death_lets_the_next_one_run() -> None:
    send(1, max_reads=2)
    send(2)
    for _ in range(2):
        message = take()
        assert message.payload == 1
        Message.objects.extend([message], 0)
        assert Message.objects.rescue(QUEUE) == 1
    assert Message.objects.dead(QUEUE).count() == 1
    assert payloads() == [2]
    with pytest.raises(LeaseLost):
        message.ack()


def test_a_transaction_that_rolls_back_leaves_nothing_behind() -> None:
    send_and_roll_back(1)
    assert not Message.objects.exists()
    assert nothing_is_left()
    send(2)
    assert payloads() == [2]


def test_a_rolled_back_savepoint_takes_its_kick_along_and_leaves_the_others() -> None:
    with transaction.atomic():
        send(1)
        send_and_roll_back(2)
        send(3)
    assert payloads() == [1]


def test_what_was_sent_in_one_call_is_in_order_too() -> None:
    report = Message.objects.enqueue_many(
        [Envelope(number, group="abc"[number % 3] if number % 4 else None) for number in range(40)], queue=QUEUE
    )
    assert report.created == 40
    order: dict[str | None, list[Any]] = {}
    while batch := Message.objects.claim(100, queue=QUEUE):
        assert len({message.group for message in batch if message.group}) == len([m for m in batch if m.group])
        for message in batch:
            order.setdefault(message.group, []).append(message.payload)
        assert Message.objects.ack(batch) == []
    assert all(part == sorted(part) for part in order.values())
    assert sum(map(len, order.values())) == 40
    assert nothing_is_left()


def test_a_key_that_is_in_use_puts_none_into_a_line() -> None:
    first = send(1, key="k")
    assert send(2, key="k").pk == first.pk
    report = Message.objects.enqueue_many([Envelope(3, key="k", group="a"), Envelope(4, group="a")], queue=QUEUE)
    assert (report.created, report.ignored) == (1, 1)
    take().ack()
    assert payloads() == [4]


def test_an_update_by_key_keeps_the_place_or_changes_the_group() -> None:
    send(1, key="k")
    send(2, key="waits")
    send("two", key="waits", on_conflict="update")
    assert row(Message.objects.get_by_key(QUEUE, "waits"))["available_at"].year == 9999  # type: ignore[arg-type]
    send("two", "b", key="waits", on_conflict="update")
    assert sorted(map(str, payloads())) == ["1", "two"]
    send("back", None, key="waits", on_conflict="update")
    assert payloads() == ["back"]
    assert list(Ticket.objects.values_list("message_id", flat=True)) == [Message.objects.get_by_key(QUEUE, "k").pk]  # type: ignore[union-attr]


def test_a_delay_of_the_first_holds_its_group_and_no_other() -> None:
    send("later", delay=3_600)
    send("after it")
    send("other", "b")
    assert payloads() == ["other"]
    Message.objects.delayed(QUEUE).get().delete()
    assert claimed() == []


def test_what_waits_can_be_dropped_and_rejected() -> None:
    messages = [send(number) for number in range(4)]
    assert Message.objects.filter(pk=messages[1].pk).drop_all("unwanted") == 1
    assert Message.objects.filter(pk=messages[2].pk).reject_waiting("unwanted") == 1
    take().ack()
    assert payloads() == [3]


def test_a_requeued_message_waits_for_its_turn() -> None:
    send(1)
    send(2)
    take().reject("unwanted")
    second = take()
    assert Message.objects.dead(QUEUE).requeue() == 1
    assert claimed() == []
    second.ack()
    assert payloads() == [1]


def test_a_whole_queue_can_be_one_group(settings: SettingsWrapper) -> None:
    settings.DBQUEUE = {"QUEUES": {QUEUE: {"group": "*", "group_limit": 2}}}
    for number in range(4):
        send(number, None)
    assert [message.payload for message in Message.objects.claim(10, queue=QUEUE)] == [0, 1]
    with pytest.raises(InvalidMessage, match="are one group"):
        send(5, "a")


@pytest.mark.parametrize(
    ("group", "error"),
    [("", "0 characters"), ("x" * 201, "201 characters"), (7, "must be a string"), ("*", "stands for"), ("a\0", "NUL")],
)
def test_a_group_that_can_not_be_is_refused(group: Any, error: str) -> None:
    with pytest.raises(InvalidMessage, match=error):
        send(1, group)
    assert not Message.objects.exists()


def test_groups_differ_by_every_character_and_by_queue() -> None:
    for group in ("a", "A", "a ", "ä"):
        send(group, group)
    Message.objects.enqueue("other", queue="another", group="a")
    assert sorted(payloads()) == ["A", "a", "a ", "ä"]
    assert len(Message.objects.claim(10, queue="another")) == 1


if settings.TEST_DATABASE != "sqlite":  # whose autocommit Django keeps

    @pytest.mark.parametrize("in_a_block", [False, True])
    @pytest.mark.parametrize("sends", ["one", "many"])
    def test_without_autocommit_a_message_of_a_group_is_refused(sends: str, in_a_block: bool) -> None:
        many = [Envelope(1, group="g")]
        transaction.set_autocommit(False)
        try:
            with (
                pytest.raises(TransactionNotAllowed, match="autocommit off"),
                transaction.atomic() if in_a_block else nullcontext(),
            ):
                send(1) if sends == "one" else Message.objects.enqueue_many(many, queue=QUEUE)
        finally:
            transaction.rollback()
            transaction.set_autocommit(True)
        assert not Message.objects.exists()


@pytest.mark.django_db(transaction=False)
def test_in_a_testcase_where_nothing_commits_groups_work_all_the_same() -> None:
    for number in (1, 2, 3):
        send(number)
    first = take()
    assert claimed() == []
    first.ack()
    assert payloads() == [2]
