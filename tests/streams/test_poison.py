"""A claim that keeps failing is cut until its poison message is alone, and only that one is charged for it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from django_dbqueue.models import Message, StreamClaim
from django_dbqueue.streams.ownership import StreamSpec
from tests.factories import QUEUE, MessageFactory
from tests.streams.conftest import STREAM, Query, ids_of, letters, states

pytestmark = pytest.mark.django_db(transaction=True)


def run_until_idle(query: Callable[..., Query], poison: int, *, max_reads: int, at_most: int = 60) -> list[list[int]]:
    """Restart a query that fails on each batch with the poison in it; return what its sink has of each batch."""
    sink: list[list[int]] = []
    offset, begun = 0, None  # of the checkpoint: what is committed, and the batch that is written down
    for _ in range(at_most):
        one = query(spec=StreamSpec(STREAM, QUEUE, max_reads=max_reads), offset=offset)
        while True:
            number = begun or one.next()
            if number is None:
                return sink
            begun = number
            one.plan(number)
            read = one.read(number)
            assert one.read(number) == read  # another task of the batch, or a second look of its function
            if poison in read:
                one.die()
                break
            sink.append(read)
            offset, begun = number, None
            one.offset = number
    raise AssertionError("it never came to an end")


@pytest.mark.parametrize(("count", "place"), [(40, 0), (40, 25), (300, 299), (1, 0)])
def test_a_poison_message_ends_dead_and_its_neighbours_are_delivered_once_and_charged_once(
    query: Callable[..., Query], count: int, place: int
) -> None:
    ids = [message.pk for message in MessageFactory.create_batch(count)]
    poison = ids[place]
    sink = run_until_idle(query, poison, max_reads=3)
    assert sorted(number for batch in sink for number in batch) == [each for each in ids if each != poison]
    dead = Message.objects.dead().get()
    assert dead.pk == poison
    assert dead.read_count == 3
    assert "StreamFailed" in str(dead.error)
    others = Message.objects.exclude(pk=poison)
    assert set(others.values_list("status", "read_count")) <= {("y", 1)}
    assert set(states().values()) == {"acked"}


def test_attempts_are_counted_by_runs_that_read_and_not_by_those_that_plan(query: Callable[..., Query]) -> None:
    MessageFactory.create_batch(32)
    for _ in range(5):  # the sink has the batch already: it is planned again, and never read
        one = query()
        number = one.next()
        one.plan(number)
        one.die()
    assert StreamClaim.objects.get().attempts == 0
    for _ in range(2):
        one = query()
        assert len(one.read(1)) == 32
        one.die()
    three = query()
    assert len(three.read(1)) == 2
    assert list(states()) == list(range(1, 17))


def test_tasks_that_were_planned_before_a_split_read_only_what_is_left(query: Callable[..., Query]) -> None:
    ids = [message.pk for message in MessageFactory.create_batch(32)]
    for _ in range(2):
        query().die_reading()
    three = query()
    [(_, planned)] = three.plan(1)
    assert planned == ((ids[0], ids[-1]),)
    assert three.read(1) == ids[:2]
    three.commit(1)
    assert letters() == ["y", "y"] + ["run"] * 30
    assert three.next() == 2
    assert three.read(2) == ids_of(2) == ids[2:4]


def test_without_a_limit_of_reads_a_poison_message_is_tried_for_ever(query: Callable[..., Query]) -> None:
    MessageFactory(max_reads=0)
    for attempt in range(1, 8):
        one = query()
        one.next()
        assert len(one.read(1)) == 1
        assert Message.objects.get().read_count == attempt
        one.die()


def test_a_message_that_an_operator_took_is_not_charged(query: Callable[..., Query]) -> None:
    message = MessageFactory()
    query().die_reading()
    Message.objects.filter(pk=message.pk).requeue()
    two = query()
    assert two.read(1) == []
    message.refresh_from_db()
    assert (message.status, message.read_count) == ("n", 0)
