"""Deadlocks and locks that are held too long: retried, whole, and at the outermost level only."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import OperationalError, connection, transaction

from django_dbqueue.databases import retries
from django_dbqueue.models import Message
from tests.concurrency.steps import aside, outcome, waits_for_a_lock
from tests.factories import QUEUE, held, held_many, row, rows, waiting
from tests.patience import patience

transactional = pytest.mark.django_db(transaction=True)


def touch(message: Message, times: int = 1) -> None:
    """Writes the row, and with it holds its lock."""
    for number in range(times):
        Message.objects.filter(pk=message.pk).update(worker_id=number)


def weigh(messages: list[Message]) -> None:
    """A transaction that wrote much is not the one that InnoDB sacrifices; PostgreSQL is asked to be patient."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL deadlock_timeout = '30s'")
    Message.objects.filter(pk__in=[message.pk for message in messages]).update(worker_id=1)


@transactional
def test_a_batch_that_is_the_victim_of_a_deadlock_is_acked_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    if connection.vendor == "sqlite":
        return  # one writer at a time: there are no deadlocks; its own case follows below
    first, second, *ballast = held_many(60)
    retried = note_retries(monkeypatch)
    with aside() as one, aside() as other:
        one.open_transaction()
        one.do(lambda: weigh([*ballast, second]))
        acking = other.begin(lambda: outcome(lambda: Message.objects.ack([first, second])))
        assert waits_for_a_lock(other.session, acking)
        one.do(lambda: touch(first))
        one.commit()
        assert acking.result(patience(60)) == []
    assert retried.is_set()
    assert (row(first)["status"], row(second)["status"]) == ("y", "y")


@transactional
def test_a_deadlock_inside_the_callers_transaction_is_raised_and_nothing_of_it_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if connection.vendor == "sqlite":
        return
    first, second, *ballast = held_many(60)
    retried = note_retries(monkeypatch)

    def work() -> None:
        with transaction.atomic():
            waiting(payload="the work", queue="elsewhere")
            Message.objects.ack([first, second])

    with aside() as one, aside() as other:
        one.open_transaction()
        one.do(lambda: weigh([*ballast, second]))
        working = other.begin(lambda: outcome(work))
        assert waits_for_a_lock(other.session, working)
        one.do(lambda: touch(first))
        one.commit()
        assert isinstance(working.result(patience(60)), OperationalError)
    assert not retried.is_set()
    assert (row(first)["status"], row(second)["status"]) == ("run", "run")
    assert not Message.objects.filter(queue="elsewhere").exists()
    assert (first.settled, second.settled) == (False, False)


@transactional
@pytest.mark.parametrize("verb", ["enqueue", "enqueue_many", "claim", "ack", "rescue"])
def test_a_lock_that_is_not_to_be_had_is_requested_again_until_it_is(
    verb: str, monkeypatch: pytest.MonkeyPatch, database: str
) -> None:
    """SQLite refuses a second writer; it is let in at the first retry. Elsewhere nothing is refused here."""
    message = held(key="k")
    waiting(payload="due")
    verbs: dict[str, Callable[[], Any]] = {
        "enqueue": lambda: waiting(payload="new").outcome == "created",
        "enqueue_many": lambda: Message.objects.enqueue_many([1, 2], queue=QUEUE).created == 2,
        "claim": lambda: len(Message.objects.claim(1, queue=QUEUE)) == 1,
        "ack": lambda: Message.objects.ack([message]) == [],
        "rescue": lambda: Message.objects.rescue(QUEUE) == 0,
    }
    with aside() as other:
        if database == "sqlite":
            other.open_transaction()
            give_up_after(0.2)
            retried = note_retries(monkeypatch, then=other.commit)
        assert verbs[verb]() is True
        if database == "sqlite":
            assert retried.is_set() or verb == "rescue"


@transactional
def test_a_lock_that_is_not_to_be_had_inside_the_callers_transaction_is_raised(
    monkeypatch: pytest.MonkeyPatch, database: str
) -> None:
    """On SQLite the caller's atomic() itself is refused; elsewhere a lock wait is made to time out."""
    message = held(key="k")
    before = rows()
    retried = note_retries(monkeypatch)

    def work() -> None:
        with transaction.atomic():
            waiting(payload="the work", queue="elsewhere")
            message.ack()

    with aside() as other:
        other.open_transaction()
        other.do(lambda: touch(message))
        give_up_after(0.2)
        assert isinstance(outcome(work), OperationalError)
        other.roll_back()
    connection.close()
    assert not retried.is_set()
    assert rows() == before
    assert not message.settled


@transactional
def test_a_wait_for_a_lock_that_took_the_servers_own_limit_is_not_begun_again(
    monkeypatch: pytest.MonkeyPatch, database: str
) -> None:
    message = held()
    retried = note_retries(monkeypatch)
    with aside() as other:
        other.open_transaction()
        other.do(lambda: touch(message))
        give_up_after(retries.SECONDS + 1)
        began = time.monotonic()
        with pytest.raises(OperationalError):
            message.ack()
        took = time.monotonic() - began
        other.roll_back()
    assert took >= retries.SECONDS
    assert not retried.is_set()
    connection.close()
    message.ack()
    assert row(message)["status"] == "y"


@transactional
@pytest.mark.parametrize("verb", ["enqueue", "ack"])
def test_what_a_database_administrator_cancels_does_not_come_again(verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if connection.vendor == "sqlite":
        return  # nobody can cancel another's statement
    message = held(key="k")
    retried = note_retries(monkeypatch)
    deeds: dict[str, Callable[[], Any]] = {
        "enqueue": lambda: waiting(payload="new", key="k", on_conflict="update"),
        "ack": message.ack,
    }
    with aside() as one, aside() as other:
        one.open_transaction()
        one.do(lambda: touch(message))
        doing = other.begin(lambda: outcome(deeds[verb]))
        assert waits_for_a_lock(other.session, doing)
        cancel(other.session)
        assert isinstance(doing.result(patience(60)), OperationalError)
        one.roll_back()
    assert not retried.is_set()
    assert row(message)["status"] == "run"


def cancel(session: int) -> None:
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SELECT pg_cancel_backend(%s)", [session])
        else:
            cursor.execute(f"KILL QUERY {session}")


def give_up_after(seconds: float) -> None:
    """Let this connection wait for so long for a lock; it is closed by the next test."""
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute(f"PRAGMA busy_timeout = {seconds * 1000:.0f}")
        elif connection.vendor == "postgresql":
            cursor.execute(f"SET lock_timeout = '{seconds:g}s'")
        else:
            cursor.execute(f"SET innodb_lock_wait_timeout = {max(1, seconds):g}")


def note_retries(monkeypatch: pytest.MonkeyPatch, then: Callable[[], None] | None = None) -> threading.Event:
    """An event for the first retry, at which ``then`` is called instead of a pause."""
    retried = threading.Event()

    def pause(_: float) -> None:
        if not retried.is_set() and then is not None:
            then()
        retried.set()

    monkeypatch.setattr(retries, "time", SimpleNamespace(sleep=pause, monotonic=time.monotonic))
    return retried


@pytest.fixture(autouse=True)
def fresh_connection(request: pytest.FixtureRequest) -> Any:
    yield
    if "transactional_db" in request.fixturenames or request.node.get_closest_marker("django_db"):
        connection.close()
