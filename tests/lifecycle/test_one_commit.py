"""``message.transaction()`` commits the block's rows with the message's settlement, or nothing (P15).

More of it, by losers of a claim: ``test_settle_in_atomic.py``.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.conf import settings
from django.db import OperationalError, connection, transaction

from django_dbqueue.exceptions import TransactionBroken, TransactionNotAllowed
from django_dbqueue.models import Message
from tests.concurrency.steps import aside
from tests.factories import held, row, rows, waiting
from tests.lifecycle.rollback import rolled_back
from tests.patience import patience

pytestmark = pytest.mark.django_db(transaction=True)

ELSEWHERE = "elsewhere"


def work(payload: str = "the work") -> None:
    waiting(payload=payload, queue=ELSEWHERE)


def raw(sql: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql)


@pytest.mark.parametrize(
    ("verb", "status", "is_dead", "reads"),
    [("ack", "y", False, 1), ("nack", "n", False, 1), ("reject", "n", True, 1), ("release", "n", False, 0)],
)
def test_a_block_that_settles_its_message_itself_commits_that_and_no_ack(
    verb: str, status: str, *, is_dead: bool, reads: int
) -> None:
    message = held()
    with message.transaction():
        work()
        getattr(message, verb)()
    stored = Message.objects.get(pk=message.pk)
    assert (stored.status, stored.is_dead, stored.read_count) == (status, is_dead, reads)
    assert message.settled
    assert Message.objects.ready(ELSEWHERE).count() == 1


def test_a_batch_that_names_the_message_settles_it_too() -> None:
    message = held()
    with message.transaction():
        assert Message.objects.nack([message]) == []
    assert row(message)["status"] == "n"


def test_a_settlement_that_the_block_undid_counts_as_none_and_the_ack_follows() -> None:
    message = held()
    with message.transaction():
        work()
        with rolled_back():
            message.reject("not yet")
    assert (row(message)["status"], row(message)["error"]) == ("y", None)


def test_one_that_it_undid_by_a_savepoint_of_its_own_counts_as_none_either() -> None:
    message = held()
    with message.transaction():
        work()
        beginning = transaction.get_connection().savepoint()
        message.reject("not yet")
        transaction.savepoint_rollback(beginning)
    assert (row(message)["status"], message.is_acked) == ("y", True)


def test_what_was_settled_before_a_savepoint_stays_settled_when_that_is_rolled_back() -> None:
    message = held()
    with message.transaction():
        message.reject("never")
        behind = transaction.get_connection().savepoint()
        work()
        transaction.savepoint_rollback(behind)
    assert (row(message)["status"], row(message)["error"]) == ("n", "never")
    assert message.settled


def test_a_block_within_the_block_acks_once() -> None:
    message = held()
    with message.transaction():
        with message.transaction():
            work()
        work("more")
    assert row(message)["status"] == "y"
    assert Message.objects.ready(ELSEWHERE).count() == 2


def test_an_extension_in_the_block_is_no_settlement() -> None:
    message = held()
    with message.transaction():
        message.extend(600)
    assert row(message)["status"] == "y"


def swallowed_rollback() -> None:
    raw("ROLLBACK")


def marked_for_rollback() -> None:
    transaction.set_rollback(True)


@pytest.mark.parametrize("end", [swallowed_rollback, marked_for_rollback], ids=lambda end: end.__name__)
def test_a_block_whose_transaction_was_rolled_back_unnoticed_is_not_acked(end: Callable[[], None]) -> None:
    """The server does so to the victim of a deadlock, and SQLite when its disk is full."""
    message = held()
    before = rows()

    def block() -> None:
        with message.transaction():
            work()
            end()

    with pytest.raises(TransactionBroken, match=f"message {message.pk} was not acked"):
        block()
    assert rows() == before
    assert not message.settled
    message.nack()


def test_a_block_that_commits_by_itself_is_not_acked_and_reported() -> None:
    """What it committed stays, and the message comes again: that is as far as anybody can help."""
    message = held()

    def block() -> None:
        with message.transaction():
            work()
            raw("COMMIT")

    with pytest.raises(TransactionBroken, match="COMMIT"):
        block()
    assert row(message)["status"] == "run"
    assert Message.objects.ready(ELSEWHERE).count() == 1


def test_with_autocommit_off_the_block_is_refused_before_it_begins() -> None:
    message = held()
    transaction.set_autocommit(False)
    try:
        with pytest.raises(TransactionNotAllowed, match="autocommit off"), message.transaction():
            pytest.fail("the block began")
    finally:
        transaction.rollback()
        transaction.set_autocommit(True)
    assert row(message)["status"] == "run"


def test_in_an_outer_transaction_a_broken_block_takes_the_outer_one_along() -> None:
    message = held()
    before = rows()

    def outer() -> None:
        with transaction.atomic():
            work("outer")
            with message.transaction():
                work()
                swallowed_rollback()

    with pytest.raises(TransactionBroken):
        outer()
    assert rows() == before


if settings.TEST_DATABASE != "sqlite":  # which has one writer, and no deadlocks

    def test_a_deadlock_that_the_block_swallowed_undoes_all_of_it() -> None:
        """InnoDB rolls back the whole transaction, and lets the block go on in a new one."""
        message, mine, theirs = held(), waiting(queue=ELSEWHERE), waiting(queue=ELSEWHERE)
        ballast = [waiting(queue="ballast") for _ in range(50)]
        swallowed: list[OperationalError] = []

        def block() -> None:
            with message.transaction():
                mark(mine, 1)
                crossing = other.begin(lambda: mark(mine, 2))
                try:
                    list(Message.objects.select_for_update().filter(pk=theirs.pk))
                except OperationalError as error:
                    swallowed.append(error)
                crossing.result(patience(60))
                other.commit()
                if connection.vendor == "mysql":
                    work("after the deadlock")

        with aside() as other:
            other.open_transaction()
            other.do(lambda: weigh([theirs, *ballast]))
            with pytest.raises(TransactionBroken):
                block()
        assert len(swallowed) == 1
        assert row(message)["status"] == "run"
        assert row(mine)["worker_id"] == 2, "the other one's word stands, ours is undone"
        assert Message.objects.filter(queue=ELSEWHERE).count() == 2

    def mark(message: Message, number: int) -> None:
        Message.objects.filter(pk=message.pk).update(worker_id=number)

    def weigh(messages: list[Message]) -> None:
        """Make this thread's transaction the one that the server spares."""
        if connection.vendor == "postgresql":
            raw("SET LOCAL deadlock_timeout = '30s'")
        for message in messages:
            mark(message, 2)


if settings.TEST_DATABASE == "postgres":

    def test_under_repeatable_read_a_lease_that_was_extended_in_between_undoes_the_block() -> None:
        """The quickstart warns of it: the ack would have to write a row that changed after the block's snapshot."""
        message = held()
        session = "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL"
        raw(f"{session} REPEATABLE READ")

        def block() -> None:
            with message.transaction():
                work()
                other.do(lambda: Message.objects.get(pk=message.pk).extend(60))

        try:
            with aside() as other, pytest.raises(OperationalError, match="concurrent update"):
                block()
        finally:
            raw(f"{session} READ COMMITTED")
        assert row(message)["status"] == "run"
        assert not Message.objects.filter(queue=ELSEWHERE).exists()
        message.ack()
