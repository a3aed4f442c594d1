"""Tasks that take long, end oddly, or return what is hard to keep."""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from asgiref.sync import sync_to_async

from django_dbqueue import Retry
from django_dbqueue.models import Message
from django_dbqueue.tasks import task_options
from tests.tasks_app.jobs import task

LONG = 600.0
"""Seconds that no test waits."""
SEEN: list[Any] = []
"""What tasks noted, in this process."""
ASIDE: list[Callable[[], object]] = []
"""What ``stand_aside`` calls while it runs."""


@task
def stand_aside(*, fails: bool = False) -> int:
    """Let something else run in between, the first time."""
    if ASIDE:
        ASIDE.pop()()
    if fails:
        raise ValueError("as told")
    return 17


def nested(depth: int, kind: str) -> Any:
    """A value of so many levels."""
    value: Any = [] if kind == "list" else () if kind == "tuple" else {}
    for _ in range(depth - 1):
        value = [value] if kind == "list" else (value,) if kind == "tuple" else {"in": value}
    return value


def endless(kind: str) -> Any:
    """A value that contains itself."""
    value: Any = [] if kind == "list" else {}
    value.append(value) if kind == "list" else value.update(within=value)
    return value


def doubled(times: int) -> Any:
    """Two references to two references, and so on: 2^times of them, written out."""
    value: Any = [1]
    for _ in range(times):
        value = [value, value]
    return value


MAKERS: dict[str, Callable[..., Any]] = {"nested": nested, "endless": endless, "doubled": doubled}


@task
def give(maker: str, *how: Any) -> Any:
    """Return what one of the above makes."""
    return MAKERS[maker](*how)


def never_again(error: BaseException, _result: Any) -> float | None:
    """Want another attempt after a LookupError only."""
    return 0.0 if isinstance(error, LookupError) else None


@task
@task_options(backoff=never_again, max_attempts=5)
def fail_with(name: str) -> None:
    raise {"LookupError": LookupError, "ValueError": ValueError}[name]("as told")


@task_options(max_attempts=1, keep_results=60)
@task
@task_options(max_attempts=2, lease=30)
def optioned() -> int:
    return 1


@task(queue_name="jobs")
async def query_in_threads(number: int) -> list[bool]:
    """Query in threads that the event loop lends, and in the handler's own."""
    exists = Message.objects.filter(pk=0).exists
    lent = [sync_to_async(exists, thread_sensitive=False)() for _ in range(number)]
    return [*await asyncio.gather(*lent, asyncio.to_thread(exists)), await Message.objects.filter(pk=0).aexists()]


@task(queue_name="jobs")
async def wait_long(mark: str = "") -> None:
    """Wait for what never comes, and clean up when cancelled."""
    try:
        await asyncio.Event().wait()
    finally:
        SEEN.append("cleaned up")
        if mark:
            with Path(mark).open("a") as file:
                file.write(f"{os.getpid()}\n")


@task(queue_name="jobs")
async def take_no_notice() -> str:
    """Swallow a cancellation and return."""
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        SEEN.append("took no notice")
    return "returned"


@task(queue_name="jobs")
@task_options(transactional=True)
async def take_no_notice_in_one_commit() -> str:
    result: str = await take_no_notice.func()
    return result


@task(queue_name="jobs")
async def wait_to_be_cancelled(begun: str, cancelled: str) -> None:
    """Wait for what never comes, and tell of both ends."""
    Path(begun).touch()
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        Path(cancelled).touch()
        raise


@task(queue_name="jobs")
def hang(begun: str) -> None:
    """Be in one call of C for longer than any test lasts."""
    Path(begun).touch()
    time.sleep(100_000)


@task(queue_name="jobs")
def sleep_long() -> None:
    """Take longer than any timeout, in a thread that nothing can end."""
    time.sleep(LONG)


@task(queue_name="jobs")
@task_options(timeout=1, backoff=0.01, max_attempts=2)
def sleep_too_long() -> None:
    """Take longer than its own timeout, in a thread that nothing can end."""
    time.sleep(LONG)


@task(queue_name="jobs")
@task_options(timeout=1, backoff=0.01, max_attempts=2)
def hold_the_interpreter() -> None:
    """Take longer than its own timeout, and let no other thread run meanwhile."""
    re.match(r"(a+)+$", "a" * 64 + "b")


@task(queue_name="jobs")
@task_options(timeout=1, backoff=0.01, max_attempts=2)
async def wait_too_long(mark: str) -> None:
    await wait_long.func(mark)


@task(takes_context=True)
def resume(context: Any) -> Any:
    with context.resumable_step("count") as step:
        SEEN.append(step.cursor)
        step.save(17)
        if context.attempt == 1:
            raise Retry("once more", after=0)
        step.result = "counted"
    return step.result


@task(takes_context=True)
async def resume_async(context: Any) -> Any:
    async with context.aresumable_step("count") as step:
        SEEN.append(step.cursor)
        await step.asave(17)
        if context.attempt == 1:
            raise Retry("once more", after=0)
        step.result = "counted"
    return step.result
