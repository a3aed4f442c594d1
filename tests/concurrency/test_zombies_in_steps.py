"""A holder in a step beside who takes the message from it; and two who emit one event (P21)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest
from django.db import connection, transaction

from django_dbqueue import LeaseLost
from django_dbqueue.models import Event, Message, Step
from django_dbqueue.sessions.django_session import session_of
from django_dbqueue.steps.step_memory import Steps
from tests.concurrency.contenders import rescue
from tests.concurrency.steps import meet
from tests.factories import claim_one, held, row, stuck, waiting

pytestmark = pytest.mark.django_db(transaction=True)


def booking(message: Message, name: str = "book") -> Callable[[], str]:
    def book() -> str:
        with message.step(name) as step:
            step.result = waiting(queue="booked").queue
        return "booked"

    return book


def saving(message: Message) -> Callable[[], str]:
    def save() -> str:
        with message.resumable_step("import") as step:
            with transaction.atomic():
                waiting(queue="booked")
                step.save((step.cursor or 0) + 1)
            step.result = "imported"
        return "imported"

    return save


def booked() -> tuple[int, int]:
    """How many rows blocks have written, and how many steps are remembered."""
    return Message.objects.filter(queue="booked").count(), Step.objects.count()


def test_a_zombies_block_is_refused_and_its_rows_are_gone() -> None:
    """It waits for the lock of who takes its message away, and finds the claim gone."""
    message = stuck()
    met = meet(rescue, booking(message), waits=True)
    assert isinstance(met.second, LeaseLost)
    assert booked() == (0, 0)
    with claim_one().step("book") as step:
        step.result = waiting(queue="booked").queue
    assert booked() == (1, 1)


def test_a_zombie_whose_message_is_worked_on_by_another_remembers_nothing() -> None:
    zombie = stuck()
    Message.objects.rescue()
    holder = claim_one()
    met = meet(booking(holder), booking(zombie, "book elsewhere"))
    assert met.first == "booked"
    assert isinstance(met.second, LeaseLost)
    assert booked() == (1, 1)


def test_a_result_that_comes_after_a_rescue_is_refused() -> None:
    message = stuck()
    met = meet(rescue, lambda: message.step("charge", lambda: 5), waits=True)
    assert isinstance(met.second, LeaseLost)
    assert booked() == (0, 0)


def test_a_rescue_during_a_block_passes_the_message_by() -> None:
    message = stuck()
    met = meet(booking(message), rescue, waits=False)
    assert met.first == "booked"
    if connection.vendor != "sqlite":  # there the rescue comes after the commit
        assert met.second == 0
        assert row(message)["status"] == "run"
    assert booked() == (1, 1)


def test_a_zombies_slice_is_refused_and_its_rows_are_gone() -> None:
    """Its save waits for the lock of who takes its message away, and finds the claim gone."""
    message = stuck()
    met = meet(rescue, saving(message), waits=True)
    assert isinstance(met.second, LeaseLost)
    assert booked() == (0, 0)
    assert saving(claim_one())() == "imported"
    assert booked() == (1, 1)


def test_a_rescue_during_a_slice_passes_the_message_by() -> None:
    message = stuck()
    met = meet(saving(message), rescue, waits=False)
    assert met.first == "imported"
    if connection.vendor != "sqlite":  # there the rescue comes after the commit
        assert met.second == 0
        assert row(message)["status"] == "run"
    assert booked() == (1, 1)


def test_who_reads_the_cursor_again_waits_for_a_commit_that_is_on_its_way() -> None:
    """A connection broke at its commit, which the server may still carry out."""
    message = held()
    steps = Steps(message, session_of("default"))

    def save_and_be_cut_off() -> None:
        with suppress(LookupError), message.resumable_step("import") as step:
            step.save(1)
            raise LookupError

    met = meet(save_and_be_cut_off, lambda: steps.cursor("import"), waits=True)
    assert met.second == 1


def test_a_sleep_during_a_rescue_puts_nothing_to_sleep() -> None:
    message = stuck()
    met = meet(rescue, lambda: message.wait_for("paid:17"), waits=True)
    assert isinstance(met.second, LeaseLost)
    assert not Step.objects.exists()
    assert row(message)["crashes"] == 1


def test_of_two_who_emit_one_event_the_first_wins_and_the_second_waits_for_it() -> None:
    met = meet(lambda: Event.objects.emit("paid:17", 5), lambda: Event.objects.emit("paid:17", 6), waits=True)
    assert (met.first, met.second) == (True, False)
    assert Event.objects.get().payload == 5


def test_the_second_wins_if_the_first_is_rolled_back() -> None:
    met = meet(
        lambda: Event.objects.emit("paid:17", 5),
        lambda: Event.objects.emit("paid:17", 6),
        then_roll_back=True,
        waits=True,
    )
    assert (met.first, met.second) == (True, True)
    assert Event.objects.get().payload == 6
