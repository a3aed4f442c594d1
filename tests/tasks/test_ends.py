"""Ends of tasks that need a sentence: no more attempts, too late, forgotten, too deep; and two claims of one."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from django_dbqueue.consumers import registry
from django_dbqueue.exceptions import MessageDropped, ResultForgotten, TaskExpired
from django_dbqueue.lifecycle.claimer import Claimer
from django_dbqueue.lifecycle.expired_rows import forget_results
from django_dbqueue.models import Message, MessageEvent, Result
from django_dbqueue.models.fields import DbNow
from django_dbqueue.sessions.django_session import session_of
from django_dbqueue.tasks.compat import InvalidTask, TaskResultDoesNotExist
from django_dbqueue.testing import run_consumers
from django_dbqueue.worker.delivery import Delivery
from django_dbqueue.worker.execution import execute
from tests.patience import patience

pytestmark = pytest.mark.django_db(transaction=True)
AT_ONCE = patience(10)
"""Seconds in which something is over that would take minutes if it were unbounded."""


def run(**how: Any) -> Any:
    return run_consumers("default", on_error="collect", **how)


@pytest.fixture
def claimed() -> Callable[[], Delivery]:
    """Claims the message as a worker does, whoever holds it."""
    consumer = registry.registered()["default"]

    def claim() -> Delivery:
        Message.objects.filter(status="run").update(available_at=DbNow())
        Message.objects.rescue("default")
        Message.objects.filter(status="n").update(available_at=DbNow())
        claimer = Claimer(Message, session_of("default"), "default")
        [one] = claimer.take(1, lease=60.0, max_reads=9)
        return Delivery(one, session_of("default"), consumer, consumer.resolved(), frozenset())

    return claim


@pytest.mark.parametrize("fails", [False, True], ids=["returns", "fails"])
def test_a_stale_run_of_a_task_that_ends_leaves_the_valid_one_alone(
    odd: Any, claimed: Callable[[], Delivery], fails: bool
) -> None:
    """Both are in one child: its first claim has expired, and it has claimed the message again."""
    odd.stand_aside.enqueue(fails=fails)
    stale = claimed()
    valid = claimed()
    assert stale.claim != valid.claim
    ended: list[str] = []
    odd.ASIDE.append(lambda: ended.append(execute(stale).verb))
    verdict = execute(valid)
    assert [*ended, verdict.verb] == (["nack", "nack"] if fails else ["ack", "ack"])
    assert "KeyError" not in verdict.error
    assert verdict.keeps_trace == fails


@pytest.mark.parametrize(("name", "attempts"), [("ValueError", 1), ("LookupError", 5)])
def test_a_backoff_that_returns_none_wants_no_more_attempts(odd: Any, name: str, attempts: int) -> None:
    result = odd.fail_with.enqueue(name)
    run(with_delayed=True)
    result.refresh()
    assert (result.status, result.attempts) == ("FAILED", attempts)
    assert {error.exception_class.__name__ for error in result.errors} == {name}
    assert f"{name}: as told" in result.errors[-1].traceback


def test_an_expired_task_has_why_it_was_never_run(jobs: Any) -> None:
    result = jobs.add.apply_async((1, 2), expires=-1)
    run()
    for _ in range(2):
        result.refresh()
        assert (result.status, result.attempts) == ("FAILED", 0)
        [error] = result.errors
        assert error.exception_class is TaskExpired
        assert error.traceback.startswith("Expired: it was not to be run after ")
        Message.objects.archive(older_than=0)


def test_a_dropped_task_has_its_reason(jobs: Any) -> None:
    result = jobs.fail.enqueue()
    run()
    Message.objects.all().drop_all("nobody wants it")
    result.refresh()
    assert [error.exception_class for error in result.errors] == [ValueError, MessageDropped]
    assert result.errors[-1].traceback == "nobody wants it\n"


def test_a_forgotten_result_raises_and_one_that_was_none_is_still_none(jobs: Any) -> None:
    forgotten, kept, none = jobs.add.enqueue(1, 2), jobs.add.enqueue(3, 4), jobs.nothing.enqueue()
    run()
    Result.objects.filter(pk=int(forgotten.id)).update(expires_at=DbNow())
    assert forget_results(session_of("default"), limit=100) == 1
    for _ in range(2):
        for each in (forgotten, kept, none):
            each.refresh()
        with pytest.raises(ResultForgotten, match=rf"add \(result {forgotten.id}\) returned a value, which was del"):
            _ = forgotten.return_value
        assert (kept.return_value, none.return_value) == (7, None)
        assert MessageEvent.objects.get(kind="result forgotten").message_id == int(forgotten.id)
        Message.objects.archive(older_than=0)


def test_a_result_whose_message_is_gone_is_forgotten_without_a_record(jobs: Any) -> None:
    result = jobs.add.enqueue(1, 2)
    run()
    Message.objects.filter(pk=int(result.id)).delete()
    Result.objects.update(expires_at=DbNow())
    assert forget_results(session_of("default"), limit=100) == 1
    assert not MessageEvent.objects.exists()


WRONG: list[tuple[str, list[Any]]] = [
    *[("nested", [5_000, kind]) for kind in ("list", "tuple", "dict")],
    *[("nested", [250, kind]) for kind in ("list", "dict")],
    *[("endless", [kind]) for kind in ("list", "dict")],
    ("doubled", [21]),
    ("doubled", [60]),
]


@pytest.mark.parametrize(("maker", "how"), WRONG, ids=str)
def test_what_cannot_be_written_out_is_refused_and_as_a_value_fails_at_once(
    odd: Any, maker: str, how: list[Any]
) -> None:
    began = time.monotonic()
    backend = odd.give.get_backend()
    value = odd.MAKERS[maker](*how)
    for refused in (
        lambda: odd.give.enqueue(value),
        lambda: odd.give.enqueue(how=value),
        lambda: odd.give.signature(value),
        lambda: backend.enqueue_many([(odd.give, (value,), {})]),
    ):
        with pytest.raises((ValueError, InvalidTask), match=r"odd_jobs\.give"):
            refused()
    for args in ({"in": value}, value if isinstance(value, dict) else {"in": value}):
        with pytest.raises(InvalidTask):  # and tells what it is without telling all of it
            backend.enqueue(odd.give, args, {})
    with pytest.raises(InvalidTask):
        backend.enqueue_many([value])
    assert not Message.objects.exists()
    result = odd.give.enqueue(maker, *how)
    run(with_delayed=True)
    result.refresh()
    assert (result.status, result.attempts) == ("FAILED", 1)
    assert result.errors[0].exception_class is TypeError
    assert time.monotonic() - began < AT_ONCE


def test_a_value_of_two_hundred_levels_is_kept(odd: Any) -> None:
    result = odd.give.enqueue("nested", 200, "list")
    run()
    result.refresh()
    assert result.return_value == odd.nested(200, "list")


def test_what_is_referenced_often_but_is_small_is_kept(odd: Any) -> None:
    result = odd.give.enqueue("doubled", 8)
    run()
    result.refresh()
    assert result.return_value == odd.doubled(8)
    assert odd.give.enqueue(odd.doubled(8), range(3)).args == [odd.doubled(8), [0, 1, 2]]


def test_a_range_without_end_is_no_argument(odd: Any) -> None:
    for wrong in (range(10**12), range(10**30)):
        with pytest.raises(InvalidTask, match=r"store the data elsewhere|can be counted"):
            odd.give.enqueue(wrong)


@pytest.mark.parametrize("digits", [19, 20, 5_000, 100_000])
def test_an_id_of_any_length_is_of_no_result(jobs: Any, digits: int) -> None:
    with pytest.raises(TaskResultDoesNotExist):
        jobs.add.get_result("1" * digits)
