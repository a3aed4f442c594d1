"""Article 002's weaknesses once more, where ours are routines too: MySQL, MariaDB, PostgreSQL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.auth.models import Group
from django.db import connection

from django_dbqueue.models import Message
from django_dbqueue.models.fields import DbNow
from django_dbqueue.routines import installation
from django_dbqueue.sessions.django_session import DjangoSession
from tests.concurrency.steps import meet
from tests.factories import QUEUE, row, waiting
from tests.systems.articles import ask, by_default, in_its_own_dialect, on_servers, rolled_back, run

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def installed(transactional_db: None) -> Iterator[None]:
    installation.install(DjangoSession("default"))
    yield
    installation.uninstall(DjangoSession("default"))


def call(routine: str, *params: Any) -> list[tuple[Any, ...]]:
    """The rows that a routine gives."""
    holes = ", ".join(["%s"] * len(params))
    if connection.vendor == "postgresql":
        return ask(f"SELECT * FROM {routine}({holes})", *params)
    with connection.cursor() as cursor:
        cursor.execute(f"CALL {routine}({holes})", params)
        found = list(cursor.fetchall())
        cursor.nextset()
        return found


def get(queue: str = QUEUE) -> list[int]:
    return [found[0] for found in call("get_message_from_queue", queue)]


def put(queue: str = QUEUE) -> int:
    return int(ask("SELECT put_message_in_queue(%s, '{}', 2, 60)", queue)[0][0])


def claim(lease: float) -> tuple[int, int]:
    """The id and the token of one message."""
    [(message_id, token, *_)] = call("claim_messages", QUEUE, 1, lease)
    return message_id, token


def ack(message_id: int, token: int) -> bool:
    return bool(ask("SELECT ack_message(%s, %s)", message_id, token)[0][0])


@on_servers
def test_ours_a_routines_read_of_an_empty_queue_holds_up_neither_readers_nor_senders() -> None:
    message = waiting()
    met = meet(by_default(lambda: get("empty")), get, waits=False)
    assert (met.first, met.second) == ([], [message.pk])
    met = meet(by_default(lambda: get("empty")), put, waits=False)
    assert row(Message.objects.get(pk=met.second))["status"] == "n"


@on_servers
def test_ours_of_two_routines_readers_each_gets_one_of_two_messages_and_neither_waits() -> None:
    one, two = waiting(), waiting()
    met = meet(by_default(get), get, waits=False)
    assert (met.first, met.second) == ([one.pk], [two.pk])


@on_servers
def test_ours_a_routine_is_undone_with_its_callers_work() -> None:
    message = waiting()

    def work_and_call() -> None:
        Group.objects.create(name="half done")
        assert ack(*claim(60))

    rolled_back(work_and_call)
    assert not Group.objects.exists()
    assert row(message)["status"] == "n"
    assert get() == [message.pk]


@on_servers
def test_ours_a_routine_that_names_the_token_refuses_who_was_too_slow() -> None:
    message = waiting()
    slow = claim(60)
    Message.objects.filter(pk=message.pk).update(available_at=DbNow())
    second = claim(60)
    assert slow[0] == second[0] == message.pk
    assert not ack(*slow)
    assert row(message)["status"] == "run"
    assert ack(*second)


@in_its_own_dialect
def test_ours_routines_leave_their_callers_variables_alone() -> None:
    run("SET @id = 'mine', @payload = 'mine', @queue_name = 'mine', @_now = 'mine', @_id = 'mine', @LID = 'mine'")
    put()
    get()
    put()
    assert ack(*claim(60))
    assert ask("SELECT @id, @payload, @queue_name, @_now, @_id, @LID") == [("mine",) * 6]
