"""A handler that swallows what rolled its slice back is not left with a cursor ahead of the database (P21)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.conf import settings
from django.db import DatabaseError, OperationalError, connection, transaction
from django.db.transaction import TransactionManagementError

from django_dbqueue.models import Message
from tests.concurrency.steps import aside
from tests.factories import held, waiting
from tests.patience import patience
from tests.steps.resuming import cursor_of, saved, write, written
from tests.steps.stepping import again

pytestmark = pytest.mark.django_db(transaction=True)


def fail() -> None:
    """Swallow an error that is of no table: PostgreSQL rolls back the transaction for it, and COMMIT says nothing."""
    with suppress(DatabaseError), connection.cursor() as cursor:
        cursor.execute("SELECT nothing FROM nowhere")


def test_after_a_failed_statement_that_was_swallowed_the_cursor_is_what_the_database_has() -> None:
    message = held()
    saved(message, 1)
    message = again(message)
    with message.resumable_step("count") as step:
        with suppress(DatabaseError), transaction.atomic():  # PostgreSQL alone commits nothing
            write(2)
            step.save(2)
            fail()
        assert step.cursor == (2 if written() else 1)
        step.save(step.cursor)


def test_in_a_thread_of_async_code_too() -> None:
    message = held()

    def write_slice(step: Any) -> None:
        with suppress(DatabaseError), transaction.atomic():
            write(2)
            step.save(2)
            fail()

    async def handle() -> tuple[Any, list[Any]]:
        async with message.aresumable_step("count") as step:
            await sync_to_async(write_slice)(step)
            return await sync_to_async(lambda: step.cursor)(), await sync_to_async(written)()

    cursor, rows = async_to_sync(handle)()
    assert (cursor, rows) in [(2, [2]), (None, [])]


def test_a_connection_is_left_as_it_was() -> None:
    message = held()
    before = list(connection.execute_wrappers)
    assert cursor_of(message) is None
    Message.objects.count()
    assert connection.execute_wrappers == before


if settings.TEST_DATABASE != "sqlite":  # which has one writer, and no deadlocks

    @contextmanager
    def deadlock() -> Iterator[Callable[[], None]]:
        """Give what makes the caller's transaction the victim of a deadlock, and swallows that."""
        mine, theirs = waiting(queue="mine"), waiting(queue="theirs")
        ballast = [waiting(queue="ballast") for _ in range(50)]
        swallowed: list[OperationalError] = []

        def fall() -> None:
            mark([mine])
            crossing = other.begin(lambda: mark([mine]))
            try:
                list(Message.objects.select_for_update().filter(pk=theirs.pk))
            except OperationalError as error:
                swallowed.append(error)
            crossing.result(patience(60))
            other.commit()

        with aside() as other:
            other.open_transaction()
            other.do(lambda: (spare(), mark([theirs, *ballast])))
            yield fall
        assert len(swallowed) == 1

    def mark(messages: list[Message]) -> None:
        for message in messages:
            Message.objects.filter(pk=message.pk).update(worker_id=2)

    def spare() -> None:
        """Make this thread's transaction the one that the server spares; InnoDB spares who has written more."""
        if connection.vendor == "postgresql":
            with connection.cursor() as cursor:
                cursor.execute("SET LOCAL deadlock_timeout = '30s'")

    def test_after_a_deadlock_behind_the_save_the_cursor_is_what_the_database_has() -> None:
        message = held()
        saved(message, 1)
        message = again(message)
        with deadlock() as fall, message.resumable_step("count") as step:
            with suppress(DatabaseError), transaction.atomic():
                write(2)
                step.save(2)
                fall()
            assert (step.cursor, written()) == (1, [])
            step.save(3)
        assert cursor_of(again(message)) is None, "its block is done"

    def test_after_a_deadlock_before_the_save_nothing_of_the_slice_is_committed() -> None:
        message = held()

        def write_slice() -> None:
            with transaction.atomic():
                write(1)
                fall()
                step.save(2)

        with deadlock() as fall, message.resumable_step("count") as step:
            with pytest.raises((TransactionManagementError, DatabaseError)):
                write_slice()
            assert (step.cursor, written()) == (None, [])
            write_again(step)
        assert written() == [1]

    def write_again(step: Any) -> None:
        with transaction.atomic():
            write(1)
            step.save(2)
