"""The context of a task that takes one, with the steps of its message."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, overload

from django_dbqueue.tasks.compat import TaskContext

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    from django_dbqueue.codecs import Json
    from django_dbqueue.envelope import Envelope
    from django_dbqueue.flows.flow_rows import Part
    from django_dbqueue.steps.resumable_step import ResumableStep
    from django_dbqueue.steps.step_memory import StepBlock


@dataclass(frozen=True, slots=True, kw_only=True)
class StepContext(TaskContext):  # type: ignore[misc, type-arg]  # as Django 6.0 and the stubs of 6.1 have it
    """What a task with ``takes_context=True`` gets: Django's context, and the verbs of ``Message`` that make steps."""

    message: Any = field(repr=False, compare=False)
    """The message that the task is."""

    @overload
    def step(self, name: str, /) -> AbstractContextManager[StepBlock]: ...

    @overload
    def step(self, name: str, function: Callable[..., Json], /, *args: Any, **kwargs: Any) -> Json: ...

    def step(self, name: str, function: Callable[..., Json] | None = None, /, *args: Any, **kwargs: Any) -> Any:
        """Do something that later attempts find done, as ``message.step`` does."""
        return self.message.step(name, *([] if function is None else [function, *args]), **kwargs)

    def resumable_step(self, name: str, /) -> AbstractContextManager[ResumableStep]:
        """Continue a step where an earlier attempt has saved, as ``message.resumable_step`` does."""
        return self.message.resumable_step(name)  # type: ignore[no-any-return]

    def sleep(self, name: str, for_: float | timedelta) -> None:
        """Return if this sleep is over; else end the task until then."""
        self.message.sleep(name, for_)

    def wait_for(self, event: str, timeout: float | timedelta | None = None, *, name: str | None = None) -> Json:
        """Return the payload of an event; until it is emitted, end the task. EventTimedOut after ``timeout``."""
        return self.message.wait_for(event, timeout, name=name)

    @property
    def steps_done(self) -> tuple[str, ...]:
        """The names of the steps that are done, in order of time."""
        return self.message.steps_done  # type: ignore[no-any-return]

    def remaining(self) -> float | None:
        """Return for how many seconds the task may still run, as ``message.remaining`` does."""
        return self.message.remaining()  # type: ignore[no-any-return]

    def results(self) -> list[Json]:
        """Return what the messages of its flow that this one waited for have returned, as ``message.results`` does."""
        return self.message.results()  # type: ignore[no-any-return]

    def spawn(self, payload: Json | Envelope, *, queue: str) -> Part:
        """Add a message to the flow of this task, as ``message.spawn`` does."""
        return self.message.spawn(payload, queue=queue)  # type: ignore[no-any-return]

    async def aresults(self) -> list[Json]:
        """Run ``results`` from async code."""
        return await self.message.aresults()  # type: ignore[no-any-return]

    async def aspawn(self, payload: Json | Envelope, *, queue: str) -> Part:
        """Run ``spawn`` from async code."""
        return await self.message.aspawn(payload, queue=queue)  # type: ignore[no-any-return]

    async def astep(self, name: str, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Json:
        """Run ``step`` from async code."""
        return await self.message.astep(name, function, *args, **kwargs)

    def aresumable_step(self, name: str, /) -> AbstractAsyncContextManager[ResumableStep]:
        """Run ``resumable_step`` from async code."""
        return self.message.aresumable_step(name)  # type: ignore[no-any-return]

    async def asleep(self, name: str, for_: float | timedelta) -> None:
        """Run ``sleep`` from async code."""
        await self.message.asleep(name, for_)

    async def await_for(self, event: str, timeout: float | timedelta | None = None, *, name: str | None = None) -> Json:
        """Run ``wait_for`` from async code."""
        return await self.message.await_for(event, timeout, name=name)

    async def asteps_done(self) -> tuple[str, ...]:
        """Read ``steps_done`` from async code."""
        return await self.message.asteps_done()  # type: ignore[no-any-return]
