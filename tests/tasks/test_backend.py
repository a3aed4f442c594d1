"""What the backend stores, refuses and gives back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from asgiref.sync import async_to_sync
from django.db import transaction
from django.test import override_settings
from django.utils import timezone

from django_dbqueue import InvalidMessage, TransactionNotAllowed, UndecodableMessage
from django_dbqueue.consumers import registry as consumer_registry
from django_dbqueue.models import Message, Result
from django_dbqueue.tasks import DBQueueBackend, await_for, wait_for
from django_dbqueue.tasks.compat import InvalidTask, TaskResultDoesNotExist, task_backends
from django_dbqueue.tasks.sources import task_consumers
from django_dbqueue.testing import run_consumers
from tests.tasks.hearing import hearing

pytestmark = pytest.mark.django_db


def backend(alias: str = "default") -> Any:
    return task_backends[alias]


@pytest.fixture
def enqueued() -> Iterator[list[Any]]:
    """What the signal told."""
    heard: list[Any] = []

    def note(sender: type, task_result: Any, **_: Any) -> None:
        heard.append((sender, task_result.id))

    with hearing(note, "task_enqueued"):
        yield heard


def test_a_task_is_a_message_of_its_queue(jobs: Any, enqueued: list[Any]) -> None:
    when = timezone.now() + timedelta(days=1)
    result = jobs.add.using(priority=7, queue_name="jobs", run_after=when).enqueue(1, b=2)
    row = Message.objects.get()
    assert (str(row.pk), row.queue, row.priority, row.available_at) == (result.id, "jobs", 7, when)
    assert row.payload == {"args": [1], "kwargs": {"b": 2}}
    assert row.headers == {"dbqueue.task": "tests.tasks_app.jobs.add"}
    assert row.max_reads == 3, "of the backend's options"
    assert (result.status, result.args, result.kwargs, result.attempts) == ("READY", [1], {"b": 2}, 0)
    assert result.enqueued_at == row.created_at
    assert enqueued == [(DBQueueBackend, result.id)]


@pytest.mark.parametrize("priority", ["7", None, timedelta(1), True, 1.5, pytest.param(10**5_000, id="huge")])
def test_a_priority_that_is_no_number_is_an_invalid_task(jobs: Any, priority: Any) -> None:
    with pytest.raises(InvalidTask, match="priority must be a whole number"):
        replace(jobs.add, priority=priority)


def test_what_no_worker_could_find_or_run_is_refused(jobs: Any) -> None:
    task = type(jobs.add)
    options = {"priority": 0, "queue_name": "default", "backend": "default", "takes_context": False, "run_after": None}
    for function in (jobs.nameless, jobs.Holder.static):
        with pytest.raises(InvalidTask, match="outside of classes and functions"):
            task(func=function, **options)
    with pytest.raises(InvalidTask, match="Remove the yield"):
        task(func=jobs.generate, **options)


def test_a_task_that_isnt_at_the_path_of_its_function_is_not_enqueued(jobs: Any, monkeypatch: Any) -> None:
    enqueue = [
        lambda: jobs.renamed.enqueue(1),
        lambda: jobs.renamed.signature(1),
        lambda: backend().enqueue_many([(jobs.renamed, (1,), {})]),
    ]
    for each in enqueue:
        with pytest.raises(InvalidTask, match=r"tests\.tasks_app\.jobs\.plain is a function, not a task"):
            each()
    monkeypatch.setattr(jobs.plain, "__module__", "__main__")
    with pytest.raises(InvalidTask, match="defined in the program that was started"):
        jobs.renamed.enqueue(1)
    assert not Message.objects.exists()


@pytest.mark.parametrize(
    "length", ["5", True, float("nan"), float("inf"), -float("inf"), pytest.param(10**5_000, id="huge"), timedelta.max]
)
def test_a_countdown_or_an_expiry_that_is_no_length_of_time_is_an_invalid_task(jobs: Any, length: Any) -> None:
    with pytest.raises(InvalidTask, match="countdown must be"):
        jobs.add.apply_async((1, 2), countdown=length)
    with pytest.raises(InvalidTask, match="expires must be"):
        jobs.add.apply_async((1, 2), expires=length)
    assert not Message.objects.exists()


@pytest.mark.parametrize("length", [-5, -0.5, timedelta(days=-1)])
def test_a_countdown_below_zero_is_due_at_once_as_in_celery(jobs: Any, length: Any) -> None:
    result = jobs.add.apply_async((1, 2), countdown=length)
    run_consumers()
    result.refresh()
    assert result.status == "SUCCESSFUL"


def test_a_wait_takes_seconds_or_a_timedelta_and_reports_what_it_saw(jobs: Any) -> None:
    result = jobs.add.enqueue(1, 2)
    with pytest.raises(TimeoutError, match=r"is still READY, and the timeout is over\. .* runs the queue default"):
        wait_for(result, timeout=timedelta(milliseconds=1))
    for wrong in ("5", float("nan"), True, -1):
        with pytest.raises(InvalidMessage, match="timeout must be"):
            wait_for(result, timeout=wrong)


def test_a_timeout_of_a_wait_has_the_last_error_of_what_is_retried(jobs: Any) -> None:
    result = jobs.fail_later.enqueue()
    run_consumers("jobs", on_error="collect")
    with pytest.raises(TimeoutError, match=r"still READY, .* last attempt failed with builtins\.ValueError; it waits"):
        wait_for(result, timeout=0.01)


@pytest.mark.django_db(transaction=True)
def test_a_wait_inside_a_transaction_is_refused_at_once_unless_the_task_has_ended(jobs: Any) -> None:
    earlier = jobs.add.enqueue(1, 2)
    run_consumers("default")
    with transaction.atomic():
        assert wait_for(earlier).return_value == 3
        result = jobs.add.enqueue(1, 2)
        with pytest.raises(TransactionNotAllowed, match="inside a transaction it would stay so: no worker sees"):
            wait_for(result)
        with pytest.raises(TransactionNotAllowed, match="inside a transaction"):
            async_to_sync(await_for)(result)


def test_moments_that_are_none_are_invalid_tasks(jobs: Any) -> None:
    naive, late = datetime(2030, 1, 1), datetime(9999, 12, 31, 23, 59, tzinfo=ZoneInfo("America/New_York"))  # noqa: DTZ001
    for wrong in (naive, late):
        with pytest.raises(InvalidTask, match="expires must be"):
            jobs.add.apply_async((1, 2), expires=wrong)
    for day in (date(2030, 1, 1), "2030-01-01"):
        with pytest.raises(InvalidTask, match="run_after, or eta, must be a datetime"):
            jobs.add.apply_async((1, 2), eta=day)
    assert not Message.objects.exists()
    first = jobs.add.apply_async((1, 2), expires=datetime(1, 1, 1, tzinfo=ZoneInfo("Asia/Tokyo")))
    run_consumers()
    first.refresh()
    assert first.status == "FAILED"
    assert not Result.objects.exists()


def test_arguments_of_the_wrong_kind_are_not_split(jobs: Any) -> None:
    wrongs: tuple[tuple[Any, Any], ...] = (("ab", {}), ({"a": 1}, {}), (5, {}), ((1, 2), [1]), ((1, 2), ""))
    for args, kwargs in wrongs:
        with pytest.raises(InvalidTask, match=r"its (kw)?args must be a"):
            jobs.add.apply_async(args, kwargs)
        with pytest.raises(InvalidTask, match=r"its (kw)?args must be a"):
            backend().enqueue_many([(jobs.add, args, kwargs)])
    for call in ((jobs.add, ()), jobs.add, (jobs.plain, (1,), {})):
        with pytest.raises(InvalidTask, match="triples of a task, its args and its kwargs"):
            backend().enqueue_many([call])
    assert not Message.objects.exists()


@pytest.mark.parametrize("payload", ["text", {"args": [1]}, {"args": 5, "kwargs": {}}, [1, 2], None], ids=repr)
def test_a_task_with_a_payload_of_another_kind_is_rejected_at_once(jobs: Any, payload: Any) -> None:
    message = Message.objects.enqueue(payload, headers={"dbqueue.task": "tests.tasks_app.jobs.add"})
    run_consumers(on_error="collect")
    result = jobs.add.get_result(str(message.pk))
    assert (result.status, result.args, result.kwargs, result.attempts) == ("FAILED", [], {}, 1)
    assert result.errors[0].exception_class is UndecodableMessage
    assert "The payload of a task is" in result.errors[0].traceback


def test_arguments_that_json_cant_express_are_named_with_their_task(jobs: Any) -> None:
    endless: list[Any] = []
    endless.append(endless)
    for wrong, kind in (({(1, 2): 3}, TypeError), ({1, 2}, TypeError), (b"\xff", ValueError), (endless, ValueError)):
        with pytest.raises(kind, match=r"tests\.tasks_app\.jobs\.add: JSON can't express these arguments: "):
            jobs.add.enqueue(wrong, 2)


def test_what_was_rolled_back_was_never_enqueued(jobs: Any) -> None:
    with transaction.atomic():
        jobs.add.enqueue(1, 2)
        transaction.set_rollback(True)
    assert not Message.objects.exists()


def test_a_result_is_found_by_its_id_and_only_by_its_own_backend(jobs: Any) -> None:
    result = jobs.add.using(backend="other").enqueue(1, 2)
    assert backend("other").get_result(result.id) == result
    for wrong in (result.id + "0", "x", "-1", "1" * 40, "١", ""):
        with pytest.raises(TaskResultDoesNotExist, match=f"Database 'default' has no result {wrong!r} of this backend"):
            backend("other").get_result(wrong)
    with pytest.raises(TaskResultDoesNotExist):
        backend().get_result(result.id)
    plain = Message.objects.enqueue({})
    with pytest.raises(TaskResultDoesNotExist):
        backend().get_result(str(plain.pk))


@pytest.mark.parametrize(
    "how",
    [{"priority": 101}, {"priority": True}, {"run_after": datetime(2030, 1, 1)}, {"queue_name": "unknown"}],  # noqa: DTZ001
    ids=str,
)
def test_what_cannot_be_is_refused_and_nothing_is_written(jobs: Any, how: dict[str, Any]) -> None:
    with pytest.raises(InvalidTask):
        jobs.add.using(**how).enqueue(1, 2)
    assert not Message.objects.exists()


@pytest.mark.parametrize("argument", [print, {1}, float("nan"), b"\xff", "\ud800"], ids=repr)
def test_arguments_that_json_cannot_express_are_refused(jobs: Any, argument: object) -> None:
    with pytest.raises((TypeError, ValueError, InvalidTask)):
        jobs.nothing.enqueue(argument)
    assert not Message.objects.exists()


def test_the_task_comes_before_its_queue_and_that_before_the_backend(jobs: Any) -> None:
    with override_settings(DBQUEUE={"QUEUES": {"jobs": {"max_reads": 9}}}):
        jobs.fail_once.using(queue_name="jobs").enqueue()
        jobs.add.using(queue_name="jobs").enqueue(1, 2)
        jobs.add.enqueue(1, 2)
    # None: what the queue says when the message is claimed
    assert list(Message.objects.order_by("pk").values_list("max_reads", flat=True)) == [1, None, 3]


def test_many_are_all_or_nothing(jobs: Any) -> None:
    calls = [(jobs.add, (number, 1), {}) for number in range(500)]
    assert backend().enqueue_many([*calls, (jobs.nothing.using(queue_name="jobs"), (), {"x": 1})]) == 501
    assert Message.objects.count() == 501
    with pytest.raises(InvalidTask):
        backend().enqueue_many([*calls, (jobs.add, ("\ud800", 1), {})])
    assert Message.objects.count() == 501
    jobs_run = run_consumers(["default", "jobs"])
    assert len(jobs_run.done) == 501
    assert Result.objects.count() == 500


@pytest.mark.django_db(transaction=True)
def test_from_async_code(jobs: Any) -> None:
    async def go() -> Any:
        result = await jobs.double.aenqueue(21)
        assert result.enqueued_at is not None, "read where queries are allowed"
        same = await jobs.double.aget_result(result.id)
        assert same == result
        with pytest.raises(TimeoutError, match="READY"):
            await await_for(result, timeout=0.01)
        return result

    result = async_to_sync(go)()
    assert async_to_sync(backend().aenqueue_many)([(jobs.double, (1,), {})]) == 1
    run_consumers("default")
    assert async_to_sync(await_for)(result, timeout=1).return_value == 42


def test_waiting_ends_with_the_result_or_its_time(jobs: Any) -> None:
    result = jobs.add.enqueue(1, 2)
    with pytest.raises(TimeoutError, match=f"result {result.id}"):
        wait_for(result, timeout=0.01)
    run_consumers("default")
    assert wait_for(result, timeout=1).return_value == 3


def test_celerys_words(jobs: Any) -> None:
    assert jobs.add.delay(1, 2).args == [1, 2]
    later = jobs.add.apply_async((1,), {"b": 2}, countdown=timedelta(hours=1), priority=3, queue="jobs")
    row = Message.objects.get(pk=int(later.id))
    assert (row.queue, row.priority) == ("jobs", 3)
    assert row.available_at > timezone.now() + timedelta(minutes=59)
    at = datetime(2040, 1, 1, tzinfo=UTC)
    assert Message.objects.get(pk=int(jobs.add.apply_async((1, 2), eta=at).id)).available_at == at
    with pytest.raises(ValueError, match="not both"):
        jobs.add.apply_async(countdown=1, eta=at)


def test_a_queue_that_the_backend_does_not_have_is_named_with_those_that_it_has(jobs: Any) -> None:
    with pytest.raises(InvalidTask) as raised:
        jobs.add.using(queue_name="mial").enqueue(1, 2)
    assert "Queue 'mial' is not valid" in str(raised.value)
    assert "TASKS['default']['QUEUES'], which has default, jobs, kept-short" in str(raised.value)
    assert not Message.objects.exists()


def test_a_queue_of_a_backend_has_a_consumer_unless_a_function_is_it(registry: dict[str, Any]) -> None:
    assert set(task_consumers()) == {"default", "jobs", "kept-short"}
    consumer_registry.consumer("jobs")(print)
    assert consumer_registry.registered()["jobs"].handler is print
    assert consumer_registry.registered()["default"].runner is not None
    assert "anything" not in consumer_registry.registered()
    assert consumer_registry.registered(["anything"])["anything"].runner is not None, "the other backend takes any name"
    assert consumer_registry.has_consumer("anything")
    with override_settings(TASKS={}):
        assert set(consumer_registry.registered(["anything"])) == {"jobs"}
