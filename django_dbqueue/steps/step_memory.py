"""What a handler remembers of a message's earlier attempts, and what it adds (promise P21).

A step is found by its name. What an earlier attempt has committed is read once, by one SELECT; what this one adds is
written under the fence of its claim, so a holder that lost the claim gets LeaseLost and remembers nothing.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any, Final, NamedTuple

from django.db import DatabaseError

from django_dbqueue import codecs, conf, signals
from django_dbqueue.codecs import Json
from django_dbqueue.consumers.unrun import unrun_text
from django_dbqueue.exceptions import (
    DBQueueError,
    InvalidMessage,
    InvalidStep,
    LeaseLost,
    TransactionBroken,
    TransactionNotAllowed,
)
from django_dbqueue.lifecycle.held_message import HeldMessage
from django_dbqueue.sessions.django_session import DjangoSession
from django_dbqueue.statements import moves_sql, steps_sql
from django_dbqueue.statements.steps_sql import CURSOR, EVENT, SLEEP, STEP, TIMED_OUT, WAIT, Remembered

MAX_NAME: Final = 200
NONE: Final = "null"

_inside: ContextVar[tuple[int | None, str] | None] = ContextVar("dbqueue_step", default=None)
"""The step that runs here: its message and its name."""


class StoredStep(NamedTuple):
    """What an earlier attempt has left of a step."""

    kind: str
    body: str | None
    content_type: str | None
    types: str | None
    has_ended: bool
    """Whether the time of a sleep, or a wait, has come."""

    @property
    def value(self) -> Json:
        """The result, decoded on each access."""
        return codecs.decode_typed(self.body or "", self.content_type or codecs.JSON, self.types)


class StepBlock:
    """What ``with message.step(name) as step:`` gives: whether the block is to run, and its result."""

    __slots__ = ("is_new", "name", "result")

    def __init__(self, name: str, *, is_new: bool, result: Json = None) -> None:
        self.name = name
        self.is_new = is_new
        """False if an earlier attempt has committed the block, and ``result`` is what that one left."""
        self.result = result


class Steps:
    """The steps of a message, as one run of its handler meets them."""

    __slots__ = ("_known", "_used", "message", "session")

    def __init__(self, message: HeldMessage, session: DjangoSession) -> None:
        self.message = message
        self.session = session
        self._used: set[str] = set()
        self._known: dict[str, StoredStep] | None = None

    def names(self) -> tuple[str, ...]:
        """Read the names of all that is done, in order of time."""
        rows = self.session.fetch(steps_sql.names(self.session.server, self.message.pk))
        return tuple(row[0] for row in rows)

    def begin(self, name: str, *kinds: str) -> StoredStep | None:
        """Use a name, once in this run; return what an earlier attempt has left there, which is one of ``kinds``."""
        self.message.refuse_if_gone("step")
        check_name(name, "a step")
        if (outer := _inside.get()) is not None and outer[0] == self.message.pk:
            raise InvalidStep(
                f"{name!r} was called inside step {outer[1]!r} of message {outer[0]}. A step is remembered as a whole: "
                "call what it needs as plain functions, or make it a step of its own before or after."
            )
        if name in self._used:
            raise InvalidStep(
                f"message {self.message.pk} uses the name {name!r} twice in one run of its handler. A step is found by "
                "its name, so each needs its own; in a loop, put the turn into it."
            )
        self._used.add(name)
        if self._known is None:
            rows = self.session.fetch(steps_sql.of_message(self.session.server, self.message.pk))
            self._known = {row[0]: StoredStep(row[1], row[2], row[3], row[4], bool(row[5])) for row in rows}
        found = self._known.get(name)
        if found is not None and found.kind not in kinds:
            raise InvalidStep(
                f"message {self.message.pk} remembers {name!r} as a {_CALLED.get(found.kind, found.kind)}, not as a "
                f"{_CALLED[kinds[0]]}: give what is new a new name, or let an operator forget the old one."
            )
        return found

    def refuse_autocommit_off(self, name: str) -> None:
        """Raise TransactionNotAllowed where only the caller could commit, and not by ``atomic()``."""
        connection: Any = self.session.connection
        if not connection.in_atomic_block and not connection.get_autocommit():
            raise TransactionNotAllowed(
                f"step {name!r} meets autocommit off, where what it writes is not committed: call "
                "set_autocommit(True) first, leave AUTOCOMMIT out of the database's settings, and use atomic()."
            )

    @contextmanager
    def inside(self, name: str) -> Iterator[None]:
        """Let no other step begin in the block."""
        outer = _inside.set((self.message.pk, name))
        try:
            yield
        finally:
            _inside.reset(outer)

    def run(self, name: str, function: Callable[..., Json], *args: Any, **kwargs: Any) -> Json:
        """Return the remembered result, or call the function and remember what it returns."""
        if inspect.iscoroutinefunction(function):
            raise InvalidStep(f"step {name!r} was given a coroutine function: await message.astep() instead of step().")
        if (found := self.begin(name, STEP)) is not None:
            return found.value
        with self.inside(name):
            result = function(*args, **kwargs)
        return self.remember(name, result)

    def remember(self, name: str, result: Json) -> Json:
        """Write the result of a step that ran; return it as the next attempt will get it."""
        step = self.encoded(name, result)
        self.write(step)
        return value_of(step)

    def encoded(self, name: str, result: Json, kind: str = STEP) -> Remembered:
        """Return a step with its result in the form of the columns; InvalidStep if it can't be kept."""
        if result is None:
            return Remembered(name, kind, NONE, codecs.JSON)
        try:
            body, content_type, types = codecs.encode(result, max_bytes=conf.get("MAX_PAYLOAD_BYTES"))
        except InvalidMessage as error:
            if kind == CURSOR:
                raise InvalidStep(
                    f"the cursor of step {name!r} of message {self.message.pk} can't be saved: {error} Save what tells "
                    "the next attempt where to continue, such as the last id."
                ) from error
            if text := unrun_text(f"the function of step {name!r} of message {self.message.pk}", result):
                raise InvalidStep(text) from error
            raise InvalidStep(
                f"the result of step {name!r} of message {self.message.pk} can't be remembered, so the step would run "
                f"again: {error} Return what later code needs of it, such as an id."
            ) from error
        return Remembered(name, kind, body, content_type, types)

    def write(self, step: Remembered) -> None:
        """Write a step under the fence; LeaseLost if the claim no longer holds the message."""
        statement = steps_sql.remember(self.session.server, self.message.claim, step)
        if self.session.outermost(partial(self.session.run, statement)) != 1:
            raise self.lost("step")

    def put(self, step: Remembered) -> None:
        """Write a step, or write over what it was before, under the fence; LeaseLost as ``write``."""
        self.refuse_autocommit_off(step.name)
        statement = steps_sql.put(self.session.server, self.message.claim, step)
        if not self.session.outermost(partial(self.session.run, statement)):  # MySQL counts a row twice that it changes
            raise self.lost("step")

    def cursor(self, name: str) -> Json:
        """Read the cursor of a step as the open transaction, if any, has it; None if there is none.

        The lock comes first: if a connection broke at its commit, that may still be on its way.
        """
        self.lock()
        rows = self.session.fetch(steps_sql.cursor(self.session.server, self.message.pk, name))
        return StoredStep(CURSOR, rows[0][0], rows[0][1], rows[0][2], has_ended=False).value if rows else None

    def lock(self) -> None:
        """Lock the message's row until the transaction ends; LeaseLost if the claim no longer holds it."""
        statement = moves_sql.lock(self.session.server, moves_sql.held(self.session.server, [self.message.claim]))
        if not self.session.outermost(partial(self.session.fetch, statement)):
            raise self.lost("step")

    def lost(self, verb: str) -> LeaseLost:
        """Note that the claim is lost, tell those who listen, and return the error to raise."""
        message = self.message
        message.lease_lost = True
        signals.lease_lost.send(type(message), queue=message.queue, message_id=message.pk, verb=verb)
        return LeaseLost(message.pk, verb)

    @contextmanager
    def block(self, name: str) -> Iterator[StepBlock]:
        """Run the block in a transaction that begins with the message's row under lock, and ends with the step's.

        The savepoint shows whether the transaction of the block's rows lasted until then (as in ``transaction``).
        """
        if (found := self.begin(name, STEP)) is not None:
            yield StepBlock(name, is_new=False, result=found.value)
            return
        self.refuse_autocommit_off(name)
        connection: Any = self.session.connection
        step = StepBlock(name, is_new=True)
        with self.session.transaction():
            self.lock()
            beginning = connection.savepoint()
            with self.inside(name):
                yield step
            remembered = self.encoded(name, step.result)
            try:
                connection.savepoint_commit(beginning)
            except DatabaseError as error:
                raise TransactionBroken(self.message.pk, step=name) from error
            self.write(remembered)
        step.result = value_of(remembered)


def value_of(step: Remembered) -> Json:
    """Return the result of a step as the next attempt will get it."""
    return StoredStep(step.kind, step.body, step.content_type, step.types, has_ended=True).value


_CALLED: Final = {
    STEP: "step",
    CURSOR: "resumable step",
    SLEEP: "sleep",
    WAIT: "wait",
    EVENT: "wait",
    TIMED_OUT: "wait",
}


def check_name(name: object, what: str, error: type[DBQueueError] = InvalidStep) -> str:
    """Return the name of a step or an event, or raise the error."""
    if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME:
        raise error(f"The name of {what} must be a string of 1 to {MAX_NAME} characters, not {name!r:.300}.")
    if "\0" in name or name != name.strip():
        raise error(f"The name of {what} must not begin or end with a blank, or have a NUL in it: {name!r}.")
    try:
        name.encode()
    except UnicodeEncodeError:
        raise error(f"The name of {what} must be valid Unicode, not {name!r}.") from None
    return codecs.plain(name)
