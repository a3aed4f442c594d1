"""A MySQL whose sessions start with autocommit off greets as if it were on (P1). MariaDB says how it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any

import pytest
from django.db import DatabaseError, connection, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

from django_dbqueue import Envelope
from django_dbqueue.databases.mysql import MySQL
from django_dbqueue.management.spark_settings import credentials_of
from django_dbqueue.models import Message, Queue
from django_dbqueue.sessions import autocommit
from django_dbqueue.spark.connection import Connection
from tests.factories import QUEUE, claim_one, rows, waiting
from tests.whole_server import WholeServer

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def without(
    other_connection: BaseDatabaseWrapper, whole_server: WholeServer
) -> Callable[[], AbstractContextManager[None]]:
    """Lets sessions that begin within its block begin without; no longer, for others begin theirs meanwhile."""
    other_connection.ensure_connection()
    return lambda: whole_server.saying(other_connection, "autocommit", 0)


@pytest.fixture
def begun_without(without: Callable[[], AbstractContextManager[None]]) -> Iterator[None]:
    connection.close()
    with without():
        connection.connect()
    yield
    connection.close()


def is_autocommit(cursor: Any) -> bool:
    cursor.execute("SELECT @@SESSION.autocommit")
    return bool(cursor.fetchone()[0])


def is_on() -> bool:
    with connection.cursor() as cursor:
        return is_autocommit(cursor)


def _enqueue() -> None:
    waiting()


def _enqueue_with_a_key() -> None:
    waiting(key="k")


def _enqueue_many() -> None:
    Message.objects.enqueue_many([Envelope("a"), Envelope("b", key="k")], queue=QUEUE)


@pytest.mark.parametrize("send", [_enqueue, _enqueue_with_a_key, _enqueue_many])
@pytest.mark.usefixtures("begun_without")
def test_what_enqueue_returned_is_there_when_the_session_has_ended(send: Callable[[], None]) -> None:
    send()
    connection.close()
    assert rows() != []


@pytest.mark.usefixtures("begun_without")
def test_what_is_written_after_a_claim_and_an_ack_is_there_too() -> None:
    waiting()
    claim_one().ack()
    waiting()
    connection.close()
    assert [row.status for row in Message.objects.order_by("pk")] == ["y", "n"]


def test_a_row_that_a_handler_writes_in_its_own_thread_is_there_when_the_thread_has_ended(
    without: Callable[[], AbstractContextManager[None]],
) -> None:
    with ThreadPoolExecutor(1) as thread:
        with without():
            thread.submit(lambda: connection.ensure_connection()).result()
        thread.submit(Queue.objects.create, name="a handler's").result()
        thread.submit(connections.close_all).result()
    assert Queue.objects.filter(name="a handler's").exists()


@pytest.mark.usefixtures("begun_without")
def test_who_asks_for_autocommit_off_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_on()
    monkeypatch.setitem(connection.settings_dict, "AUTOCOMMIT", False)
    connection.close()
    connection.connect()
    assert not is_on()


def test_a_session_that_began_before_the_app_was_ready_is_switched_on_too() -> None:
    connection.ensure_connection()
    with connection.cursor() as cursor:
        cursor.execute("SET autocommit = 0")
    autocommit.connect()
    assert is_on()


def test_a_session_that_could_not_be_set_up_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    connection.close()
    monkeypatch.setattr(MySQL, "autocommits", "SET SESSION no_such_variable = 1")
    with pytest.raises(DatabaseError, match="no_such_variable"):
        waiting()
    assert connection.connection is None
    monkeypatch.undo()
    assert rows() == []


def test_a_session_whose_commits_begin_the_next_transaction_keeps_nothing_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    options = connection.settings_dict["OPTIONS"]
    monkeypatch.setitem(options, "init_command", f"{options['init_command']}, completion_type = 'CHAIN'")
    connection.close()
    waiting()
    claim_one().ack()
    waiting()
    connection.close()
    monkeypatch.undo()
    assert [row.status for row in Message.objects.order_by("pk")] == ["y", "n"]


def test_a_session_of_the_pipeline_commits_too(without: Callable[[], AbstractContextManager[None]]) -> None:
    with without():
        own = Connection(credentials_of("default"))
    with own:
        assert is_autocommit(own.raw.cursor())


def test_the_listener_hears_of_each_session_once() -> None:
    autocommit.connect()
    autocommit.connect()
    receivers = [name for name, *_ in connection_created.receivers if "django_dbqueue.sessions.autocommit" in name]
    assert len(receivers) == 1
