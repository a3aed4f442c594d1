"""With autocommit off every statement is in a transaction that only the caller commits (P2)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.db import connection, transaction

from django_dbqueue import Envelope
from django_dbqueue.models import Message
from tests.factories import QUEUE, rows, waiting

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def autocommit_off(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Also says of the session that it isn't READ COMMITTED, which can't be changed once a transaction has begun."""
    connection.ensure_connection()
    monkeypatch.setattr(connection, "isolation_level", "repeatable read", raising=False)
    monkeypatch.setitem(connection.settings_dict["OPTIONS"], "isolation_level", "repeatable read")
    transaction.set_autocommit(False)
    yield
    transaction.rollback()
    transaction.set_autocommit(True)


def send_every_way() -> None:
    waiting(key="k")
    waiting(key="k", payload="new", on_conflict="update")
    Message.objects.enqueue_many([Envelope("k"), Envelope("other", key="other"), "third"], queue=QUEUE)


def test_what_was_sent_is_gone_after_a_rollback() -> None:
    send_every_way()
    transaction.rollback()
    assert rows() == []


def test_what_was_sent_is_there_after_a_commit() -> None:
    send_every_way()
    transaction.commit()
    transaction.rollback()
    assert [message.payload for message in Message.objects.order_by("pk")] == ["new", "k", "other", "third"]
