"""A handler that breaks its transaction or its connection: the test's own stays whole, or is told why not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from django.db import IntegrityError, close_old_connections, connection, transaction

from django_dbqueue.models import Message, Queue
from django_dbqueue.testing import LostTransaction, run_consumers
from tests.factories import QUEUE, MessageFactory, row
from tests.testing.conftest import Consumes
from tests.testing.troubles import effects, insert_twice


@pytest.mark.usefixtures("kind")
def test_an_error_of_the_database_that_ends_a_handler_leaves_the_test_as_it_was(consumes: Consumes) -> None:
    consumes(lambda _message: insert_twice())
    message = MessageFactory()
    with pytest.raises(IntegrityError):
        run_consumers(QUEUE)
    stored = row(message)
    assert (stored["status"], stored["read_count"]) == ("n", 1)
    Queue.objects.create(name="the test goes on")


@pytest.mark.django_db
def test_hooks_of_rows_that_a_broken_statement_took_with_it_do_not_run(consumes: Consumes) -> None:
    heard = []

    def handle(_message: Message) -> None:
        with transaction.atomic():
            Queue.objects.create(name="before")
            transaction.on_commit(lambda: heard.append("committed"))
        insert_twice()

    consumes(handle)
    MessageFactory()
    with pytest.raises(IntegrityError):
        run_consumers(QUEUE)
    assert (effects(), heard) == ([], [])


@pytest.mark.usefixtures("kind")
def test_an_error_of_the_database_behind_an_atomic_of_its_own_may_be_swallowed(consumes: Consumes) -> None:
    def handle(_message: Message) -> None:
        Queue.objects.create(name="before")
        try:
            with transaction.atomic():
                insert_twice()
        except IntegrityError:
            Queue.objects.create(name="after")

    consumes(handle)
    MessageFactory()
    assert len(run_consumers(QUEUE).done) == 1
    assert effects() == ["after", "before"]


def _swallow(_message: Message) -> None:
    with suppress(IntegrityError):
        insert_twice()


@pytest.mark.django_db
@pytest.mark.parametrize("on_error", ["raise", "collect"])
def test_a_swallowed_error_that_broke_the_tests_transaction_is_reported(consumes: Consumes, on_error: Any) -> None:
    consumes(_swallow)
    MessageFactory()
    with pytest.raises(LostTransaction, match=r"caught an error of the database and went on.*atomic\(\) of its own"):
        run_consumers(QUEUE, on_error=on_error)
    assert effects() == []
    Queue.objects.create(name="the test goes on")


@pytest.mark.django_db(transaction=True)
def test_a_swallowed_error_undoes_its_own_statement_only_where_commits_are_real(consumes: Consumes) -> None:
    consumes(_swallow)
    MessageFactory()
    assert len(run_consumers(QUEUE).done) == 1
    assert effects() == ["twice"]


@pytest.mark.usefixtures("kind")
def test_what_a_handler_leaves_open_is_rolled_back_and_nothing_else(consumes: Consumes) -> None:
    def handle(_message: Message) -> None:
        Queue.objects.create(name="before")
        transaction.atomic().__enter__()
        Queue.objects.create(name="left open")
        transaction.atomic().__enter__()
        transaction.on_commit(lambda: Queue.objects.create(name="hook") and None)

    consumes(handle)
    MessageFactory()
    depth = list(connection.savepoint_ids)
    assert len(run_consumers(QUEUE).done) == 1
    assert effects() == ["before"]
    assert connection.savepoint_ids == depth
    with transaction.atomic():
        Queue.objects.create(name="the test goes on")


def _close_old(_message: Message) -> None:
    close_old_connections()


def _close(_message: Message) -> None:
    connection.close()


@pytest.mark.usefixtures("kind")
@pytest.mark.parametrize("handler", [_close_old, _close])
def test_a_handler_may_close_its_connection(consumes: Consumes, handler: Callable[[Message], None]) -> None:
    def handle(message: Message) -> None:
        Queue.objects.create(name="before")
        handler(message)
        Queue.objects.create(name="after")

    consumes(handle)
    MessageFactory()
    assert len(run_consumers(QUEUE).done) == 1
    assert effects() == ["after", "before"]
    assert "close" not in vars(connection._connections[connection._alias])  # type: ignore[attr-defined]


@pytest.fixture
def as_in_a_test_case(transactional_db: None) -> Iterator[None]:
    """A transaction around the test, like TestCase's, whose loss the next test doesn't notice."""
    around: Any = transaction.atomic()
    around._from_testcase = True
    around.__enter__()
    yield
    raw, connection.connection, connection.in_atomic_block = connection.connection, None, False
    with suppress(Exception):  # a test may have closed it
        raw.close()


@pytest.mark.usefixtures("as_in_a_test_case")
@pytest.mark.parametrize("how", ["COMMIT", "ROLLBACK", "closed"])
def test_a_handler_that_ends_the_tests_transaction_is_reported(consumes: Consumes, how: str) -> None:
    def handle(_message: Message) -> None:
        if how == "closed":
            connection.connection.close()
        else:
            with connection.cursor() as cursor:
                cursor.execute(how)

    consumes(handle)
    MessageFactory()
    with pytest.raises(LostTransaction, match=r"ended the transaction that the test lives in.*transactional_db"):
        run_consumers(QUEUE)


def _leave_autocommit_off() -> None:
    transaction.set_autocommit(False)
    Queue.objects.create(name="left open")


def _close_beneath() -> None:
    connection.ensure_connection()
    connection.connection.close()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("leave", [_leave_autocommit_off, _close_beneath])
def test_a_connection_that_a_handler_leaves_broken_is_put_right_where_commits_are_real(
    consumes: Consumes, leave: Callable[[], None]
) -> None:
    consumes(lambda _message: leave())
    MessageFactory.create_batch(2)
    assert len(run_consumers(QUEUE).done) == 2
    assert effects() == []
    assert connection.get_autocommit()


@pytest.mark.django_db
def test_what_breaks_in_a_hook_is_reported_too(consumes: Consumes) -> None:
    def handle(message: Message) -> None:
        transaction.on_commit(lambda: _swallow(message))

    consumes(handle)
    MessageFactory()
    with pytest.raises(LostTransaction):
        run_consumers(QUEUE)
    Queue.objects.create(name="the test goes on")
