"""What a resumable step refuses; and what becomes of a cursor besides being continued at (P21)."""

from __future__ import annotations

from contextlib import suppress

import pytest
from django.db import transaction
from django.test import override_settings

from django_dbqueue import InvalidStep, TransactionNotAllowed
from django_dbqueue.models import Message, Step
from tests.factories import QUEUE, claim_one, held
from tests.steps.resuming import Cut, count_to, cursor_of, saved, written
from tests.steps.stepping import Counted, again, steps

pytestmark = pytest.mark.django_db
transactional = pytest.mark.django_db(transaction=True)


@transactional
def test_with_autocommit_off_it_does_not_begin() -> None:
    message = held()
    transaction.set_autocommit(False)
    try:
        with pytest.raises(TransactionNotAllowed, match="'count' meets autocommit off"):
            count_to(1, message)
    finally:
        transaction.rollback()
        transaction.set_autocommit(True)
    assert (written(), steps()) == ([], [])


@transactional
def test_with_autocommit_off_in_its_block_nothing_is_saved_and_the_step_is_not_done() -> None:
    message = held()

    def switch_it_off() -> None:
        with message.resumable_step("count") as step:
            step.save(1)
            transaction.set_autocommit(False)
            with pytest.raises(TransactionNotAllowed, match=r"'count' meets autocommit off.* use atomic\(\)"):
                step.save(2)
            assert step.cursor == 1

    try:
        with pytest.raises(TransactionNotAllowed, match="'count' meets autocommit off"):
            switch_it_off()
        transaction.commit()
    finally:
        transaction.set_autocommit(True)
    assert [(row.kind, row.value) for row in Step.objects.all()] == [("cursor", 1)]


def test_a_cursor_that_is_not_json_or_too_large_is_refused_and_the_last_one_stays() -> None:
    message = held()
    with message.resumable_step("count") as step:
        step.save(1)
        with pytest.raises(
            InvalidStep, match=r"cursor of step 'count' of message .* can't be saved.*such as the last id"
        ):
            step.save(object())  # type: ignore[arg-type]
        with (
            override_settings(DBQUEUE={"MAX_PAYLOAD_BYTES": 2_000}),
            pytest.raises(InvalidStep, match=r"cursor of step 'count' .* 2,000"),
        ):
            step.save("x" * 2_001)
        assert step.cursor == 1


def test_nothing_is_saved_outside_the_block() -> None:
    message = held()
    with message.resumable_step("count") as step:
        step.result = "done"
    with pytest.raises(
        InvalidStep, match=r"save\(\) of step 'count' of message \d+ was called when its block was done"
    ):
        step.save(1)
    message = again(message)
    with message.resumable_step("count") as step, pytest.raises(InvalidStep, match=r"only if step\.is_new"):
        step.save(1)
    assert steps() == [("count", "done")]
    with suppress(Cut), message.resumable_step("cut") as step:
        raise Cut
    with pytest.raises(InvalidStep, match="its block was done"):
        step.save(1)


def test_a_step_in_progress_is_no_other_kind_of_step() -> None:
    message = held()
    with suppress(Cut), message.resumable_step("count") as step:
        with pytest.raises(InvalidStep, match="'inner' was called inside step 'count'"):
            message.step("inner", Counted())
        step.save(1)
        raise Cut
    message = again(message)
    assert message.steps_done == ()
    with pytest.raises(InvalidStep, match="remembers 'count' as a resumable step, not as a step"):
        message.step("count", Counted())


def test_a_step_that_was_done_as_another_kind_stays_done() -> None:
    message = held()
    message.step("count", Counted(5))
    with again(message).resumable_step("count") as step:
        assert (step.is_new, step.result) == (False, 5)


# What becomes of a cursor


def test_a_requeue_keeps_it() -> None:
    message = held()
    saved(message, 5)
    message.reject("broken")
    assert Message.objects.filter(pk=message.pk).requeue() == 1
    assert cursor_of(claim_one()) == 5


def test_new_content_starts_over() -> None:
    message = held(key="k")
    saved(message, 5)
    Message.objects.enqueue("new", queue=QUEUE, key="k", on_conflict="update")
    assert cursor_of(claim_one()) is None


def test_a_step_in_progress_that_is_forgotten_starts_over() -> None:
    message = held()
    saved(message, 5)
    assert Step.objects.forget(message.pk, "count")
    assert cursor_of(again(message)) is None


def test_the_archive_takes_no_cursor_along() -> None:
    message = held()
    saved(message, 5)
    message.ack()
    assert Message.objects.archive(older_than=0) == 1
    assert steps() == []


def test_the_step_knows_by_which_delivery_it_was_saved_last() -> None:
    message = held()
    saved(message, 5)
    message = again(message)
    saved(message, 6)
    step = Step.objects.get()
    assert (step.value, step.read_count, step.token) == (6, 2, message.claim.token)
