"""What the holder of a message may do in steps: ``message.step``, ``sleep``, ``wait_for``, and their async twins."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, overload

from asgiref.sync import sync_to_async

from django_dbqueue.codecs import Json
from django_dbqueue.sessions.django_session import DjangoSession
from django_dbqueue.statements.steps_sql import STEP
from django_dbqueue.steps import suspension
from django_dbqueue.steps.resumable_step import ResumableStep, aresumable, resumable
from django_dbqueue.steps.step_memory import StepBlock, Steps


class StepVerbs:
    """Steps of a message. What a handler does outside of them runs again with each attempt."""

    if TYPE_CHECKING:

        @property
        def _session(self) -> DjangoSession: ...

    @property
    def _steps(self) -> Steps:
        """The steps as this run of the handler meets them."""
        steps: Steps | None = self.__dict__.get("_steps_of_run")
        if steps is None:
            steps = self.__dict__["_steps_of_run"] = Steps(self, self._session)  # type: ignore[arg-type]
        return steps

    def begin_run(self) -> None:
        """Let the handler run from its beginning, as if it hadn't run: what it did before was rolled back."""
        self.__dict__.pop("_steps_of_run", None)

    @property
    def has_steps(self) -> bool:
        """Whether this run of the handler has used steps."""
        return "_steps_of_run" in self.__dict__

    @overload
    def step(self, name: str, /) -> AbstractContextManager[StepBlock]: ...

    @overload
    def step(self, name: str, function: Callable[..., Json], /, *args: Any, **kwargs: Any) -> Json: ...

    def step(self, name: str, function: Callable[..., Json] | None = None, /, *args: Any, **kwargs: Any) -> Any:
        """Do something that later attempts find done.

        ``step(name, function, *args)`` returns what an earlier attempt has remembered, or else calls the function and
        remembers what it returns: at least once. ``with step(name) as step:`` makes what the block writes in this
        database, its ``step.result``, and the memory of both one commit under the fence of the claim: exactly once. Ask
        ``step.is_new`` whether the block is to run. InvalidStep says what can't be done; LeaseLost, that this claim no
        longer holds the message.
        """
        if function is None:
            return self._steps.block(name)
        return self._steps.run(name, function, *args, **kwargs)

    def resumable_step(self, name: str, /) -> AbstractContextManager[ResumableStep]:
        """Do something that is longer than a transaction, and continue it where an earlier attempt has saved.

        The block is in no transaction. It asks ``step.is_new``, begins at ``step.cursor``, which is None at first, and
        calls ``step.save(cursor)`` for each slice of its work, in one ``atomic()`` with the slice's rows: these are
        written exactly once. What is outside such a transaction happens at least once. ``step.result`` is remembered at
        the end. Errors are those of ``step``.
        """
        return resumable(self._steps, name)

    def sleep(self, name: str, for_: float | timedelta) -> None:
        """Return if this sleep is over; else suspend the message for that long, uncharged, and end the handler."""
        suspension.sleep(self._steps, name, for_)

    def wait_for(self, event: str, timeout: float | timedelta | None = None, *, name: str | None = None) -> Json:
        """Return the payload of an event; until it is emitted, suspend the message, uncharged, and end the handler.

        EventTimedOut after ``timeout`` (seconds or timedelta). It is remembered as a step under the event's name, or
        under ``name``, which a second wait for the same event needs.
        """
        return suspension.wait_for(self._steps, event, timeout, name)

    @property
    def steps_done(self) -> tuple[str, ...]:
        """The names of the steps that are done, in order of time, read on each access."""
        return self._steps.names()

    async def astep(self, name: str, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Json:
        """Run ``step`` from async code: the function may be async; one that isn't runs in a thread."""
        steps = self._steps
        if (found := await sync_to_async(steps.begin)(name, STEP)) is not None:
            return found.value
        with steps.inside(name):
            if inspect.iscoroutinefunction(function):
                result = await function(*args, **kwargs)
            else:
                result = await sync_to_async(function)(*args, **kwargs)
                if inspect.isawaitable(result):
                    result = await result
        return await sync_to_async(steps.remember)(name, result)

    def aresumable_step(self, name: str, /) -> AbstractAsyncContextManager[ResumableStep]:
        """Run ``resumable_step`` from async code: ``async with``, and ``await step.asave(cursor)``."""
        return aresumable(self._steps, name)

    async def asleep(self, name: str, for_: float | timedelta) -> None:
        """Run ``sleep`` from async code."""
        await sync_to_async(self.sleep)(name, for_)

    async def await_for(self, event: str, timeout: float | timedelta | None = None, *, name: str | None = None) -> Json:
        """Run ``wait_for`` from async code."""
        return await sync_to_async(self.wait_for)(event, timeout, name=name)

    async def asteps_done(self) -> tuple[str, ...]:
        """Read ``steps_done`` from async code."""
        return await sync_to_async(self._steps.names)()
