"""What passes by itself is tried again, whole, and at the outermost level only."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest
from django.db import DatabaseError, InterfaceError, OperationalError, connection, transaction

from django_dbqueue import retry
from django_dbqueue.databases import transient_errors
from django_dbqueue.lifecycle import django_session
from django_dbqueue.lifecycle.django_session import DjangoSession
from django_dbqueue.models import Message
from tests.concurrency.steps import aside, outcome, waits_for_a_lock
from tests.factories import QUEUE, held, held_many, row, rows, waiting

if TYPE_CHECKING:
    from collections.abc import Callable

transactional = pytest.mark.django_db(transaction=True)


class ServerError(Exception):
    """As a driver raises it: a number first (MySQL), or with an SQLSTATE (PostgreSQL)."""

    def __init__(self, *args: Any, sqlstate: str | None = None) -> None:
        super().__init__(*args)
        if sqlstate is not None:
            self.sqlstate = sqlstate


def database_error(*args: Any, kind: type[DatabaseError] = OperationalError, sqlstate: str | None = None) -> Any:
    error = kind(*args)
    error.__cause__ = ServerError(*args, sqlstate=sqlstate)
    return error


PASSING = [
    database_error(1213, "Deadlock found"),
    database_error(1205, "Lock wait timeout exceeded"),
    database_error("deadlock detected", sqlstate="40P01"),
    database_error("could not serialize access", sqlstate="40001"),
    database_error("lock not available", sqlstate="55P03"),
    database_error("database is locked"),
    database_error("database table is locked: django_dbqueue_message"),
]
LASTING = [
    database_error(1317, "Query execution was interrupted"),
    database_error("canceling statement due to user request", sqlstate="57014"),
    database_error(1062, "Duplicate entry"),
    database_error(1146, "no such table"),
    database_error(2013, "Lost connection"),
    database_error("unique_violation", sqlstate="23505"),
    database_error("no such table: x"),
    ValueError("1213"),
]
GONE = [
    database_error(2006, "MySQL server has gone away"),
    database_error(2013, "Lost connection"),
    database_error(1927, "Connection was killed"),
    database_error("terminating connection due to administrator command", sqlstate="57P01"),
    database_error("connection failure", sqlstate="08006"),
    InterfaceError("connection already closed"),
]


class Clock:
    """Stands still but for who waits for a server."""

    def __init__(self) -> None:
        self.now = 0.0
        self.pauses: list[float] = []
        self.sleep = self.pauses.append

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(transient_errors, "time", clock)
    return clock


@pytest.fixture
def no_pauses(clock: Clock) -> list[float]:
    """What the pauses between tries would have been."""
    return clock.pauses


def failing(errors: list[Any]) -> Callable[[], str]:
    left = list(errors)

    def work() -> str:
        if left:
            raise left.pop(0)
        return "done"

    return work


def outermost(connection: Any, work: Callable[[], Any]) -> Any:
    with patch.object(django_session, "connections", {"default": connection}):
        return DjangoSession("default").outermost(work)


outside = SimpleNamespace(vendor="sqlite", in_atomic_block=False, connection=object(), autocommit=True)
gone = SimpleNamespace(vendor="sqlite", in_atomic_block=False, connection=None, autocommit=False)
inside = SimpleNamespace(vendor="sqlite", in_atomic_block=True, connection=object(), autocommit=False)
by_hand = SimpleNamespace(vendor="sqlite", in_atomic_block=False, connection=object(), autocommit=False)


@pytest.mark.parametrize("error", PASSING, ids=str)
@pytest.mark.parametrize("session", [outside, gone], ids=["there", "gone"])
def test_an_error_that_passes_is_tried_again_outside_a_transaction(
    error: Any, session: Any, no_pauses: list[float]
) -> None:
    assert outermost(session, failing([error] * 3)) == "done"
    assert len(no_pauses) == 3


@pytest.mark.parametrize("error", PASSING, ids=str)
@pytest.mark.parametrize("session", [inside, by_hand], ids=["atomic", "autocommit off"])
def test_no_error_is_tried_again_inside_the_callers_transaction(
    error: Any, session: Any, no_pauses: list[float]
) -> None:
    with pytest.raises(OperationalError):
        outermost(session, failing([error]))
    assert no_pauses == []


@pytest.mark.parametrize("error", LASTING, ids=str)
def test_an_error_that_lasts_is_raised_at_once(error: Any, no_pauses: list[float]) -> None:
    with pytest.raises(type(error)):
        outermost(outside, failing([error]))
    assert no_pauses == []


def test_it_gives_up_in_the_end_and_its_pauses_grow(no_pauses: list[float]) -> None:
    with pytest.raises(OperationalError):
        outermost(outside, failing([PASSING[0]] * 100))
    assert len(no_pauses) == transient_errors.ATTEMPTS - 1
    assert no_pauses[0] < 0.02 < no_pauses[-1] < 2


@pytest.mark.parametrize(("waits", "attempts"), [(50.0, 1), (5.0, 1), (3.0, 2), (1.0, 5), (0.1, 8)])
@pytest.mark.parametrize("error", PASSING, ids=str)
def test_no_attempt_begins_when_five_seconds_are_over(error: Any, waits: float, attempts: int, clock: Clock) -> None:
    made = 0

    def work() -> None:
        nonlocal made
        made += 1
        clock.now += waits
        raise error

    with pytest.raises(OperationalError):
        outermost(outside, work)
    assert made == attempts


@pytest.mark.parametrize("error", GONE, ids=str)
def test_a_server_that_went_away_is_not_asked_again_at_once(error: Any) -> None:
    assert not retry.is_passing(error)


# Real ones


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
        assert acking.result(60) == []
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
        assert isinstance(working.result(60), OperationalError)
    assert not retried.is_set()
    assert (row(first)["status"], row(second)["status"]) == ("run", "run")
    assert not Message.objects.filter(queue="elsewhere").exists()
    assert (first.settled, second.settled) == (False, False)


@transactional
@pytest.mark.parametrize("verb", ["enqueue", "enqueue_many", "claim", "ack", "rescue"])
def test_a_lock_that_is_not_to_be_had_is_asked_for_again_until_it_is(
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
            refuse_at_once()
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
        refuse_at_once()
        assert isinstance(outcome(work), OperationalError)
        other.roll_back()
    connection.close()
    assert not retried.is_set()
    assert rows() == before
    assert not message.settled


@transactional
def test_a_wait_for_a_lock_that_took_the_servers_own_limit_is_not_begun_anew(
    monkeypatch: pytest.MonkeyPatch, database: str
) -> None:
    message = held()
    retried = note_retries(monkeypatch)
    with aside() as other:
        other.open_transaction()
        other.do(lambda: touch(message))
        give_up_after(transient_errors.SECONDS + 1)
        began = time.monotonic()
        with pytest.raises(OperationalError):
            message.ack()
        took = time.monotonic() - began
        other.roll_back()
    assert took >= transient_errors.SECONDS
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
        assert isinstance(doing.result(60), OperationalError)
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
            cursor.execute(f"SET innodb_lock_wait_timeout = {seconds:g}")


def note_retries(monkeypatch: pytest.MonkeyPatch, then: Callable[[], None] | None = None) -> threading.Event:
    """An event for the first retry, at which ``then`` is called instead of a pause."""
    retried = threading.Event()

    def pause(_: float) -> None:
        if not retried.is_set() and then is not None:
            then()
        retried.set()

    monkeypatch.setattr(transient_errors, "time", SimpleNamespace(sleep=pause, monotonic=time.monotonic))
    return retried


def refuse_at_once() -> None:
    """Lets this connection's next lock wait fail instead of waiting; the connection is closed by the next test."""
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute("PRAGMA busy_timeout = 0")
        elif connection.vendor == "postgresql":
            cursor.execute("SET lock_timeout = '200ms'")
        else:
            cursor.execute("SET innodb_lock_wait_timeout = 1")


@pytest.fixture(autouse=True)
def fresh_connection(request: pytest.FixtureRequest) -> Any:
    yield
    if "transactional_db" in request.fixturenames or request.node.get_closest_marker("django_db"):
        connection.close()
