"""With autocommit off every statement is in a transaction that only the caller commits (P2)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.db import connection, transaction

from django_dbqueue import Envelope, TransactionNotAllowed, flow
from django_dbqueue.models import Event, Message
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


def test_what_is_settled_is_settled_by_the_callers_commit_and_others_go_on() -> None:
    transaction.set_autocommit(True)
    Message.objects.enqueue_many([Envelope("in a group", group="g"), Envelope("behind it", group="g")], queue=QUEUE)
    Message.objects.enqueue("alone", queue=QUEUE)
    with flow("f") as f:
        f.enqueue("last", queue=QUEUE, after=f.enqueue("first", queue=QUEUE))
    held = sorted(Message.objects.claim(9, queue=QUEUE), key=lambda each: str(each.payload))
    assert [each.payload for each in held] == ["alone", "first", "in a group"]
    transaction.set_autocommit(False)
    for message in held:  # on SQLite the first has to begin a transaction, which a savepoint does not
        message.ack()
    transaction.rollback()
    assert {each.status for each in Message.objects.filter(pk__in=[each.pk for each in held])} == {"run"}
    for message in held:
        message.ack()
    transaction.commit()
    transaction.set_autocommit(True)
    assert {each.payload for each in Message.objects.claim(9, queue=QUEUE)} == {"behind it", "last"}


def test_no_event_is_emitted_with_autocommit_off() -> None:
    with pytest.raises(TransactionNotAllowed, match="autocommit off"):
        Event.objects.emit("e")
    assert not Event.objects.exists()
