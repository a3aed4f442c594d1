"""Async tasks: the sessions of the threads that their event loop lends, and their end at a timeout."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection
from django.db.backends.signals import connection_created

from django_dbqueue.models import Message
from django_dbqueue.testing import run_consumers

pytestmark = pytest.mark.django_db(transaction=True)
TIMEOUT = {"QUEUES": {"jobs": {"timeout": 0.05}}}


@pytest.fixture
def opened() -> Iterator[list[Any]]:
    """Every session that is opened, kept from the garbage collector, which would close what nobody else closes."""
    found: list[Any] = []

    def note(sender: type, connection: Any, **_: Any) -> None:
        found.append(connection.connection)

    connection_created.connect(note)
    yield found
    connection_created.disconnect(note)
    for raw in found:
        if raw is not connection.connection and is_open(raw):
            raw.close()


def is_open(raw: Any) -> bool:
    """Ask the driver, without a query."""
    if connection.vendor == "mysql":
        return bool(raw.open)
    if connection.vendor == "postgresql":
        return not raw.closed
    try:
        return isinstance(raw.total_changes, int)
    except connection.Database.ProgrammingError as error:  # it is closed, or it is another thread's
        return "closed database" not in str(error)


def test_the_threads_that_a_task_borrows_leave_no_session_open(odd: Any, opened: list[Any]) -> None:
    results = [odd.query_in_threads.enqueue(4) for _ in range(5)]
    run_consumers("jobs")
    for result in results:
        result.refresh()
        assert result.return_value == [False] * 6
    lent = [raw for raw in opened if raw is not connection.connection]
    assert len(lent) >= len(results)
    assert [raw for raw in lent if is_open(raw)] == []


@pytest.mark.parametrize("name", ["wait_long", "take_no_notice", "take_no_notice_in_one_commit"])
def test_an_async_task_is_cancelled_at_its_timeout_and_has_failed(odd: Any, settings: Any, name: str) -> None:
    settings.DBQUEUE = TIMEOUT
    result = getattr(odd, name).enqueue()
    [handled] = run_consumers("jobs", on_error="collect")
    result.refresh()
    assert ["cleaned up" if name == "wait_long" else "took no notice"] == odd.SEEN
    assert isinstance(handled.error, TimeoutError)
    assert (result.status, result.attempts) == ("READY", 1)
    [error] = result.errors
    assert error.exception_class is TimeoutError
    path = getattr(odd, name).module_path
    assert f"TimedOut: {path} ran longer than its timeout of 0.05 s" in error.traceback
    assert str(Message.objects.get().error).startswith(f"TimedOut: {path} ran longer")
