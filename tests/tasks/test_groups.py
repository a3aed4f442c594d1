"""Tasks of a group, and tasks that are enqueued once in a time."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.test import override_settings

from django_dbqueue.models import Message, Once
from django_dbqueue.tasks import task_options
from django_dbqueue.tasks.compat import InvalidTask, TaskResultDoesNotExist, signal, task_backends
from django_dbqueue.testing import run_consumers

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _nothing_seen(jobs: Any) -> Iterator[None]:
    jobs.SEEN.clear()
    yield
    jobs.SEEN.clear()


def groups() -> list[str | None]:
    return [message.group for message in Message.objects.order_by("pk")]


def test_a_task_names_its_group_or_has_a_function_of_its_arguments_name_it(jobs: Any) -> None:
    jobs.book.enqueue()
    jobs.charge.enqueue(7)
    jobs.charge.enqueue(account=8, amount=1)
    jobs.charge.enqueue(0)
    jobs.add.enqueue(1, 2)
    assert groups() == ["ledger", "account-7", "account-8", None, None]


def test_apply_async_names_it_for_one_call(jobs: Any) -> None:
    jobs.charge.apply_async((7,), group="others")
    jobs.add.apply_async((1, 2), group="others")
    jobs.charge.apply_async((7,))
    assert groups() == ["others", "others", "account-7"]


def test_a_backend_may_name_one_for_all_its_tasks() -> None:
    options = {"default": {"BACKEND": "django_dbqueue.tasks.DBQueueBackend", "OPTIONS": {"group": "all"}}}
    with override_settings(TASKS=options):
        from tests.tasks_app import jobs

        jobs.add.enqueue(1, 2)
        jobs.book.enqueue()
    assert groups() == ["all", "ledger"]


@pytest.mark.django_db(transaction=True)
def test_they_run_in_their_order(jobs: Any) -> None:
    calls = [(jobs.charge, (account, amount), {}) for amount in range(5) for account in (7, 8)]
    assert task_backends["default"].enqueue_many(calls) == 10
    assert set(groups()) == {"account-7", "account-8"}
    assert len(run_consumers(["default"]).done) == 10
    for account in (7, 8):
        assert [amount for each, amount in jobs.SEEN if each == account] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("group", "error"),
    [
        (lambda *_: 17, "group must be a string or None, not int"),
        (lambda *_: "x" * 201, "group's name has 201 characters"),
        (lambda: "g", "its option group, a function of its arguments, raised TypeError"),
    ],
    ids=["a number", "too long", "takes no arguments"],
)
def test_what_a_function_can_not_name_is_refused_and_nothing_is_written(jobs: Any, group: Any, error: str) -> None:
    task = jobs.add
    task_options(group=group)(task.func)
    try:
        with override_settings(TASKS=task_backends.settings):
            with pytest.raises(InvalidTask, match=error):
                task.enqueue(1, 2)
            with pytest.raises(InvalidTask, match=error):
                task_backends["default"].enqueue_many([(task, (1, 2), {})])
    finally:
        del task.func._dbqueue_task_options
    assert not Message.objects.exists()


@pytest.mark.parametrize(
    ("how", "error"),
    [({"group": ""}, "group's name"), ({"once": ""}, "token once"), ({"once": "t", "once_for": 0}, "once_for")],
    ids=str,
)
def test_what_apply_async_can_not_take_is_refused(jobs: Any, how: dict[str, Any], error: str) -> None:
    with pytest.raises(InvalidTask, match=error):
        jobs.add.apply_async((1, 2), **how)
    assert not Message.objects.exists()


def test_once_gives_the_result_of_the_first_call(jobs: Any) -> None:
    heard: list[str] = []

    def note(task_result: Any, **_: Any) -> None:
        heard.append(task_result.id)

    signal("task_enqueued").connect(note)
    first = jobs.add.apply_async((1, 2), once="charge-17", once_for=timedelta(hours=1))
    waits = jobs.add.apply_async((3, 4), once="charge-17")
    assert (waits.id, waits.args, waits.status) == (first.id, [1, 2], "READY")
    run_consumers(["default"])
    ran = jobs.add.apply_async((3, 4), once="charge-17")
    assert (ran.id, ran.status, ran.return_value) == (first.id, "SUCCESSFUL", 3)
    Message.objects.all().purge()
    archived = jobs.add.apply_async((3, 4), once="charge-17")
    assert (archived.id, archived.status, archived.return_value) == (first.id, "SUCCESSFUL", 3)
    signal("task_enqueued").disconnect(note)
    assert (heard, Once.objects.count()) == ([first.id], 1)


def test_of_a_first_call_that_is_gone_there_is_no_result(jobs: Any) -> None:
    jobs.add.apply_async((1, 2), once="t")
    Message.objects.all().delete()
    with pytest.raises(TaskResultDoesNotExist):
        jobs.add.apply_async((1, 2), once="t")
    assert not Message.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_from_async_code_too(jobs: Any) -> None:
    async def go() -> list[str]:
        backend = task_backends["default"]
        return [(await backend.aenqueue(jobs.add, (n, 2), {}, once="t", group="g")).id for n in (1, 2)]

    assert len(set(async_to_sync(go)())) == 1
    assert groups() == ["g"]
