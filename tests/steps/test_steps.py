"""Steps: what a handler has done stays done, whoever runs the message next (P21)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection, transaction
from django.test import override_settings
from django.test.utils import CaptureQueriesContext

from django_dbqueue import LeaseLost, TransactionBroken, signals
from django_dbqueue.models import Message, Step
from tests.factories import QUEUE, claim_one, held, let_end, stuck, waiting
from tests.lifecycle.rollback import rolled_back
from tests.steps.stepping import Counted, again, block, steps

pytestmark = pytest.mark.django_db
transactional = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("result", [None, 0, "text", b"bytes", [1, {"a": None}], 2**70, ""], ids=repr)
def test_a_step_runs_once_and_later_attempts_get_what_it_returned(result: Any) -> None:
    message, work = held(), Counted(result)
    assert message.step("work", work) == result
    assert again(message).step("work", work) == result
    assert work.calls == 1


def test_the_first_attempt_gets_what_later_ones_get() -> None:
    message = held()
    first = message.step("pair", lambda: (1, 2))
    assert first == again(message).step("pair", Counted()) == [1, 2]


def test_arguments_are_passed_on() -> None:
    assert held().step("sum", lambda a, *, b: a + b, 1, b=2) == 3


def test_a_function_that_raises_is_not_remembered() -> None:
    message = held()
    with pytest.raises(ZeroDivisionError):
        message.step("divide", lambda: 1 // 0)
    assert again(message).step("divide", Counted(1)) == 1


def test_steps_are_found_by_name_and_not_by_place() -> None:
    message = held()
    assert [message.step(name, Counted(name)) for name in ("a", "b")] == ["a", "b"]
    message = again(message)
    assert [message.step(name, Counted(f"new {name}")) for name in ("b", "c", "a")] == ["b", "new c", "a"]


@pytest.mark.parametrize("names", [("Ä", "ä", "A", "a"), ("ß", "ss"), ("1", "01"), ("ﬀ", "ff")], ids=" ".join)
def test_names_that_collations_take_for_alike_are_all_different(names: tuple[str, ...]) -> None:
    message = held()
    for name in names:
        message.step(name, Counted(name))
    message = again(message)
    assert [message.step(name, Counted("new")) for name in names] == list(names)


@transactional
def test_the_rows_of_a_block_its_result_and_its_memory_are_one_commit() -> None:
    message = held()
    with pytest.raises(ZeroDivisionError):
        block(message, "book", lambda: waiting(queue="booked").pk // 0)
    assert (Message.objects.filter(queue="booked").count(), steps()) == (0, [])
    message = again(message)
    with message.step("book") as step:
        assert step.is_new
        step.result = {"booking": (waiting(queue="booked").pk,)}
    booked = Message.objects.get(queue="booked").pk
    assert step.result == {"booking": [booked]}
    with again(message).step("book") as step:
        assert (step.is_new, step.result) == (False, {"booking": [booked]})


@transactional
def test_a_block_holds_the_row_of_its_message_from_its_beginning() -> None:
    message = held()
    with CaptureQueriesContext(connection) as queries, message.step("book"):
        waiting()
    sent = [query["sql"] for query in queries]
    insert = next(n for n, sql in enumerate(sent) if "INSERT INTO" in sql and "_message" in sql and "_step" not in sql)
    lock = next(n for n, sql in enumerate(sent) if "claim_token" in sql and sql.lstrip().startswith("SELECT"))
    assert lock < insert
    if connection.vendor != "sqlite":
        assert "FOR UPDATE" in sent[lock]


LOST: dict[str, Callable[[Message], Any]] = {
    "settled": lambda message: message.ack(),
    "rescued": lambda message: (let_end(message), Message.objects.rescue()),
    "claimed by another": lambda message: (let_end(message), Message.objects.rescue(), claim_one()),
    "requeued": lambda message: Message.objects.filter(pk=message.pk).requeue(),
    "gone": lambda message: Message.objects.filter(pk=message.pk).delete(),
}
by_whatever = pytest.mark.parametrize("lose", LOST.values(), ids=LOST)


@by_whatever
def test_who_lost_the_claim_remembers_nothing_and_is_informed(lose: Callable[[Message], Any]) -> None:
    message = held()
    lost = []
    signals.lease_lost.connect(
        lambda **signal: lost.append((signal["message_id"], signal["verb"])), weak=False, dispatch_uid=1
    )
    try:
        with pytest.raises(LeaseLost, match=f"step of message {message.pk}"):
            message.step("work", lambda: lose(message) and None)
    finally:
        signals.lease_lost.disconnect(dispatch_uid=1)
    assert steps() == []
    assert lost == [(message.pk, "step")]
    assert message.lease_lost


@transactional
@by_whatever
def test_who_lost_the_claim_does_not_even_begin_a_block(lose: Callable[[Message], Any]) -> None:
    message = held()
    lose(message)
    with pytest.raises(LeaseLost), message.step("book"):
        waiting(queue="booked")
    assert (Message.objects.filter(queue="booked").exists(), steps()) == (False, [])


@transactional
def test_a_claim_that_the_block_itself_gives_up_undoes_its_rows() -> None:
    message = held()
    with pytest.raises(LeaseLost):
        block(message, "book", lambda: (waiting(queue="booked").pk, message.nack(delay=0)))
    assert (Message.objects.filter(queue="booked").exists(), steps()) == (False, [])
    assert Message.objects.get(pk=message.pk).status == "run"


@transactional
def test_a_step_in_the_callers_transaction_is_undone_with_it() -> None:
    message, work = held(), Counted(1)
    with rolled_back():
        message.step("work", work)
        with message.step("book") as step:
            step.result = waiting(queue="booked").pk
    assert (steps(), Message.objects.filter(queue="booked").exists()) == ([], False)
    message = again(message)
    with transaction.atomic():
        message.step("work", work)
    assert (work.calls, steps()) == (2, [("work", 1)])


@transactional
def test_a_block_whose_transaction_was_rolled_back_unnoticed_is_not_remembered() -> None:
    message = held()

    def lose_it() -> None:
        waiting(queue="booked")
        with connection.cursor() as cursor:
            cursor.execute("ROLLBACK")
            cursor.execute("BEGIN")

    with pytest.raises(TransactionBroken, match=f"step 'book' of message {message.pk} was not remembered"):
        block(message, "book", lose_it)
    assert (steps(), Message.objects.filter(queue="booked").exists()) == ([], False)


# What it costs


def test_a_message_without_steps_pays_no_statement(django_assert_num_queries: Any) -> None:
    message = held()
    with django_assert_num_queries(1):
        message.ack()
    assert "_steps_of_run" not in message.__dict__


def test_a_replay_of_a_thousand_steps_is_one_statement(django_assert_num_queries: Any) -> None:
    message = held()
    for n in range(1_000):
        message.step(f"step {n}", lambda n=n: n)
    message = again(message)
    with django_assert_num_queries(1):
        assert [message.step(f"step {n}", Counted()) for n in range(1_000)] == list(range(1_000))


def test_a_step_is_one_statement_behind_the_first(django_assert_num_queries: Any) -> None:
    message = held()
    message.step("first", Counted())
    with django_assert_num_queries(1):
        message.step("second", Counted())


# What becomes of steps


def test_steps_done_names_them_in_order_of_time() -> None:
    message = held()
    for name in ("z", "a", "m"):
        message.step(name, Counted())
        Step.objects.filter(name=name).update(at=f"2026-01-01 00:00:0{len(Step.objects.all())}+00:00")
    assert message.steps_done == ("z", "a", "m")
    assert waiting(queue="other").steps_done == ()


def test_the_archive_takes_no_steps_along() -> None:
    message = held()
    message.step("work", Counted())
    other = held()
    other.step("work", Counted())
    message.ack()
    assert Message.objects.archive(older_than=0) == 1
    assert [step.message_id for step in Step.objects.all()] == [other.pk]


def test_while_there_are_no_steps_the_archive_sends_one_statement_more(django_assert_num_queries: Any) -> None:
    held().ack()
    with CaptureQueriesContext(connection) as queries:
        assert Message.objects.archive(older_than=0) == 1
    assert sum("django_dbqueue_step" in query["sql"] for query in queries) == 1


@pytest.mark.parametrize("ack", [lambda m: m.ack(), lambda m: Message.objects.ack([m])], ids=["one", "many"])
def test_an_ack_that_removes_the_message_removes_its_steps(ack: Callable[[Message], Any]) -> None:
    with override_settings(DBQUEUE={"DEFAULTS": {"on_ack": "delete"}}):
        message = held()
        message.step("work", Counted())
        ack(message)
    assert (Message.objects.exists(), steps()) == (False, [])


def test_a_requeue_keeps_what_is_done() -> None:
    message = held()
    message.step("work", Counted(1))
    message.reject("broken")
    assert Message.objects.filter(pk=message.pk).requeue() == 1
    assert claim_one().step("work", Counted(2)) == 1


def test_new_content_starts_over() -> None:
    message = held(key="k")
    message.step("work", Counted(1))
    assert Message.objects.enqueue("new", queue=QUEUE, key="k", on_conflict="update").outcome == "updated"
    assert claim_one().step("work", Counted(2)) == 2


def test_an_attempt_that_is_rescued_finds_what_it_has_done() -> None:
    message = stuck()
    message.step("work", Counted(1))
    Message.objects.rescue()
    assert claim_one().step("work", Counted(2)) == 1
