"""Tasks for the tests of the backend."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from django_dbqueue.models import Queue
from django_dbqueue.tasks import task_options
from django_dbqueue.tasks.compat import HOME

if HOME == "django.tasks":
    from django.tasks import task
else:
    from django_tasks import task

SEEN: list[Any] = []
"""What tasks noted, in this process."""


@task
def add(a: int, b: int) -> int:
    return a + b


@task
def nothing(*args: Any, **kwargs: Any) -> None:
    SEEN.append((args, kwargs))


@task
async def double(value: int) -> int:
    return 2 * value


@task
def fail(text: str = "as told") -> None:
    raise ValueError(text)


@task
@task_options(max_attempts=1)
def fail_once() -> None:
    raise LookupError("only once")


def soon(error: BaseException, result: Any) -> float:
    SEEN.append((type(error), result.attempts, len(result.errors)))
    return 7_000.0


@task(queue_name="jobs")
@task_options(backoff=soon, max_attempts=2)
def fail_later() -> None:
    raise ValueError("later")


def refuse(error: BaseException, result: Any) -> float:
    raise LookupError("no delay for you")


@task
@task_options(backoff=refuse)
def fail_twice_over() -> None:
    raise ValueError("first")


@task
def give_set() -> set[int]:
    return {1}


@task(takes_context=True)
def attempt(context: Any) -> list[Any]:
    if context.attempt < 2:
        raise ValueError("the first attempt fails")
    return [context.attempt, context.task_result.id, len(context.task_result.errors)]


@task
@task_options(transactional=True)
def pause(name: str, *, fails: bool = False) -> str:
    """Write a row of the queue's database, and return something."""
    Queue.objects.create(name=name)
    if fails:
        raise ValueError("after the row")
    return f"paused {name}"


@task
@task_options(keep_results=0)
def forgettable() -> int:
    return 1


@task(queue_name="jobs")
def end_the_process_once(mark: str) -> int:
    """Kill the process that runs it, the first time."""
    file = Path(mark)
    if not file.exists():
        file.touch()
        os.kill(os.getpid(), 9)
    return os.getpid()


not_a_task = 17
