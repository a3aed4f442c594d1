"""What handlers do with a message and with their connection: settle it, write beside it, and leave a mess."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from django.db import OperationalError, connection, transaction

from django_dbqueue.models import Message, Queue
from tests.consumers_app.noting import note, until

if TYPE_CHECKING:
    from collections.abc import Callable


def _ack_in_transaction(message: Message, _what: dict[str, Any]) -> None:
    with transaction.atomic():
        Queue.objects.create(name=f"effect-{message.pk}")
        message.ack()


def _ack_and_roll_back(message: Message, _what: dict[str, Any]) -> None:
    with transaction.atomic():
        message.ack()
        transaction.set_rollback(True)


def _exactly_once(message: Message, what: dict[str, Any]) -> None:
    with message.transaction():
        Queue.objects.create(name=f"effect-{message.pk}")
        if message.read_count <= what.get("fail_times", 0):
            raise ValueError("after the effect")


def _settle(message: Message, what: dict[str, Any]) -> None:
    getattr(message, what["verb"])(**what.get("how", {}))


def _settle_twice(message: Message, what: dict[str, Any]) -> None:
    getattr(message, what["verb"])()
    getattr(message, what["verb"])()


def _extend_and_wait(message: Message, what: dict[str, Any]) -> None:
    """Lock the message's own row, and then wait for a row that somebody else has locked."""
    message.extend(600)
    note("extended", message)
    Queue.objects.filter(name=what["name"]).update(paused_by=str(message.pk))


def _extend_and_sleep(message: Message, what: dict[str, Any]) -> None:
    message.extend()
    time.sleep(what["seconds"])


def _lock_in_turn(message: Message, what: dict[str, Any]) -> None:
    first, second = what["names"]
    Queue.objects.filter(name=first).update(paused_by=str(message.pk))
    note("locked", message)
    until(message, what)
    Queue.objects.filter(name=second).update(paused_by=str(message.pk))


def _hook_that_fails(_message: Message, what: dict[str, Any]) -> None:
    def hook() -> None:
        if what.get("deadlock"):
            raise OperationalError("deadlock") from Exception(1213)
        raise ValueError("after the commit")

    transaction.on_commit(hook)


def _break_connection(_message: Message, what: dict[str, Any]) -> None:
    """Leave the thread's connection in every bad state that a handler can."""
    if what["how"] == "autocommit off":
        transaction.set_autocommit(False)
        Queue.objects.create(name="left-open")
    elif what["how"] == "open atomic":
        transaction.atomic().__enter__()
        Queue.objects.create(name="left-open")
    elif what["how"] == "begun by SQL":
        with connection.cursor() as cursor:
            cursor.execute("SET autocommit = 0" if connection.vendor == "mysql" else "BEGIN")
        Queue.objects.create(name="left-open")
    elif what["how"] == "begun by BEGIN":
        with connection.cursor() as cursor:
            cursor.execute("BEGIN")
        Queue.objects.create(name="left-open")
    elif what["how"] == "begun by the driver":
        connection.ensure_connection()
        cursor = connection.connection.cursor()
        cursor.execute("BEGIN")
        cursor.close()
        Queue.objects.create(name="left-open")
    elif what["how"] == "tables locked":
        with connection.cursor() as cursor:
            cursor.execute("LOCK TABLES django_dbqueue_queue WRITE" if connection.vendor == "mysql" else "BEGIN")
    elif what["how"] == "closed":
        connection.ensure_connection()
        connection.connection.close()


DEEDS: dict[str, Callable[[Message, dict[str, Any]], None]] = {
    "ack in transaction": _ack_in_transaction,
    "ack and roll back": _ack_and_roll_back,
    "exactly once": _exactly_once,
    "break connection": _break_connection,
    "settle": _settle,
    "settle twice": _settle_twice,
    "extend and wait": _extend_and_wait,
    "extend and sleep": _extend_and_sleep,
    "lock in turn": _lock_in_turn,
    "hook that fails": _hook_that_fails,
}
