"""Whoever counts, and whatever else goes on meanwhile: each message that ended is counted once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial

import pytest
from django.db import connection, connections

from django_dbqueue.insight import counter
from django_dbqueue.insight.counter import Counter
from django_dbqueue.models import ALL_QUEUES, ArchivedMessage, Message, Mutex, QueueStatistic, StatisticProgress
from django_dbqueue.sessions.django_session import DjangoSession
from django_dbqueue.statuses import DONE
from tests.concurrency.steps import aside, meet
from tests.factories import QUEUE, done
from tests.insight.passing import HOUR, begin, count, let_pass, minutes
from tests.process.conftest import wait_until

pytestmark = pytest.mark.django_db(transaction=True)
MINUTE = timedelta(minutes=1)
SEEN = connection.vendor != "sqlite"
"""SQLite's second writer waits at the door."""


@pytest.fixture(autouse=True)
def long_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine must not cut a turn short."""
    monkeypatch.setattr(counter, "SECONDS", 30)


def turn() -> bool:
    return Counter(DjangoSession("default")).turn()


def test_the_second_writer_passes_by_while_the_first_has_not_committed() -> None:
    begin()
    done()
    let_pass(MINUTE)
    met = meet(turn, turn, waits=False)
    assert (met.first, met.second) == (False, False)
    assert minutes(QUEUE)["messages"] == minutes(ALL_QUEUES)["messages"] == 1


def test_when_the_first_writer_is_rolled_back_the_next_counts_all() -> None:
    begin()
    done()
    let_pass(MINUTE)
    meet(turn, turn, then_roll_back=True, waits=False)
    count()
    assert minutes(QUEUE)["messages"] == 1


def test_who_finds_another_at_the_first_count_ever_passes_by() -> None:
    Mutex.objects.create(name=counter.MUTEX)
    done()
    met = meet(turn, turn, waits=False)
    assert (met.first, met.second) == (False, False)
    assert StatisticProgress.objects.count() == 1


def test_two_who_are_the_first_ever_make_one_beginning() -> None:
    assert not Mutex.objects.exists()
    done()
    met = meet(turn, turn)
    assert not isinstance(met.second, Exception), met.second
    let_pass(HOUR)
    count()
    assert StatisticProgress.objects.count() == 1
    assert minutes(QUEUE)["messages"] == 1


if SEEN:

    def test_a_writer_that_is_killed_has_counted_nothing_and_holds_nothing_up() -> None:
        begin()
        done()
        let_pass(MINUTE)
        with aside() as victim:
            victim.open_transaction()
            victim.do(turn)
            assert minutes(QUEUE)["messages"] == 0
            with connection.cursor() as cursor:
                kill = "SELECT pg_terminate_backend(%s)" if connection.vendor == "postgresql" else "KILL %s"
                cursor.execute(kill, [victim.session])
            victim.do(lambda: connections["default"].connection.close() if connection.vendor == "postgresql" else None)

            def counted() -> int:
                count()
                return int(minutes(QUEUE)["messages"])

            wait_until(counted, "the server to let the victim's locks go")
            victim.do(lambda: connections["default"].close())
        assert minutes(QUEUE)["messages"] == 1


def produce_and_work(queue: str, count: int) -> None:
    """Send ``count`` messages, and ack until none of the queue is left."""
    for number in range(count):
        Message.objects.enqueue(number, queue=queue, priority=number % 3)
        Message.objects.ack(Message.objects.claim(5, queue=queue))
    while Message.objects.filter(queue=queue).exclude(status=DONE).exists():
        Message.objects.ack(Message.objects.claim(5, queue=queue))


def errors_of(
    producers: Sequence[Callable[[], None]], others: Sequence[Callable[[], None]], over: threading.Event
) -> list[Exception]:
    """Run all in threads at once, the others until the producers have ended and ``over`` is set; return what failed."""
    errors: list[Exception] = []

    def guarded(work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:
            errors.append(error)
        finally:
            connections.close_all()

    first, second = (
        [threading.Thread(target=guarded, args=(work,)) for work in works] for works in (producers, others)
    )
    for thread in (*first, *second):
        thread.start()
    for thread in first:
        thread.join()
    over.set()
    for thread in second:
        thread.join()
    return errors


def test_with_producers_workers_an_archiver_and_two_writers_each_message_is_counted_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begin()
    for name, value in {"ROWS": 20, "FRESH_EVERY": timedelta(0), "BEHIND": timedelta(0), "SECONDS": 0}.items():
        monkeypatch.setattr(counter, name, value)
    each, queues = 30, ("q1", "q2")
    over = threading.Event()

    def archive() -> None:
        while not over.is_set():
            for queue in queues:
                Message.objects.archive(queue, older_than=0)

    def write() -> None:
        counter = Counter(DjangoSession("default"))
        while not over.is_set():
            counter.turn()

    producers = [partial(produce_and_work, queue, each) for queue in queues]
    assert errors_of(producers, (archive, write, write), over) == []
    monkeypatch.undo()
    let_pass(HOUR)
    count()
    for queue in queues:
        assert Message.objects.done(queue).count() + ArchivedMessage.objects.filter(queue=queue).count() == each
        assert minutes(queue)["messages"] == minutes(queue)["waits"] == minutes(queue)["runs"] == each
        assert sum(row.messages for row in QueueStatistic.objects.filter(queue=queue)) == each
    assert minutes(ALL_QUEUES)["messages"] == 2 * each
