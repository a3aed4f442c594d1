"""Each verb inside a caller's REPEATABLE READ transaction that began to read before the row was changed.

MariaDB refuses what meets such a row where ``innodb_snapshot_isolation`` is on, as it is by default from 11.6.2 on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import OperationalError, connection, connections, transaction

from django_dbqueue import Envelope, flow
from django_dbqueue.models import Edge, Flow, Message, Step
from tests.concurrency.steps import aside
from tests.factories import QUEUE, held, row, waiting

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def at_repeatable_read(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As OPTIONS of a project say it, on a server that judges by snapshots, where it knows how to."""
    options = connection.settings_dict["OPTIONS"]
    monkeypatch.setitem(options, "isolation_level", "repeatable read")
    vars(connections["default"]).pop("_dbqueue_judges_by_snapshots", None)
    connection.close()
    with connection.cursor() as cursor:
        cursor.execute("SHOW SESSION VARIABLES LIKE 'innodb_snapshot_isolation'")
        if cursor.fetchall():
            cursor.execute("SET SESSION innodb_snapshot_isolation = ON")
    yield
    vars(connections["default"]).pop("_dbqueue_judges_by_snapshots", None)
    connection.close()


def change(message: Message) -> None:
    """As a heartbeat does, on its own connection."""

    def extend() -> None:
        Message.objects.filter(pk=message.pk).update(lease_seconds=77)
        connections.close_all()

    with ThreadPoolExecutor(1) as thread:
        thread.submit(extend).result()


@pytest.mark.parametrize(
    ("verb", "status", "came_of_it"),
    [
        (lambda _: waiting(key="k", payload=2).outcome, "run", "ignored"),
        (lambda _: waiting(key="k", payload=2, on_conflict="update").outcome, "n", "updated"),
        (lambda _: Message.objects.enqueue_many([1, 2], queue=QUEUE).created, "run", 2),
        (lambda message: message.ack(), "y", None),
        (lambda message: Message.objects.ack([message]), "y", []),
        (lambda message: message.nack(error="Mistake: a new one"), "n", None),
        (lambda message: message.reject("unwanted"), "n", None),
        (lambda message: message.release(), "n", None),
        (lambda message: message.extend(60), "run", None),
        (lambda _: Message.objects.drop(QUEUE, "k"), "y", True),
        (lambda message: int(Message.objects.filter(pk=message.pk).requeue()), "n", 1),
        (lambda message: Message.objects.get_by_key(QUEUE, "k") == message, "run", True),
    ],
    ids=[
        *("enqueue", "enqueue and update", "enqueue_many", "ack", "ack many", "nack"),
        *("reject", "release", "extend", "drop", "requeue", "get_by_key"),
    ],
)
def test_a_verb_does_what_it_should_with_a_row_that_has_changed_since_the_first_read(
    verb: Callable[[Message], Any], status: str, came_of_it: Any
) -> None:
    message = held(key="k")
    with transaction.atomic():
        assert Message.objects.count() == 1
        change(message)
        assert verb(message) == came_of_it
    assert row(message)["status"] == status


def test_a_handler_whose_lease_is_extended_while_it_runs_is_acked_with_its_rows() -> None:
    message = held()
    with message.transaction():
        assert Message.objects.count() == 1
        waiting(payload="the handler's", queue="elsewhere")
        change(message)
    assert row(message)["status"] == "y"
    assert Message.objects.filter(queue="elsewhere").count() == 1


def test_the_callers_own_statements_are_judged_as_ever() -> None:
    message = held(key="k")

    def work() -> None:
        with transaction.atomic():
            assert Message.objects.count() == 1
            change(message)
            assert waiting(key="k").outcome == "ignored"
            Message.objects.filter(pk=message.pk).update(priority=7)

    with connection.cursor() as cursor:
        cursor.execute("SHOW SESSION VARIABLES LIKE 'innodb_snapshot_isolation'")
        judges = bool(cursor.fetchall())
    if not judges:
        work()
        return
    with pytest.raises(OperationalError, match="1020"):
        work()
    assert (row(message)["status"], row(message)["priority"]) == ("run", 0)


def elsewhere(work: Callable[[], object]) -> None:
    with aside() as other:
        other.do(work)


def test_a_flow_of_which_something_has_ended_is_cancelled() -> None:
    with flow("f") as f:
        f.enqueue_many([1, 2, 3], queue=QUEUE)
    with transaction.atomic():
        assert Message.objects.count() == 3
        elsewhere(lambda: Message.objects.ack(Message.objects.claim(2, queue=QUEUE)))
        assert Flow.objects.cancel(f.id) == 1
    assert Flow.objects.get(pk=f.id).progress().all_finished


def test_a_message_of_a_flow_of_another_session_waits_with_its_new_content() -> None:
    def send() -> None:
        with flow("f") as f:
            f.enqueue(Envelope("last", key="k"), queue=QUEUE, after=f.enqueue("first", queue=QUEUE))

    with transaction.atomic():
        assert not Message.objects.exists()
        assert not Edge.objects.exists()
        elsewhere(send)
        assert waiting(key="k", payload="new", on_conflict="update").outcome == "updated"
    [first] = Message.objects.claim(9, queue=QUEUE)
    assert first.payload == "first"
    first.ack()
    assert [each.payload for each in Message.objects.claim(9, queue=QUEUE)] == ["new"]


def test_steps_of_another_session_are_forgotten_with_the_old_content() -> None:
    message = held(key="k")
    with transaction.atomic():
        assert not Step.objects.exists()
        elsewhere(lambda: message.step("charge", lambda: "the old one"))
        assert waiting(key="k", payload="new", on_conflict="update").outcome == "updated"
    assert not Step.objects.exists()
