"""One message goes in: with the caller's transaction, and due when the sender says (P1, P2)."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models.signals import post_init
from django.test import override_settings

from django_dbqueue.models import Message
from django_dbqueue.statements.enqueue_sql import DEFAULTS
from tests.commands.running import hidden
from tests.factories import QUEUE, MessageFactory, row, rows, waiting
from tests.lifecycle.rollback import rolled_back

pytestmark = pytest.mark.django_db
transactional = pytest.mark.django_db(transaction=True)


def seen_by(other: BaseDatabaseWrapper) -> int:
    with other.cursor() as cursor:
        cursor.execute("SELECT COUNT(*) FROM django_dbqueue_message")
        return int(cursor.fetchone()[0])


@transactional
@pytest.mark.parametrize("send", [waiting, lambda: Message.objects.enqueue_many([1], queue=QUEUE)], ids=["one", "many"])
def test_a_database_without_the_tables_is_explained_and_stays_an_error_of_the_database(send: Any) -> None:
    with hidden("django_dbqueue_message"), pytest.raises(DatabaseError) as caught:
        send()
    assert caught.value.__notes__ == [
        "The database 'default' doesn't have the queue's tables. Run: manage.py migrate --database default"
    ]


# P1, P2: the message exists if and only if the caller's transaction commits


@transactional
def test_after_enqueue_returns_another_connection_sees_the_message(
    other_connection: BaseDatabaseWrapper,
) -> None:
    waiting()
    assert seen_by(other_connection) == 1
    assert not connection.in_atomic_block


@transactional
def test_a_message_is_seen_by_others_when_its_transaction_commits_and_not_before(
    other_connection: BaseDatabaseWrapper,
) -> None:
    with transaction.atomic():
        waiting()
        if connection.vendor != "sqlite" or connection.transaction_mode == "IMMEDIATE":
            assert seen_by(other_connection) == 0
    assert seen_by(other_connection) == 1


@transactional
@pytest.mark.parametrize("many", [False, True])
def test_a_transaction_that_rolls_back_leaves_no_message(many: bool) -> None:
    with rolled_back():
        if many:
            Message.objects.enqueue_many([1, 2, 3], queue=QUEUE)
        else:
            waiting(key="k")
    assert rows() == []


@transactional
def test_a_savepoint_that_rolls_back_takes_only_its_own_messages() -> None:
    with transaction.atomic():
        waiting(payload="before")
        with rolled_back():
            waiting(payload="inside")
            Message.objects.enqueue_many(["inside too"], queue=QUEUE)
        waiting(payload="after")
    assert [message.payload for message in Message.objects.order_by("pk")] == ["before", "after"]


@transactional
@pytest.mark.parametrize("on_conflict", ["ignore", "update"])
def test_a_key_that_stands_already_leaves_the_callers_transaction_usable(on_conflict: Any) -> None:
    waiting(payload=1, key="k")
    with transaction.atomic():
        waiting(payload=2, key="k", on_conflict=on_conflict)
        waiting(payload=3)
    assert Message.objects.count() == 2


@transactional
def test_an_update_that_rolls_back_leaves_the_old_content() -> None:
    message = waiting(payload="old", key="k")
    before = row(message)
    with rolled_back():
        waiting(payload="new", key="k", on_conflict="update")
    assert row(message) == before


# What comes back


def test_enqueue_returns_the_message_as_it_stands_in_the_table() -> None:
    message = waiting(
        payload={"to": "a@b.c"},
        key="k",
        priority=7,
        max_reads=3,
        lease=timedelta(minutes=2),
        headers={"trace": "1"},
    )
    assert (message.outcome, message.settled, message.lease_lost) == ("created", False, False)
    stored = row(message)
    for name, value in stored.items():
        assert getattr(message, name) == value, name
    assert (stored["status"], stored["live"], stored["read_count"], stored["crashes"]) == ("n", 1, 0, 0)
    assert (stored["priority"], stored["max_reads"], stored["lease_seconds"]) == (7, 3, 120.0)
    assert stored["available_at"] == stored["due_at"] == stored["created_at"]
    assert stored["created_at"].utcoffset() == timedelta(0)
    assert message.headers == {"trace": "1"}


def test_what_an_insert_leaves_to_the_table_is_what_the_table_has() -> None:
    fields = {field.column: field for field in Message._meta.concrete_fields}
    for name, value in DEFAULTS.items():
        assert fields[name].db_default == value, name
    message = waiting(payload={}, priority=0)
    stored = row(message)
    assert {name: stored[name] for name in DEFAULTS} == {name: getattr(message, name) for name in DEFAULTS} == DEFAULTS


def test_where_somebody_listens_to_it_djangos_own_constructor_makes_the_message() -> None:
    made: list[str] = []

    def heard(instance: Message, **_: Any) -> None:
        made.append(f"{instance.pk} {instance.queue} {instance.status} {instance.body} {instance.error}")

    post_init.connect(heard, sender=Message)
    try:
        message = waiting(payload="body")
    finally:
        post_init.disconnect(heard, sender=Message)
    assert made == [f"{message.pk} {QUEUE} n body None"]
    assert (message.outcome, message.due_at) == ("created", row(message)["due_at"])


def test_what_is_not_set_stays_unset_until_the_claim() -> None:
    message = waiting()
    assert (message.max_reads, message.lease_seconds, message.key, message.headers) == (None, None, None, {})
    assert row(message)["live"] is None


@override_settings(DBQUEUE={"DEFAULTS": {"priority": 3}, "QUEUES": {"urgent": {"priority": 9}}})
def test_the_priority_comes_from_the_first_place_that_sets_it() -> None:
    assert waiting(queue="urgent").priority == 9
    assert waiting(queue="urgent", priority=0).priority == 0
    assert waiting().priority == 3


def test_async_code_enqueues_by_aenqueue_and_aenqueue_many() -> None:
    # In the test's own transaction: sync_to_async comes back to this thread.
    from asgiref.sync import async_to_sync

    async def produce() -> tuple[Message, Any]:
        one = await Message.objects.aenqueue("one", queue=QUEUE, key="k", priority=4)
        return one, await Message.objects.aenqueue_many(["two", "three"], queue=QUEUE)

    one, report = async_to_sync(produce)()
    assert (one.outcome, one.priority, report.created) == ("created", 4, 2)
    assert [m.payload for m in Message.objects.claim(9, queue=QUEUE)] == ["one", "two", "three"]


# When it is due


@pytest.mark.parametrize("delay", [90, 90.0, timedelta(seconds=90)])
def test_a_delay_counts_from_the_databases_clock(delay: Any) -> None:
    message = waiting(delay=delay)
    stored = row(message)
    assert stored["due_at"] == stored["available_at"]
    assert abs((stored["due_at"] - stored["created_at"]).total_seconds() - 90) < 0.002
    assert Message.objects.claim(1, queue=QUEUE) == []


def test_a_delay_keeps_fractions_of_a_second() -> None:
    stored = row(waiting(delay=1000.25))
    assert abs((stored["due_at"] - stored["created_at"]).total_seconds() - 1000.25) < 0.002


def test_a_moment_is_kept_to_the_microsecond_and_in_whatever_zone_it_was_given() -> None:
    moment = datetime(2999, 12, 31, 23, 59, 59, 123456, tzinfo=timezone(timedelta(hours=-11)))
    stored = row(waiting(at=moment))
    assert stored["due_at"] == stored["available_at"] == moment
    assert Message.objects.claim(1, queue=QUEUE) == []


@pytest.mark.parametrize("moment", [datetime(1999, 1, 1), datetime.min], ids=str)  # noqa: DTZ001, DTZ901
def test_a_moment_in_the_past_means_now_so_that_it_overtakes_none(moment: datetime) -> None:
    early = waiting(payload="early")
    late = waiting(payload="late", at=moment.replace(tzinfo=timezone(timedelta(hours=14))))
    assert row(late)["due_at"] == row(late)["created_at"] >= row(early)["due_at"]
    assert [m.payload for m in Message.objects.claim(2, queue=QUEUE)] == ["early", "late"]


def test_a_delay_of_a_century_fits_every_calendar() -> None:
    assert row(waiting(delay=100 * 366 * 86_400))["due_at"].year > 2100


def test_a_factory_makes_what_enqueue_makes() -> None:
    assert [m.payload["number"] + 1 for m in MessageFactory.build_batch(0)] == []
    assert len(MessageFactory.create_batch(3)) == Message.objects.ready(QUEUE).count() == 3
