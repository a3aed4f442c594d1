"""The factory makes what the package's own verbs make."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connection

from django_dbqueue import InvalidMessage, LeaseLost
from django_dbqueue.models import Group, Line, Message, Ticket
from django_dbqueue.testing import MessageFactory
from tests.factories import row

if TYPE_CHECKING:
    from pytest_django.fixtures import SettingsWrapper

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("state", ["ready", "delayed", "waiting", "running", "stuck", "done", "dead"])
def test_a_message_is_in_the_state_that_was_requested_and_in_no_other(state: str) -> None:
    first = MessageFactory(queue="q")  # and another one before it isn't touched
    stored = row(first)
    message = MessageFactory(queue="q", state=state)
    others = {first.pk, *Message.objects.filter(body__contains="before the one").values_list("pk", flat=True)}
    found = {
        name: {each.pk for each in getattr(Message.objects, name)("q")} - others
        for name in ("ready", "delayed", "waiting", "running", "stuck", "done", "dead")
    }
    assert found == {name: {message.pk} if name == state else set() for name in found}
    assert row(first) == stored


def test_what_is_given_goes_to_enqueue() -> None:
    message = MessageFactory(queue="q", payload="x", key="k", priority=3, max_reads=2, lease=9, headers={"a": 1})
    stored = row(message)
    assert (message.payload, message.headers) == ("x", {"a": 1})
    assert (stored["key"], stored["priority"], stored["max_reads"], stored["lease_seconds"]) == ("k", 3, 2, 9)
    assert MessageFactory(queue="q", key="k").outcome == "ignored"


def test_payloads_differ_where_none_is_given() -> None:
    assert MessageFactory().payload != MessageFactory().payload


def test_a_delayed_one_is_due_when_it_is_set_or_in_an_hour() -> None:
    for options, delay in (({}, 3600), ({"delay": 60}, 60)):
        stored = row(MessageFactory(state="delayed", **options))
        assert stored["due_at"] - stored["created_at"] == timedelta(seconds=delay)


def test_a_running_one_is_held_by_who_made_it() -> None:
    message = MessageFactory(state="running")
    stored = row(message)
    assert (stored["status"], stored["read_count"], stored["claim_token"]) == ("run", 1, message.held_token)
    if connection.vendor != "sqlite":
        assert stored["conn_id"]
    message.ack()
    assert row(message)["status"] == "y"


def test_a_stuck_ones_holder_has_lost_it_once_it_is_rescued() -> None:
    message = MessageFactory(queue="q", state="stuck", lease=30)
    assert row(message)["lease_seconds"] == 30
    assert Message.objects.rescue("q") == 1
    with pytest.raises(LeaseLost):
        message.ack()


def test_a_dead_one_has_its_reason() -> None:
    assert row(MessageFactory(state="dead", reason="no such user"))["error"] == "no such user"


def test_a_state_that_is_none_is_refused_and_nothing_is_written() -> None:
    with pytest.raises(
        ValueError, match="state must be one of ready, delayed, waiting, running, stuck, dead, done, not"
    ):
        MessageFactory(state="odd")
    assert not Message.objects.exists()


def test_a_message_whose_key_runs_already_cannot_be_made_running() -> None:
    MessageFactory(key="k", state="running")
    with pytest.raises(ValueError, match="can't be claimed: its key is that of a message that is running"):
        MessageFactory(key="k", state="done")


def test_one_that_is_built_needs_no_database(django_assert_num_queries: Any) -> None:
    with django_assert_num_queries(0):
        message = MessageFactory.build(queue="q", payload={"to": "ann"}, key="k", headers={"a": 1}, priority=4)
        assert (message.payload, message.headers) == ({"to": "ann"}, {"a": 1})
        assert (message.pk, message.queue, message.key, message.priority) == (None, "q", "k", 4)
    with pytest.raises(InvalidMessage, match="not JSON"):
        MessageFactory.build(payload=object())


def test_a_message_waits_because_others_of_its_group_run(settings: SettingsWrapper) -> None:
    settings.DBQUEUE = {"QUEUES": {"wide": {"group_limit": 3}, "whole": {"group": "*"}}}
    first, second = (MessageFactory(queue="wide", state="waiting", group="a", payload=number) for number in (1, 2))
    assert Message.objects.running("wide").count() == 3
    assert Group.objects.order("wide", "a") == [first.pk, second.pk]
    for message in Message.objects.running("wide"):
        Message.objects.filter(pk=message.pk).drop_all("done with it")
    assert [message.payload for message in Message.objects.claim(9, queue="wide")] == [1, 2]
    whole = MessageFactory(queue="whole", state="waiting")
    assert whole.group == "*"
    assert Group.objects.order("whole", "*") == [whole.pk]


def test_one_whose_group_is_paused_waits_without_others() -> None:
    Group.objects.pause("q", "a")
    message = MessageFactory(queue="q", state="waiting", group="a")
    assert list(Message.objects.all()) == [message]


@pytest.mark.parametrize("state", ["running", "stuck", "done", "dead"])
def test_one_of_a_group_needs_no_turn_and_leaves_lines_and_tickets_right(state: str) -> None:
    first = MessageFactory(queue="q", group="a", payload="first")
    message = MessageFactory(queue="q", group="a", state=state)
    behind = MessageFactory(queue="q", group="a", payload="behind")
    assert Group.objects.order("q", "a") == [behind.pk]
    out = {first.pk, message.pk} if state in ("running", "stuck") else {first.pk}
    assert set(Ticket.objects.values_list("message_id", flat=True)) == out
    if state in ("running", "stuck"):
        message.ack()
    [claimed] = Message.objects.claim(9, queue="q")
    assert claimed.payload == "first"
    claimed.ack()
    [claimed] = Message.objects.claim(9, queue="q")
    assert claimed.payload == "behind"
    claimed.ack()
    assert not Ticket.objects.exists()
    assert not Line.objects.exists()


def test_one_that_is_only_built_knows_its_group() -> None:
    assert MessageFactory.build(queue="q", group="a").group == "a"
