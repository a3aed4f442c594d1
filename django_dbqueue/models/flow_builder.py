"""Flows: messages that are one piece of work, put into the queue in one transaction, some after others.

with flow("import 17") as f:
    pages = f.enqueue_many([{"page": n} for n in range(500)], queue="pages")
    f.enqueue({"file": 17}, queue="report", after=pages)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from asgiref.sync import sync_to_async
from django.db import transaction

from django_dbqueue.codecs import Json, plain
from django_dbqueue.consumers.unrun import unrun_text
from django_dbqueue.envelope import Envelope
from django_dbqueue.exceptions import InvalidFlow, TransactionNotAllowed
from django_dbqueue.flows.flow_rows import Part, check_edges, check_many, connect, put
from django_dbqueue.lifecycle.flows_sql import AFTER
from django_dbqueue.models import Flow, Message
from django_dbqueue.sessions.django_session import DjangoSession, session_for

MAX_NAME = 200
MOST_OF_AFTER = 16_000
"""Characters of the ids that a message waits for, in its headers."""
Step = tuple[str, object]
"""A queue, and the payload or envelope of a message for it."""


class FlowBuilder:
    """What ``with flow(name) as f:`` gives. Each call writes at once; all of it exists if the block's commit does."""

    def __init__(self, row: Flow, session: DjangoSession) -> None:
        self.id: int = row.pk
        """The number of the flow: ``Flow.objects.get(pk=f.id)``, and what its messages have in ``flow``."""
        self.using: str = session.using
        """The database that it is in."""
        self._session = session
        self._connection: object = session.connection
        self._is_closed = False

    def enqueue(
        self,
        payload: Json | Envelope,
        *,
        queue: str,
        after: Part | Iterable[Part] = (),
        when: str = "done",
    ) -> Part:
        """Put a message into the flow; return what another one can be ``after``.

        An ``Envelope`` has options besides the payload. With ``after`` it waits for those: ``when="done"`` until all
        are done (or dropped), "finished" until all are done, dropped or dead, "dead" until the first of them dies; if
        none does, it is dropped. InvalidFlow, InvalidMessage or DuplicateKey say what can't be stored, and why.
        """
        return self.enqueue_many([payload], queue=queue, after=after, when=when)

    def enqueue_many(
        self,
        items: Iterable[object],
        *,
        queue: str,
        after: Part | Iterable[Part] = (),
        when: str = "done",
    ) -> Part:
        """Put messages, from payloads or ``Envelope``s, into the flow; each waits for all of ``after``."""
        self._check_open()
        check_many("enqueue", items)
        earlier = _parts(after)
        if earlier:
            items = list(items)
            earlier = check_edges(self.id, len(items), earlier, when)
            items = [_after(item, earlier) for item in items]
        elif when != "done":
            raise InvalidFlow(f"when={when!r} says how those of after must end, but there is no after.")
        waits = any(each.messages for each in earlier)
        if when == "dead" and not waits:
            items = []  # nobody can die, so nobody is needed
        with transaction.atomic(using=self._session.using):  # who catches an error goes on with the rest of the flow
            part = put(self._session, self.id, items, queue=queue, parked=waits)
            if waits:
                connect(self._session, part, earlier, when=when)
        return part

    def chain(self, *steps: Step, after: Part | Iterable[Part] = ()) -> Part:
        """Put messages, each given as its queue and its payload or envelope, one after the other; return the last."""
        if not steps:
            raise InvalidFlow("chain() needs at least one step: a queue and a payload.")
        for queue, payload in map(_step, steps):
            after = self.enqueue(payload, queue=queue, after=after)
        assert isinstance(after, Part)
        return after

    def chord(self, steps: Sequence[Step], then: Step, *, after: Part | Iterable[Part] = ()) -> Part:
        """Put messages that run beside each other, and one that runs when all of them are done; return that one."""
        queue, payload = _step(then)
        header = [self.enqueue(each, queue=of, after=after) for of, each in map(_step, steps)]
        return self.enqueue(payload, queue=queue, after=header or after)

    def _check_open(self) -> None:
        """Raise InvalidFlow where a message would not be of the block's transaction."""
        if self._is_closed:
            raise InvalidFlow(
                f"the block of flow #{self.id} has ended, and what it sent may have run. Put all of it into the flow "
                "inside the block; while it runs, its messages can spawn() others."
            )
        if self._session.connection is not self._connection:
            raise InvalidFlow(
                f"flow #{self.id} was begun in another thread, and this one has a connection, and so a transaction, of "
                "its own. Put all of it into the flow in the thread of its block."
            )


def _parts(after: object) -> list[Part]:
    if isinstance(after, Part):
        return [after]
    wrong = "after takes what enqueue() of this flow returned, not "
    if isinstance(after, str) or not isinstance(after, Iterable):
        raise InvalidFlow(f"{wrong}{after!r:.100}.")
    parts = list(after)
    for part in parts:
        if not isinstance(part, Part):
            raise InvalidFlow(f"{wrong}{part!r:.100}.")
    return parts


def _step(step: object) -> Step:
    if not isinstance(step, tuple | list) or len(step) != 2:
        raise InvalidFlow(
            f"a step is a pair: a queue, and a payload or an Envelope; for a task, its signature(…). Not {step!r:.100}."
        )
    return step[0], step[1]


def _after(item: object, earlier: Sequence[Part]) -> Envelope:
    envelope = item if isinstance(item, Envelope) else Envelope(item)
    if not isinstance(envelope.headers or {}, dict):
        return envelope  # which is refused with a sentence
    ranges: list[list[int]] = []
    for first, last in sorted(pair for part in earlier for pair in part.ranges):
        if ranges and first <= ranges[-1][1] + 1:
            ranges[-1][1] = max(last, ranges[-1][1])
        else:
            ranges.append([first, last])
    if len(str(ranges).replace(" ", "")) > MOST_OF_AFTER:
        raise InvalidFlow(
            f"after names {len(ranges):,} separate messages, or ranges of those that were put together, which is more "
            "than the headers of a message can hold: put those that are waited for together by one enqueue_many(), or "
            "let a message in between wait for some of them."
        )
    return replace(envelope, headers={**(envelope.headers or {}), AFTER: ranges})


@contextmanager
def flow(name: str, *, using: str | None = None) -> Iterator[FlowBuilder]:
    """Send messages that are one piece of work, in one transaction: all or nothing. It joins the caller's.

    ``name`` is for people, and need not be unique. InvalidFlow if it isn't a string of 1 to 200 characters.
    TransactionNotAllowed with autocommit off, where Django doesn't learn of the commit.
    """
    checked = _check_name(name)
    session = session_for(Message, using)
    connection: Any = session.connection
    if not connection.in_atomic_block and not connection.get_autocommit():
        raise TransactionNotAllowed(
            "flow() was called with autocommit off, where its end commits nothing: call set_autocommit(True) first, or "
            "use it inside atomic()."
        )
    with session.transaction():
        builder = FlowBuilder(Flow.objects.using(session.using).create(name=checked), session)
        try:
            yield builder
        finally:
            builder._is_closed = True


async def aflow(name: str, build: Callable[[FlowBuilder], object], *, using: str | None = None) -> int:
    """Send a flow from async code: ``build(f)`` is called in a thread, inside ``flow``; return the flow's number.

    There is no ``async with``: others would write on the connection, and so in the transaction, while the block waits.
    Raises what ``flow`` and ``build`` raise; InvalidFlow if ``build`` is async.
    """
    return await sync_to_async(_send)(name, build, using)


def _send(name: str, build: Callable[[FlowBuilder], object], using: str | None) -> int:
    with flow(name, using=using) as builder:
        if (text := unrun_text("the function that aflow() calls", build(builder))) is not None:
            raise InvalidFlow(f"{text} It runs in a thread: write it with def, not with async def.")
        return builder.id


def _check_name(name: object) -> str:
    if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME or "\0" in name:
        raise InvalidFlow(f"The name of a flow must be a string of 1 to {MAX_NAME} characters, not {name!r:.300}.")
    try:
        name.encode()
    except UnicodeEncodeError:
        raise InvalidFlow(f"The name of a flow must be valid Unicode, not {name!r:.300}.") from None
    return plain(name)
