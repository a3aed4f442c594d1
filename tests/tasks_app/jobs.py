"""Tasks for the tests of the backend."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

from django_dbqueue import Reject, Retry
from django_dbqueue.models import Queue
from django_dbqueue.tasks import task_options
from django_dbqueue.tasks.compat import HOME
from tests.testing.handlers import timed

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
def return_all(*args: Any, **kwargs: Any) -> list[Any]:
    SEEN.append((args, kwargs))
    return [*args, kwargs]


@task
@task_options(transactional=True)
async def return_async(value: Any) -> Any:
    return value


@task(takes_context=True)
def typed_in_steps(context: Any, value: Any) -> list[Any]:
    remembered = context.step("first", lambda: value)
    if context.attempt == 1:
        raise Retry("once more", after=0)
    return [remembered]


@task
def turn_away(reason: str) -> None:
    raise Reject(reason)


@task
def fail_here() -> None:
    class Here(Exception):
        pass

    raise Here("and nowhere else")


@task(takes_context=True)
async def time_of_enqueueing(context: Any) -> str:
    return str(context.task_result.enqueued_at)


class TurnedAway(Reject):
    pass


class Later(Retry):
    pass


class Liar(Exception):
    def __str__(self) -> str:
        return "\n\nTraceback (most recent call last):\nshop.example: no"


@task
def raise_one(kind: str) -> None:
    class Local(Exception):
        pass

    if kind == "syntax":
        compile("a b", "<a rule>", "eval")
    if kind == "group":
        raise ExceptionGroup("both", [ValueError("one"), TypeError("two")])
    raise {
        "local": Local("x"),
        "long": ValueError("long " * 4_000),
        "host": Reject("shop.example: no"),
        "turned away": TurnedAway("KeyError: no"),
        "later": Later("ValueError: no"),
        "lies": Liar(),
    }[kind]


@task
def give_itself() -> list[Any]:
    endless: list[Any] = []
    endless.append(endless)
    return endless


@task
@timed
def give_rows() -> Iterator[int]:
    yield 1


@task
@task_options(transactional=True)
@timed
async def give_rows_asynchronously() -> AsyncIterator[int]:
    yield 1


@task
def give_calls() -> Any:
    return {"rows": zip(map(str, "ab"), "ab", strict=True)}


@task
async def give_coroutines() -> list[Any]:
    return [asyncio.sleep(0)]


def plain(value: int) -> int:
    return value


renamed = task(plain)


class Holder:
    @staticmethod
    def static() -> None: ...


nameless = lambda: None  # noqa: E731


def generate() -> Iterator[int]:
    yield 1


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


@task
@task_options(max_attempts=1)
def end_the_process() -> int:
    """Kill the process that runs it."""
    os.kill(os.getpid(), 9)
    return 0


not_a_task = 17


@task
@task_options(group=lambda account, *_, **__: f"account-{account}" if account else None)
def charge(account: int, amount: int = 0) -> int:
    SEEN.append((account, amount))
    return amount


@task
@task_options(group="ledger")
def book() -> None:
    SEEN.append("booked")


@task(takes_context=True)
def sum_of_flow(context: Any) -> int:
    return sum(context.results())


@task(takes_context=True)
async def double_and_spawn(context: Any, number: int) -> int:
    if number < 3:
        queue, child = double_and_spawn.signature(10 * number)
        await context.aspawn(child, queue=queue)
        assert await context.aresults() == []
    return 2 * number


@task(takes_context=True)
def in_steps(context: Any, amount: int) -> list[Any]:
    context.step("charge", SEEN.append, f"charged {amount}")
    context.sleep("cool off", 60)
    paid = context.wait_for(f"paid:{amount}", timeout=None)
    with context.step("book") as step:
        SEEN.append(("booked", step.is_new))
    assert set(context.steps_done) == {"charge", "cool off", f"paid:{amount}", "book"}
    return [amount, paid]


@task(takes_context=True)
async def in_steps_async(context: Any, value: int) -> int:
    async def doubled() -> int:
        SEEN.append(f"doubled {value}")
        return 2 * value

    found: int = await context.astep("double", doubled)
    await context.asleep("cool off", 60)
    assert set(await context.asteps_done()) == {"double", "cool off"}
    return found


@task(takes_context=True)
def fail_behind_a_step(context: Any) -> None:
    context.step("work", SEEN.append, "worked")
    raise ValueError("behind it")


@task(takes_context=True)
def check_context(context: Any) -> None:
    SEEN.append((context, context.attempt))
