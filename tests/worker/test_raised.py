"""What a handler raised is reported by another thread; until then it holds nothing of the handler's."""

from __future__ import annotations

import traceback
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest
from django.db import connections

from django_dbqueue import signals
from django_dbqueue.consumers.registry import Consumer
from django_dbqueue.models import Message, Queue
from django_dbqueue.sessions.django_session import session_of
from django_dbqueue.worker.batches import execute_batch
from django_dbqueue.worker.board import Board
from django_dbqueue.worker.delivery import Delivery
from django_dbqueue.worker.execution import execute
from django_dbqueue.worker.holding import Holding
from django_dbqueue.worker.settler import Settler
from tests.factories import as_claimed, held_many

pytestmark = pytest.mark.django_db(transaction=True)


class Held:
    """Something that a handler has."""


def plain(held: Held) -> None:
    raise ValueError("as told")


def chained(held: Held) -> None:
    try:
        plain(held)
    except ValueError as error:
        raise KeyError("as told") from error


def in_a_context(held: Held) -> None:
    try:
        plain(held)
    finally:
        raise KeyError("as told")


def in_a_group(held: Held) -> None:
    errors: list[Exception] = []
    for _ in range(2):
        try:
            plain(held)
        except ValueError as error:
            errors.append(error)
    raise ExceptionGroup("as told", errors)


def in_a_circle(held: Held) -> None:
    try:
        chained(held)
    except KeyError as error:
        cause: Any = error.__cause__
        cause.__cause__ = error
        raise


@dataclass(frozen=True)
class FrozenError(Exception):
    """An error that lets nothing be set, as a dataclass may be."""

    reason: str


class HidingError(Exception):
    """An error whose attributes can't be read."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(name)


def deliveries(number: int, handler: Any, **options: Any) -> list[Delivery]:
    consumer = Consumer("work", handler, **options)
    return [
        Delivery(as_claimed(each), session_of("default"), consumer, consumer.resolved(), frozenset())
        for each in held_many(number, queue="work")
    ]


@pytest.fixture
def reported() -> Iterator[list[dict[str, Any]]]:
    heard: list[dict[str, Any]] = []

    def hear(**named: Any) -> None:
        heard.append(named)

    signals.message_failed.connect(hear)
    signals.message_died.connect(hear)
    yield heard
    signals.message_failed.disconnect(hear)
    signals.message_died.disconnect(hear)


@pytest.mark.parametrize("batch", [None, 2])
@pytest.mark.parametrize("fail", [plain, chained, in_a_context, in_a_group, in_a_circle])
def test_it_keeps_its_lines_and_lets_go_of_what_its_frames_had(fail: Callable[[Held], None], batch: int | None) -> None:
    living: list[weakref.ref[Held]] = []

    def handle(given: Any) -> None:
        held = Held()
        living.append(weakref.ref(held))
        fail(held)

    given = deliveries(batch or 1, handle, batch=batch)
    if batch is None:
        execute(given[0])
    else:
        execute_batch(given)
    assert [each() for each in living] == [None] * len(living)
    for delivery in given:
        assert delivery.raised is not None
        assert f"in {fail.__name__}" in "".join(traceback.format_exception(delivery.raised))


def test_a_select_that_a_failed_handler_left_open_stops_no_message_after_it() -> None:
    """More rows than one chunk of an iterator's."""
    Queue.objects.bulk_create(Queue(name=f"row-{number}") for number in range(2_500))

    def use(rows: Iterator[Queue]) -> None:
        for _ in rows:
            raise ValueError("as told")

    def write(name: str) -> None:
        Queue.objects.create(name=name)
        connections.close_all()

    def handle(message: Message) -> None:
        if message.pk == first.claim.id:
            use(Queue.objects.iterator())
        Queue.objects.create(name="written")

    first, second = deliveries(2, handle)
    execute(first)
    assert first.raised is not None
    with ThreadPoolExecutor(1) as somebody:
        somebody.submit(write, "elsewhere").result()
    assert execute(second).verb == "ack"


@pytest.mark.parametrize("kind", [FrozenError, HidingError])
def test_an_error_of_any_class_is_reported_and_its_message_settled(
    kind: type[Exception], reported: list[dict[str, Any]]
) -> None:
    error = kind("as told")

    def handle(message: Message) -> None:
        raise error

    session, board = session_of("default"), Board(1)
    holding = Holding(board)
    [delivery] = deliveries(1, handle)
    holding.keep(delivery)
    holding.offer(delivery)
    assert holding.take() is delivery
    settler = Settler(session, holding, board)
    settler.add(delivery, execute(delivery), 0.0)
    settler.flush()
    [named] = reported
    assert named["exception"] is error
    assert board.counter("failed") == 1
