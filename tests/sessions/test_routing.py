"""Every verb runs where it was told to: by db_manager() or using(), by a router, or where the message came from."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from django.apps import apps
from django.db import connections
from django.test import override_settings
from django.test.utils import CaptureQueriesContext

from django_dbqueue import flow
from django_dbqueue.models import ArchivedMessage, Flow, Message, Queue
from tests.factories import QUEUE

pytestmark = pytest.mark.django_db(transaction=True, databases="__all__")

OTHER = "other"


@pytest.fixture(scope="module", autouse=True)
def other(django_db_setup: None) -> Iterator[str]:
    """A second alias for the test database, over a connection of its own; there before a test says which it uses."""
    connections.settings[OTHER] = connections.settings["default"] | {
        "NAME": connections["default"].settings_dict["NAME"]
    }
    yield OTHER
    connections[OTHER].close()
    del connections[OTHER]
    del connections.settings[OTHER]


class QueueRouter:
    """The queue lives elsewhere."""

    def db_for_write(self, model: Any, **_: Any) -> str | None:
        return OTHER if model._meta.app_label == "django_dbqueue" else None

    def db_for_read(self, model: Any, **_: Any) -> str | None:
        return "a replica that does not exist" if model is Message else self.db_for_write(model)


class Using:
    """Says ``using=`` to every verb that it is asked for, and goes through ``using()`` for the rest."""

    VERBS = frozenset(
        {"enqueue", "enqueue_many", "claim", "ack", "nack", "reject", "release", "extend", "rescue", "archive"}
    )

    def __getattr__(self, name: str) -> Any:
        if name in self.VERBS:
            return partial(getattr(Message.objects, name), using=OTHER)
        return getattr(Message.objects.using(OTHER), name)


def live_through_everything(messages: Any) -> None:
    """Every verb of the manager, of the queryset and of a message."""
    one = messages.enqueue("one", queue=QUEUE, key="k")
    assert messages.enqueue("two", queue=QUEUE, key="k", on_conflict="update").outcome == "updated"
    assert messages.enqueue_many(range(5), queue=QUEUE).created == 5
    assert messages.ready(QUEUE).count() == 6
    first, *rest = messages.claim(6, queue=QUEUE)
    assert first.pk == one.pk
    first.extend(70)
    with first.transaction():
        messages.enqueue("by the handler", queue="elsewhere")
    assert first.settled
    assert messages.extend(rest, 0) == []
    assert messages.rescue() == 5
    rest = messages.claim(5, queue=QUEUE)
    rest[0].nack()
    rest[1].reject("unwanted")
    rest[2].release()
    assert messages.nack(rest[3:4]) == []
    assert messages.reject(rest[4:], "unwanted") == []
    assert messages.dead(QUEUE).requeue() == 2
    assert messages.ready(QUEUE).reject_waiting("by me") == 5
    assert messages.dead(QUEUE).send_again() == 5
    assert messages.release(messages.claim(5, queue=QUEUE)) == []
    assert messages.ready().drop_all("by me") == 6
    assert messages.enqueue("three", queue=QUEUE, key="k").outcome == "created"
    assert messages.get_by_key(QUEUE, "k").payload == "three"
    assert messages.drop(QUEUE, "k") is True
    assert messages.archive(QUEUE, older_than=0, limit=1) == 1
    assert messages.all().purge() == messages.count() + 12
    assert messages.count() == 0


def test_db_manager_leads_every_verb_to_its_database(other: str) -> None:
    with CaptureQueriesContext(connections["default"]) as here, CaptureQueriesContext(connections[other]) as there:
        live_through_everything(Message.objects.db_manager(other))
    assert len(here) == 0
    assert len(there) > 50
    assert ArchivedMessage.objects.count() == 13


@pytest.mark.parametrize("messages", [Using(), Message.objects.using(OTHER)], ids=["using=", "using()"])
def test_using_leads_every_verb_to_its_database(messages: Any) -> None:
    with CaptureQueriesContext(connections["default"]) as here:
        live_through_everything(messages)
    assert len(here) == 0


@override_settings(DBQUEUE={"DATABASE": OTHER})
def test_the_setting_leads_every_verb_to_its_database() -> None:
    with CaptureQueriesContext(connections["default"]) as here:
        live_through_everything(Message.objects)
        Queue.objects.pause(QUEUE)
        assert Queue.objects.paused_names() == {QUEUE}
        assert Message.objects.claim(1, queue=QUEUE) == []
    assert len(here) == 0


def test_a_router_leads_every_verb_to_its_database_and_no_read_to_a_replica(other: str) -> None:
    with (
        override_settings(DATABASE_ROUTERS=[QueueRouter()]),
        CaptureQueriesContext(connections["default"]) as here,
        CaptureQueriesContext(connections[other]) as there,
    ):
        live_through_everything(Message.objects)
    assert len(here) == 0
    assert len(there) > 50


def test_using_leads_the_verbs_of_a_selection(other: str) -> None:
    Message.objects.enqueue_many(range(3), queue=QUEUE)
    with CaptureQueriesContext(connections["default"]) as here:
        waiting = Message.objects.using(other).ready(QUEUE)
        assert waiting.reject_waiting("unwanted") == 3
        assert Message.objects.using(other).dead(QUEUE).requeue() == 3
        assert Message.objects.using(other).send_again() == 3
        assert Message.objects.using(other).drop_all("by me") == 6
        assert Message.objects.using(other).purge() == 6
    assert len(here) == 0


def test_a_message_settles_where_it_was_claimed(other: str) -> None:
    Message.objects.enqueue_many(range(2), queue=QUEUE)
    first, second = Message.objects.db_manager(other).claim(2, queue=QUEUE)
    with CaptureQueriesContext(connections["default"]) as here:
        first.ack()
        with second.transaction():
            pass
    assert len(here) == 0
    assert (first.settled, second.settled) == (True, True)


def test_a_pause_is_read_where_the_queue_lives(other: str) -> None:
    with CaptureQueriesContext(connections["default"]) as here:
        Queue.objects.db_manager(other).pause(QUEUE)
        assert Message.objects.db_manager(other).claim(1, queue=QUEUE) == []
        assert Queue.objects.db_manager(other).paused_names() == {QUEUE}
        Queue.objects.db_manager(other).resume(QUEUE)
    assert len(here) == 0


def test_every_table_is_read_where_it_is_written() -> None:
    """By the names of the documentation's examples, without a router."""
    with override_settings(DBQUEUE={"DATABASE": OTHER}):
        for each in apps.get_app_config("django_dbqueue").get_models():
            objects: Any = each._default_manager
            assert objects.all().db == OTHER, each
            assert objects.using("default").db == objects.db_manager("default").all().db == "default", each
        with flow("elsewhere") as f:
            f.enqueue(1, queue=QUEUE)
        assert Flow.objects.get(pk=f.id).progress().total == 1
    with override_settings(DATABASE_ROUTERS=[QueueRouter()]):
        assert Flow.objects.all().db == OTHER
