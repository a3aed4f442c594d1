"""Which errors are transient, and how often and for how long those are retried."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest
from django.db import DatabaseError, InterfaceError, OperationalError

from django_dbqueue.databases import retries
from django_dbqueue.sessions import django_session, retry
from django_dbqueue.sessions.django_session import DjangoSession


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
    database_error(1290, "The server is read-only"),
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
    for module in (django_session, retries):
        monkeypatch.setattr(module, "time", clock)
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
    assert len(no_pauses) == retries.ATTEMPTS - 1
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
def test_a_server_that_went_away_is_not_tried_again_at_once(error: Any) -> None:
    assert not retry.is_passing(error)
