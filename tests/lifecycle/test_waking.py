"""Enqueue wakes those who wait, by NOTIFY: PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.conf import settings
from django.db import connection, transaction
from django.test import override_settings
from django.test.utils import CaptureQueriesContext

from django_dbqueue.models import Message

if settings.TEST_DATABASE != "postgres":
    pytest.skip("no other database wakes anybody", allow_module_level=True)

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def heard() -> Iterator[Callable[[], list[str]]]:
    """What has come to a session that listens; one of its own statements shows that no more is under way."""
    listener: Any = connection.copy()
    with listener.cursor() as cursor:
        cursor.execute("LISTEN django_dbqueue")

    def come() -> list[str]:
        with listener.cursor() as cursor:
            cursor.execute("SELECT 1")
        return [each.payload for each in listener.connection.notifies(timeout=0)]

    yield come
    listener.close()


def test_enqueue_inserts_and_wakes_by_one_statement(heard: Callable[[], list[str]]) -> None:
    with CaptureQueriesContext(connection) as queries:
        message = Message.objects.enqueue({"n": 1}, queue="emails")
    assert len(queries) == 1
    assert Message.objects.get().pk == message.pk
    assert heard() == ["emails"]


def test_a_delayed_message_and_one_with_a_key_wake_too(heard: Callable[[], list[str]]) -> None:
    Message.objects.enqueue({"n": 1}, queue="emails", delay=60)
    Message.objects.enqueue({"n": 1}, queue="others", key="k")
    assert heard() == ["emails", "others"]


def test_none_is_woken_before_the_callers_commit(heard: Callable[[], list[str]]) -> None:
    with transaction.atomic():
        Message.objects.enqueue({"n": 1}, queue="emails")
        assert heard() == []
    assert heard() == ["emails"]


def test_a_message_that_is_ignored_wakes_none(heard: Callable[[], list[str]]) -> None:
    Message.objects.enqueue({"n": 1}, queue="emails", key="k")
    heard()
    assert Message.objects.enqueue({"n": 2}, queue="emails", key="k").outcome == "ignored"
    assert heard() == []


@override_settings(DBQUEUE={"NOTIFY": False})
def test_none_is_woken_where_the_setting_forbids_it(heard: Callable[[], list[str]]) -> None:
    Message.objects.enqueue({"n": 1}, queue="emails")
    assert heard() == []
