"""Tasks with a cron: who finds them, what is enqueued at a due time, and what is refused before a worker starts."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

import pytest
from django.core.checks import run_checks
from django.db import Error, connection
from django.test import override_settings

from django_dbqueue import InvalidSchedule, consumer
from django_dbqueue.checks import check_project
from django_dbqueue.consumers import registry as consumer_registry
from django_dbqueue.envelope import QUEUE_NAME
from django_dbqueue.models import Message, Result, Schedule
from django_dbqueue.tasks import DBQueueBackend, DBQueueTask, task_options
from django_dbqueue.tasks.compat import HOME, Task
from django_dbqueue.tasks.task_schedules import log_unimportable, name_of
from tests.schedules.timetables import HOURLY, Worker, hourly, last_check_was, plan, sent, stands
from tests.servers.private import free_port
from tests.tasks.running import run

pytestmark = pytest.mark.django_db
PATH = f"{__name__}.nightly"


def nightly(days: int = 1) -> int:
    return days


def needy(days: int) -> int:
    return days


def contextual(context: Any, days: int = 2) -> int:
    return days


Make = Callable[..., Any]


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch, registry: dict[str, Any]) -> Make:
    """A task of one of the functions above, with a cron, as this module has it."""

    def made(function: Any = nightly, *, cron: str = HOURLY, takes_context: bool = False, **options: Any) -> Any:
        monkeypatch.setattr(function, "_dbqueue_task_options", {}, raising=False)
        task = DBQueueTask(func=function, takes_context=takes_context, queue_name="jobs")
        task_options(cron=cron, timezone="UTC", **options)(task)
        monkeypatch.setattr(sys.modules[__name__], function.__name__, task)
        return task

    return made


def plans() -> list[Any]:
    return consumer_registry.plans()


def test_at_a_due_time_it_is_a_task_as_any_other_and_enqueued_once_by_two_workers(make: Make) -> None:
    make(max_attempts=7, lease=90, group="reports", missed="all")
    first, second = Worker(*plans()), Worker(*plans())
    first.check()
    since = last_check_was(timedelta(hours=2), PATH)
    for worker in (first, second, first, second):
        worker.check()
    due = hourly(since, datetime.now(UTC))
    assert sent(PATH) == due
    messages = list(Message.objects.order_by("pk"))
    for message, moment in zip(messages, due, strict=True):
        assert message.headers == {
            "dbqueue.task": PATH,
            "dbqueue.schedule": PATH,
            "dbqueue.due": moment.isoformat(),
        }
        assert (message.queue, message.payload) == ("jobs", {"args": [], "kwargs": {}})
        assert (message.max_reads, message.lease_seconds, message.group) == (7, 90, "reports")
    assert stands(PATH).last_message_id == messages[-1].pk
    run("jobs")
    assert [row.value for row in Result.objects.all()] == [1] * len(due)


def test_the_keywords_of_a_task_and_its_context_do_too(registry: dict[str, Any], monkeypatch: Any) -> None:
    made = DBQueueTask(func=contextual, takes_context=True, queue_name="jobs", cron=HOURLY, timezone="Europe/Berlin")
    monkeypatch.setattr(sys.modules[__name__], "contextual", made)
    _ = made.using(queue_name="default")  # of another queue: the schedule is the task's
    [plan] = plans()
    assert (plan.name, plan.queue, plan.cron.timezone, plan.missed) == (
        made.module_path,
        "jobs",
        "Europe/Berlin",
        "latest",
    )


def test_run_now_enqueues_it_and_names_who(make: Make) -> None:
    make()
    [plan] = plans()
    message = Schedule.objects.run_now(PATH, by="ann", plan=plan)
    assert (message.outcome, message.queue) == ("created", "jobs")
    assert (message.headers["dbqueue.task"], message.headers["dbqueue.run_by"]) == (PATH, "ann")


def test_who_hooks_into_enqueue_sees_it_and_whoever_raises_there_leaves_nothing(
    make: Make, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    make()
    worker = Worker(*plans())
    worker.check()
    before = last_check_was(timedelta(hours=1), PATH)
    enqueue, calls = Task.enqueue, []

    def watched(self: Any, *args: Any, **kwargs: Any) -> Any:
        calls.append((args, kwargs))
        result = enqueue(self, *args, **kwargs)
        if len(calls) < 3:
            raise RuntimeError("a receiver raises")
        return result

    monkeypatch.setattr(Task, "enqueue", watched)
    for number in range(2):
        worker.check()
        assert (sent(PATH), stands(PATH).last_due) == ([], before), number
    assert caplog.text.count("can't be enqueued, retrying") == 1
    assert "a receiver raises" in caplog.text
    worker.check()
    assert (len(sent(PATH)), calls) == (1, [((), {})] * 3)


class Watching(DBQueueBackend):
    """Somebody's subclass, with the signature that Django documents."""

    calls: ClassVar[list[str]] = []

    def enqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
        self.calls.append(task.name)
        return super().enqueue(task, args, kwargs)


def test_a_subclass_of_the_backend_sees_each_call_once(make: Make) -> None:
    task = make()
    Watching.calls.clear()
    with override_settings(TASKS={"default": {"BACKEND": f"{__name__}.Watching", "QUEUES": []}}):
        worker = Worker(*plans())
        worker.check()
        last_check_was(timedelta(hours=1), PATH)
        worker.check()
        assert (len(sent(PATH)), Watching.calls) == (1, ["nightly"])
        task.apply_async(group="reports")
    assert (Watching.calls, Message.objects.filter(group_name="reports").count()) == (["nightly"] * 2, 1)


def ask_for_what_is_not_there(*_: Any, **__: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM no_such_table")


def end_the_process(*_: Any, **__: Any) -> None:
    sys.exit(3)


@pytest.mark.parametrize("code", [ask_for_what_is_not_there, end_the_process])
def test_what_the_code_of_a_task_asks_of_the_database_or_ends_delays_no_other_schedule(
    make: Make, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, code: Callable[..., None]
) -> None:
    make()
    worker = Worker(*plans(), plan("z"))
    worker.check()
    for name in (PATH, "z"):
        last_check_was(timedelta(hours=1), name)
    monkeypatch.setattr(Task, "enqueue", code)
    for _ in range(2):
        worker.check()
        assert (sent(PATH), len(sent("z"))) == ([], 1)
    assert caplog.text.count("can't be enqueued, retrying") == 1


@pytest.mark.django_db(transaction=True)
@pytest.mark.skipif("sqlite" in connection.vendor, reason="SQLite has no server")
def test_a_database_that_answers_no_more_is_the_loops_business(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    make()
    worker = Worker(*plans())
    worker.check()
    last_check_was(timedelta(hours=1), PATH)

    def lose_the_server(self: Any, *args: Any, **kwargs: Any) -> Any:
        monkeypatch.setitem(connection.settings_dict, "PORT", str(free_port()))
        connection.connection.close()
        ask_for_what_is_not_there()

    monkeypatch.setattr(Task, "enqueue", lose_the_server)
    with pytest.raises(Error):
        worker.check()


def wants_an_account(account: str) -> str:
    return account


@pytest.mark.parametrize(
    ("function", "options", "why"),
    [
        (needy, {}, r"its cron gives it no arguments, so each needs a default \(missing a required argument: 'days'\)"),
        (nightly, {"group": wants_an_account}, "its option group, a function of its arguments, raised TypeError"),
    ],
)
def test_what_no_worker_could_enqueue_is_an_error_before_one_starts(
    make: Make, function: Any, options: dict[str, Any], why: str
) -> None:
    path = make(function, **options).module_path
    with pytest.raises(InvalidSchedule, match=why):
        plans()
    [error] = [each for each in check_project() if each.id == "dbqueue.E006"]
    assert f"The schedule of the task {path} can't be used." in error.msg


@pytest.mark.django_db(transaction=True)
def test_what_its_group_asks_of_the_database_is_no_error_before_there_are_tables(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    make(group=ask_for_what_is_not_there)
    assert [each for each in check_project() if each.is_serious()] == []
    worker = Worker(*plans(), plan("z"))
    worker.check()
    for name in (PATH, "z"):
        last_check_was(timedelta(hours=1), name)
    worker.check()
    assert (sent(PATH), len(sent("z"))) == ([], 1)
    assert "its option group, a function of its arguments, raised" in caplog.text


def test_a_function_with_a_cron_that_is_no_task_is_an_error(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    task = make()
    monkeypatch.setattr(sys.modules[__name__], "nightly", task.func)
    with pytest.raises(InvalidSchedule, match="nightly has a cron, but can't be enqueued: it is no task"):
        plans()


def test_two_schedules_of_one_name_are_refused(make: Make) -> None:
    make()
    consumer(PATH, cron=HOURLY)(print)
    with pytest.raises(InvalidSchedule, match=f"Two schedules are named '{PATH}'"):
        plans()


def test_where_the_backend_is_another_one_there_are_no_schedules_of_tasks(make: Make) -> None:
    make()
    with override_settings(TASKS={"default": {"BACKEND": f"{HOME}.backends.dummy.DummyBackend", "QUEUES": []}}):
        assert plans() == []


def test_a_module_of_tasks_that_cannot_be_imported_is_warned_of_and_stops_no_worker(
    registry: dict[str, Any], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, settings: Any
) -> None:
    settings.INSTALLED_APPS = [*settings.INSTALLED_APPS, "tests.sick_tasks_app"]
    [warning] = [each for each in run_checks() if each.id == "dbqueue.W025"]
    assert warning.msg == (
        "tests.sick_tasks_app.tasks can't be imported, so no task in it is scheduled: RuntimeError: half a release"
    )
    assert [each for each in check_project() if each.is_serious()] == []
    assert plans() == []
    assert caplog.text == "", "who silences the warning, where only workers have what it needs, reads nothing of it"
    log_unimportable()
    assert caplog.text.count("tests.sick_tasks_app.tasks can't be imported, so no task in it is scheduled") == 1


@pytest.mark.parametrize("path", ["_shop.tasks.nightly", "shop.täglich.nightly", f"shop.{'x' * 70}.nightly"])
def test_a_path_that_no_schedule_can_have_has_a_name_of_its_own(path: str) -> None:
    name = name_of(path)
    assert name != name_of(f"a{path}")
    assert len(name) <= 64
    assert name.partition(":")[0].endswith("nightly")
    assert name_of("shop.tasks.nightly") == "shop.tasks.nightly"
    assert QUEUE_NAME.match(name)
    assert QUEUE_NAME.match(name_of("магазин.задачи.ночью"))
