"""Somebody's open transaction holds up nobody who wants other rows, in a table so small that a scan would pay."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import connection
from django.db.backends.base.base import BaseDatabaseWrapper
from django.test import override_settings

from django_dbqueue import Envelope
from django_dbqueue.databases import server_of
from django_dbqueue.models import Message
from django_dbqueue.statements import moves_sql

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def impatient(transactional_db: None) -> Iterator[None]:
    """A session that waits a second for a lock at most, and fails then."""
    with connection.cursor() as cursor:
        cursor.execute(
            {"mysql": "SET innodb_lock_wait_timeout = 1", "postgresql": "SET lock_timeout = '1s'"}[connection.vendor]
        )
    yield
    connection.close()


@pytest.fixture
def neighbours() -> list[Any]:
    """Three that run, the first of them about to be locked; three ready ones; three done."""
    Message.objects.enqueue_many([Envelope(n, key=f"k{n}") for n in range(9)], queue="a")
    claimed = Message.objects.claim(6, queue="a")
    Message.objects.ack(claimed[3:])
    return claimed[:3]


def _enqueue_again(neighbours: list[Any]) -> bool:
    report = Message.objects.enqueue_many([Envelope(0, key=f"k{n}") for n in (1, 2, 6, 7, 8)], queue="a")
    return report.ignored == 5


def _update(neighbours: list[Any]) -> bool:
    items = [Envelope("new", key=f"k{n}") for n in (1, 2, 6, 7, 8)]
    return Message.objects.enqueue_many(items, queue="a", on_conflict="update").updated == 5


def _claim(neighbours: list[Any]) -> bool:
    return len(Message.objects.claim(9, queue="a")) == 3


def _ack(neighbours: list[Any]) -> bool:
    return Message.objects.ack(neighbours[1:]) == []


@override_settings(DBQUEUE={"DEFAULTS": {"on_ack": "delete"}})
def _ack_and_remove(neighbours: list[Any]) -> bool:
    return Message.objects.ack(neighbours[1:]) == []


@override_settings(DBQUEUE={"DEFAULTS": {"on_ack": "delete"}})
def _ack_and_remove_one(neighbours: list[Any]) -> bool:
    neighbours[2].ack()
    return not Message.objects.filter(pk=neighbours[2].pk).exists()


@override_settings(DBQUEUE={"DEFAULTS": {"dead_retention": 0}})
def _archive_the_dead(neighbours: list[Any]) -> bool:
    assert Message.objects.reject(neighbours[1:]) == []
    return Message.objects.archive(older_than=0) == 5


def _rescue(neighbours: list[Any]) -> bool:
    for message in neighbours[1:]:
        message.extend(0)
    return Message.objects.rescue() == 2


def _purge(neighbours: list[Any]) -> bool:
    return Message.objects.done("a").purge() == 3


def _requeue(neighbours: list[Any]) -> bool:
    rest = [message.pk for message in neighbours[1:]]
    return Message.objects.filter(pk__in=rest).requeue() == 2


@pytest.mark.parametrize(
    "act",
    [
        _enqueue_again,
        _update,
        _claim,
        _ack,
        _ack_and_remove,
        _ack_and_remove_one,
        _archive_the_dead,
        _rescue,
        _purge,
        _requeue,
    ],
)
def test_a_locked_row_holds_up_none_that_want_others(
    impatient: None,
    neighbours: list[Any],
    other_connection: BaseDatabaseWrapper,
    act: Callable[[list[Any]], bool],
) -> None:
    other_connection.set_autocommit(False)
    where = moves_sql.held(server_of(connection), [neighbours[0].claim])
    statement = moves_sql.lock(server_of(connection), where)
    with other_connection.cursor() as cursor:  # as a handler that has acked in its open transaction
        cursor.execute(statement.sql, statement.params)
        assert [row[0] for row in cursor.fetchall()] == [neighbours[0].pk]
        assert act(neighbours)
    other_connection.rollback()
