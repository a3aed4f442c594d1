"""Steps that are longer than a transaction: each slice saves a cursor, at which the next attempt continues (P21).

A save is one statement under the fence of the claim, in whatever transaction is open: so the rows of a slice and its
cursor are one commit, and those of a zombie are rolled back together.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from asgiref.sync import sync_to_async

from django_dbqueue.codecs import Json
from django_dbqueue.exceptions import InvalidStep
from django_dbqueue.sessions.commit_hooks import on_commit
from django_dbqueue.statements.steps_sql import CURSOR, STEP
from django_dbqueue.steps.step_memory import StepBlock, Steps, value_of


class ResumableStep(StepBlock):
    """What ``with message.resumable_step(name) as step:`` gives: a block that saves how far it has come."""

    __slots__ = ("_cursor", "_is_open", "_save", "_steps")

    def __init__(self, steps: Steps, name: str, *, is_new: bool, result: Json = None, cursor: Json = None) -> None:
        super().__init__(name, is_new=is_new, result=result)
        self._steps = steps
        self._cursor = cursor
        self._is_open = is_new
        self._save: _Save | None = None

    @property
    def cursor(self) -> Json:
        """What was saved last, by this attempt or an earlier one; None if nothing was, or the block is done.

        A save whose transaction was rolled back counts as none. Only then, this reads the step again, which raises
        LeaseLost if the claim no longer holds the message, and has to be called by ``sync_to_async`` in async code.
        """
        if self._save is not None and not self._save.stands:
            self._cursor = self._steps.cursor(self.name)
            if not self._steps.session.connection.in_atomic_block:
                self._save = None
        return self._cursor

    def save(self, cursor: Json) -> None:
        """Save how far the block has come, a JSON value as in payloads: a later attempt begins with it as ``cursor``.

        In a transaction of the caller, such as ``atomic()``, it is committed with the rows written there, or not at
        all. LeaseLost if the claim no longer holds the message: let it end the transaction. InvalidStep for what can't
        be saved, and outside the block.
        """
        steps = self._steps
        if not self._is_open:
            raise InvalidStep(
                f"save() of step {self.name!r} of message {steps.message.pk} was called when its block was done. Save "
                "within the block, and only if step.is_new."
            )
        steps.message.refuse_if_gone("step")
        saved = steps.encoded(self.name, cursor, CURSOR)
        steps.put(saved)
        self._cursor, self._save = value_of(saved), _Save(steps)

    async def asave(self, cursor: Json) -> None:
        """Run ``save`` from async code, in a commit of its own."""
        await sync_to_async(self.save)(cursor)

    def close(self) -> None:
        """Let nothing be saved any more."""
        self._is_open = False

    def finish(self) -> None:
        """Write the result in the place of the cursor: the block is done."""
        self.close()
        remembered = self._steps.encoded(self.name, self.result)
        self._steps.put(remembered)
        self.result, self._cursor, self._save = value_of(remembered), None, None


class _Save:
    """A save, which stands unless its transaction is rolled back."""

    __slots__ = ("_connection", "_is_committed")

    def __init__(self, steps: Steps) -> None:
        self._is_committed = False
        self._connection: Any = steps.session.connection
        on_commit(self._commit, using=steps.session.using)

    def _commit(self) -> None:
        self._is_committed = True

    @property
    def stands(self) -> bool:
        """Return whether it is committed, or its transaction is still open: a rollback removes the hook."""
        return self._is_committed or any(hook[1] == self._commit for hook in self._connection.run_on_commit)


@contextmanager
def resumable(steps: Steps, name: str) -> Iterator[ResumableStep]:
    """Run the block, in no transaction of ours; its end is remembered as that of any step."""
    step = _begin(steps, name)
    if not step.is_new:
        yield step
        return
    try:
        with steps.inside(name):
            yield step
        step.finish()
    finally:
        step.close()


@asynccontextmanager
async def aresumable(steps: Steps, name: str) -> AsyncIterator[ResumableStep]:
    """Run ``resumable`` from async code."""
    step = await sync_to_async(_begin)(steps, name)
    if not step.is_new:
        yield step
        return
    try:
        with steps.inside(name):
            yield step
        await sync_to_async(step.finish)()
    finally:
        step.close()


def _begin(steps: Steps, name: str) -> ResumableStep:
    """Return the step as an earlier attempt has left it."""
    found = steps.begin(name, STEP, CURSOR)
    steps.refuse_autocommit_off(name)
    if found is None:
        return ResumableStep(steps, name, is_new=True)
    if found.kind == STEP:
        return ResumableStep(steps, name, is_new=False, result=found.value)
    return ResumableStep(steps, name, is_new=True, cursor=found.value)
