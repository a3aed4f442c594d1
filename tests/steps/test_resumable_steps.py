"""Resumable steps: one that is cut off continues at its cursor, one commit with the rows of its slice (P21)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from contextvars import Context
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.db import connection, transaction

from django_dbqueue import LeaseLost
from django_dbqueue.models import Message, Step
from tests.factories import claim_one, held, stuck
from tests.lifecycle.rollback import rolled_back
from tests.of_types import VALUES, as_seen
from tests.steps.resuming import Cut, count_to, write, written
from tests.steps.stepping import Counted, again, steps
from tests.steps.test_steps import by_whatever

pytestmark = pytest.mark.django_db
transactional = pytest.mark.django_db(transaction=True)


@transactional
def test_a_step_that_is_cut_off_continues_at_its_cursor_and_each_slice_is_written_once() -> None:
    message = held()
    for cut_at, cursor in ((2, 2), (2, 2), (4, 4)):
        with pytest.raises(Cut):
            count_to(6, message, cut_at=cut_at)
        assert (written(), steps()) == ([*range(cursor)], [("count", cursor)])
        message = again(message)
    assert count_to(6, message) == "counted to 6"
    assert count_to(6, again(message)) == "counted to 6"
    assert (written(), steps()) == ([0, 1, 2, 3, 4, 5], [("count", "counted to 6")])


def test_one_that_is_done_is_not_new_and_has_no_cursor() -> None:
    message = held()
    with message.resumable_step("count") as step:
        assert (step.is_new, step.cursor, step.result) == (True, None, None)
        step.save(1)
        step.result = "done"
    assert (step.cursor, step.result) == (None, "done")
    with again(message).resumable_step("count") as step:
        assert (step.is_new, step.cursor, step.result) == (False, None, "done")


def test_the_cursor_has_its_type_at_once_and_in_the_next_attempt() -> None:
    message = held()
    with suppress(Cut), message.resumable_step("typed") as step:
        step.save([*VALUES])
        assert as_seen(step.cursor) == as_seen([*VALUES])
        step.save((1, 2))
        assert step.cursor == [1, 2], "as the next attempt will get it"
        step.save([*VALUES])
        raise Cut
    with again(message).resumable_step("typed") as step:
        assert as_seen(step.cursor) == as_seen([*VALUES])


def test_a_cursor_may_be_set_back_to_the_beginning() -> None:
    message = held()
    with suppress(Cut), message.resumable_step("count") as step:
        step.save(5)
        step.save(None)
        raise Cut
    with again(message).resumable_step("count") as step:
        assert (step.is_new, step.cursor) == (True, None)


# The fence


@transactional
@by_whatever
def test_who_lost_the_claim_saves_nothing_and_the_rows_of_the_slice_are_gone(lose: Callable[[Message], Any]) -> None:
    message = held()

    def lose_it_in_the_second_slice() -> None:
        with message.resumable_step("count") as step:
            for number in range(3):
                if number == 1:
                    lose(message)
                with transaction.atomic():
                    write(number)
                    step.save(number)

    with pytest.raises(LeaseLost, match=f"step of message {message.pk}"):
        lose_it_in_the_second_slice()
    assert (written(), steps()) == ([0], [("count", 0)])
    assert message.lease_lost


@by_whatever
def test_who_lost_the_claim_does_not_finish_the_step_either(lose: Callable[[Message], Any]) -> None:
    message = held()

    def lose_it_at_the_end() -> None:
        with message.resumable_step("count") as step:
            step.save(1)
            lose(message)
            step.result = "done"

    with pytest.raises(LeaseLost):
        lose_it_at_the_end()
    assert steps() == [("count", 1)]


@transactional
def test_a_zombie_does_not_move_the_cursor_of_the_next_holder() -> None:
    zombie = stuck()

    def another() -> None:
        Message.objects.rescue()
        with pytest.raises(Cut):
            count_to(4, claim_one(), cut_at=3)

    def be_late() -> None:
        with zombie.resumable_step("count") as step:
            step.save(1)
            Context().run(another)  # as in another process, it is inside no step
            step.save(2)

    with pytest.raises(LeaseLost):
        be_late()
    assert (written(), steps()) == ([1, 2], [("count", 3)])


# Transactions


@transactional
def test_a_save_that_is_rolled_back_is_none() -> None:
    message = held()
    with message.resumable_step("count") as step:
        step.save(1)
        with rolled_back():
            step.save(2)
            assert step.cursor == 2
        assert step.cursor == 1
        with transaction.atomic():
            step.save(3)
            with rolled_back():
                step.save(4)
            assert step.cursor == 3
        assert step.cursor == 3
        with rolled_back():
            step.save(4)
            with rolled_back():
                step.save(5)
            assert step.cursor == 4, "read in the transaction"
        assert step.cursor == 3, "read again after it"
        assert [(row.kind, row.value) for row in Step.objects.all()] == [("cursor", 3)]


@transactional
def test_a_save_is_undone_with_a_savepoint_that_was_made_by_hand() -> None:
    message = held()
    with message.resumable_step("count") as step:
        step.save(1)
        with transaction.atomic():
            beginning = transaction.get_connection().savepoint()
            step.save(2)
            transaction.savepoint_rollback(beginning)
            assert step.cursor == 1
            step.save(3)
            behind = transaction.get_connection().savepoint()
            transaction.savepoint_rollback(behind)
            assert step.cursor == 3, "it was saved before the savepoint"
            step.save(4)
            transaction.savepoint_rollback(behind)
        assert step.cursor == 3 == Step.objects.get().value


@transactional
def test_a_first_save_that_is_rolled_back_leaves_no_cursor() -> None:
    message = held()
    with message.resumable_step("count") as step:
        with rolled_back():
            step.save(1)
        assert (step.cursor, Step.objects.count()) == (None, 0)
        step.save(2)
        assert step.cursor == 2


@transactional
def test_in_the_callers_transaction_all_of_it_is_undone_together() -> None:
    message = held()
    with rolled_back():
        count_to(3, message)
    assert (written(), steps()) == ([], [])
    assert count_to(3, again(message)) == "counted to 3"
    assert written() == [0, 1, 2]


# What it costs


@transactional
def test_a_save_is_one_statement_and_one_without_saves_is_a_step_like_any(django_assert_num_queries: Any) -> None:
    message = held()
    message.step("first", Counted())
    with django_assert_num_queries(1), message.resumable_step("no saves"):
        pass
    with django_assert_num_queries(3), message.resumable_step("two saves") as step:
        step.save(1)
        step.save(2)
        assert step.cursor == 2
    with django_assert_num_queries(1 + 3), message.resumable_step("in transactions") as step:
        with transaction.atomic():
            step.save(1)
        assert step.cursor == 1, "its commit was heard of, so nothing is read"
    assert connection.in_atomic_block is False


# Async code


@transactional
def test_async_code_saves_and_continues_as_well() -> None:
    def write_slice(step: Any, number: int) -> None:
        with transaction.atomic():
            write(number)
            step.save(number + 1)

    async def count(message: Message, end: int) -> Any:
        async with message.aresumable_step("count") as step:
            if step.is_new:
                for number in range(step.cursor or 0, end):
                    await sync_to_async(write_slice)(step, number)
                    assert step.cursor == number + 1
                if end == 2:
                    raise Cut
                await step.asave("last")
                step.result = step.cursor
        return step.result

    message = held()
    with pytest.raises(Cut):
        async_to_sync(count)(message, 2)
    assert steps() == [("count", 2)]
    message = again(message)
    assert async_to_sync(count)(message, 4) == "last"
    assert async_to_sync(count)(again(message), 9) == "last"
    assert written() == [0, 1, 2, 3]
