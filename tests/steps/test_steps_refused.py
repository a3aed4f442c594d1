"""Steps that can't be remembered, or not as they are called: each is refused with a sentence (P21)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.test import override_settings

from django_dbqueue import InvalidStep
from django_dbqueue.models import Message, Step
from tests.factories import held, waiting
from tests.steps.stepping import Counted, block, steps

if TYPE_CHECKING:
    pass

pytestmark = pytest.mark.django_db
transactional = pytest.mark.django_db(transaction=True)


def test_a_name_used_twice_in_one_run_is_an_error() -> None:
    message = held()
    message.step("work", Counted())
    with pytest.raises(InvalidStep, match=f"message {message.pk} uses the name 'work' twice in one run"):
        message.step("work", Counted())
    with pytest.raises(InvalidStep, match="twice"), message.step("work"):
        pytest.fail("not to be reached")


@pytest.mark.parametrize("name", ["", " a", "a ", "a\n", "x" * 201, "a\0b", "\ud800", None, 3], ids=repr)
def test_a_name_that_some_database_could_not_keep_is_refused(name: Any) -> None:
    work = Counted()
    with pytest.raises(InvalidStep, match="name of a step"):
        held().step(name, work)
    assert work.calls == 0


def test_a_result_that_is_not_json_is_refused_with_a_sentence() -> None:
    message = held()
    with pytest.raises(InvalidStep, match=r"result of step 'work' of message .* can't be remembered.*such as an id"):
        message.step("work", object)
    with pytest.raises(InvalidStep, match="can't be remembered"):
        block(message, "book", lambda: waiting(queue="booked").pk * float("nan"))
    assert (steps(), Message.objects.filter(queue="booked").exists()) == ([], False)


def test_a_result_over_the_limit_is_refused() -> None:
    with (
        override_settings(DBQUEUE={"MAX_PAYLOAD_BYTES": 2_000}),
        pytest.raises(InvalidStep, match=r"step 'work' .* can't be remembered.* 2,000"),
    ):
        held().step("work", lambda: "x" * 2_001)
    assert steps() == []


def test_a_step_inside_a_step_is_an_error_that_names_both() -> None:
    message = held()
    with pytest.raises(InvalidStep, match="'inner' was called inside step 'outer'"):
        message.step("outer", lambda: message.step("inner", Counted()))
    with pytest.raises(InvalidStep, match="'inner' was called inside step 'block'"), message.step("block"):
        message.step("inner", Counted())
    message.step("after", Counted())
    assert steps() == [("after", None)]


@transactional
def test_a_step_of_another_message_inside_a_step_is_none_inside_itself() -> None:
    one = held()
    other = held()
    with one.step("book"):
        other.step("book", Counted())
    assert [step.message_id for step in Step.objects.order_by("message_id")] == [one.pk, other.pk]


def test_a_coroutine_function_is_refused_with_what_to_call_instead() -> None:
    async def work() -> None:
        """Never run."""

    with pytest.raises(InvalidStep, match=r"await message\.astep"):
        held().step("work", work)
    with pytest.raises(InvalidStep, match=r"the function of step 'work' of message .* a coroutine that nobody awaited"):
        held(queue="other").step("work", lambda: work())
    with pytest.raises(InvalidStep, match=r"step 'work' .* a list with a generator that nobody ran to its end"):
        held(queue="third").step("work", lambda: [(letter for letter in "ab")])  # type: ignore[arg-type,return-value]
    with pytest.raises(InvalidStep, match=r"step 'work' .* a zip that nobody ran to its end"):
        held(queue="fourth").step("work", lambda: zip("a", "b", strict=True))  # type: ignore[arg-type,return-value]
