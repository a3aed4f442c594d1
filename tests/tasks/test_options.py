"""What a task's options do where they are set: by the task, its queue, its backend. Lengths of time are timedeltas."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from django_dbqueue.models import Message, Result
from django_dbqueue.sessions.django_session import session_of
from django_dbqueue.tasks import DBQueueTask, options, task_options
from django_dbqueue.tasks.compat import InvalidTask
from django_dbqueue.tasks.known_tasks import known_task
from django_dbqueue.worker.aftermath import settle_after
from django_dbqueue.worker.board import Board, SlotState
from tests.tasks.conftest import TASKS
from tests.tasks.running import run

pytestmark = pytest.mark.django_db
TWO_HOURS = timedelta(hours=2)


def fail() -> None:
    raise LookupError("as ever")


def answer() -> int:
    return 42


def dawdle() -> None:
    time.sleep(0.05)


Make = Callable[..., Any]


@pytest.fixture(params=["@task_options", "@task", "OPTIONS"])
def make(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, settings: Any) -> Make:
    """A task of one of the functions above, with options that are set in one of the places."""

    def made(function: Any, **options: Any) -> Any:
        monkeypatch.setattr(function, "_dbqueue_task_options", {}, raising=False)
        if request.param == "OPTIONS":
            settings.TASKS = TASKS | {"default": TASKS["default"] | {"OPTIONS": options}}
        task = DBQueueTask(func=function, **(options if request.param == "@task" else {}))
        if request.param == "@task_options":
            task_options(**options)(task)
        monkeypatch.setattr(sys.modules[__name__], function.__name__, task)
        return task

    return made


def test_a_backoff_is_the_delay_of_the_retry(make: Make) -> None:
    make(fail, backoff=TWO_HOURS).enqueue()
    before = timezone.now()
    run()
    row = Message.objects.get()
    assert row.available_at is not None
    assert 3_600 <= (row.available_at - before).total_seconds() < 7_300, "with jitter, of up to half"


def test_none_leaves_an_option_to_others(make: Make) -> None:
    task = make(answer, keep_results=None, max_attempts=None, timeout=None, backoff=None)
    of_backend = task.get_backend().options
    assert options.options_of(task, of_backend) == options.options_of(DBQueueTask(func=dawdle), of_backend)


@dataclass
class Growing:
    """It compares by its fields, and so has no hash."""

    first: float

    def __call__(self, error: BaseException, result: Any) -> float:
        return self.first * 10.0**result.attempts


def test_a_backoff_may_be_any_callable(make: Make) -> None:
    task = make(fail, backoff=Growing(720))
    task.enqueue()
    task.get_backend().enqueue_many([(task, (), {})] * 2)
    before = timezone.now()
    run()
    delays = [(row.available_at - before).total_seconds() for row in Message.objects.all() if row.available_at]
    assert len(delays) == 3
    assert all(7_200 <= delay < 7_300 for delay in delays)


def test_results_are_kept_as_long_as_the_option_wants(make: Make) -> None:
    make(answer, keep_results=TWO_HOURS).enqueue()
    before = timezone.now()
    run()
    kept = Result.objects.get()
    assert 7_100 < (kept.expires_at - before).total_seconds() < 7_300


def test_a_lease_and_the_attempts_are_in_the_row_once_it_is_claimed(make: Make) -> None:
    make(answer, lease=TWO_HOURS, max_attempts=7).enqueue()
    run()
    row = Message.objects.get()
    assert (row.lease_seconds, row.max_reads) == (7_200, 7)


def test_a_timeout_is_reported_and_the_task_retried_by_its_own_backoff(make: Make) -> None:
    make(dawdle, timeout=timedelta(milliseconds=10), backoff=TWO_HOURS).enqueue()
    [handled] = run()
    assert isinstance(handled.error, TimeoutError)
    row = Message.objects.get()
    assert f"TimedOut: {__name__}.dawdle ran longer than its timeout of 0.01 s" in str(row.error)
    assert row.available_at is not None
    assert (row.available_at - timezone.now()).total_seconds() > 3_500


def test_where_several_places_set_a_timeout_the_task_is_first_then_its_queue(make: Make, settings: Any) -> None:
    settings.DBQUEUE = {"QUEUES": {"default": {"timeout": TWO_HOURS}}, "DEFAULTS": {"timeout": 1}}
    task = make(dawdle, timeout=timedelta(milliseconds=10))
    task.enqueue()
    [handled] = run()
    is_of_the_backend = task.timeout is None and not dawdle_options()
    assert (handled.error is None) == is_of_the_backend, "QUEUES come before the backend's OPTIONS"


def dawdle_options() -> dict[str, Any]:
    task: Any = dawdle
    found: dict[str, Any] = task.func._dbqueue_task_options
    return found


def test_a_task_that_is_not_here_has_the_timeout_of_its_queue(settings: Any) -> None:
    from django_dbqueue.tasks.sources import task_consumer

    settings.DBQUEUE = {"QUEUES": {"default": {"timeout": 7}}}
    unknown = Message.objects.enqueue({"args": [], "kwargs": {}}, headers={"dbqueue.task": "no.such.task"})
    assert task_consumer("default").options_of(unknown).timeout == 7


def test_what_timed_out_is_settled_where_its_task_is_gone_or_has_no_timeout_any_more(make: Make) -> None:
    """As after a deployment: the child had imported it before, and its supervisor looks for it afterwards."""
    from django_dbqueue.tasks.sources import task_consumer

    make(answer)
    paths = ("no.such.task", f"{__name__}.answer")
    for path in paths:
        Message.objects.enqueue({"args": [], "kwargs": {}}, headers={"dbqueue.task": path})
    board = Board(2)
    for message in Message.objects.claim(2):
        board.mark(board.occupy(message.claim), SlotState.TIMED_OUT)
    settle_after(session_of("default"), 7, {"default": task_consumer("default")}, board, how="exit code 3")
    rows = list(Message.objects.order_by("pk"))
    assert [row.error for row in rows] == [f"TimedOut: {path} ran longer than its timeout" for path in paths]
    assert [(row.status, row.crashes) for row in rows] == [("n", 0)] * 2


def test_what_holds_for_a_task_is_found_once_for_all_messages_of_its_schedule(make: Make) -> None:
    make(answer)
    headers = {"dbqueue.task": f"{__name__}.answer", "dbqueue.schedule": "s"}
    first, second = (
        Message.objects.enqueue({"args": [], "kwargs": {}}, headers={**headers, "dbqueue.due": f"2026-01-0{day}"})
        for day in (1, 2)
    )
    assert known_task(first) is known_task(second)


def test_the_keywords_of_a_task_are_read_once_however_often_it_is_enqueued(monkeypatch: pytest.MonkeyPatch) -> None:
    """To read a cron takes longer than to store a message."""
    task = DBQueueTask(func=answer, cron="0 3 * * *", timeout=TWO_HOURS, max_attempts=1)
    monkeypatch.setattr(sys.modules[__name__], "answer", task)
    before = options._fit.cache_info().misses
    for _ in range(3):
        task.using(priority=5).enqueue()
    assert options._fit.cache_info().misses == before


def test_what_equals_a_keyword_that_can_be_is_refused_nevertheless() -> None:
    for name, wrong in (("max_attempts", True), ("max_attempts", 1.0), ("timeout", True)):
        DBQueueTask(func=answer, **{name: 1})
        with pytest.raises(InvalidTask, match="must be"):
            DBQueueTask(func=answer, **{name: wrong})
