"""A message of a group that its handler suspends keeps its turn, and nobody runs beside it (P18, P21)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import override_settings

from django_dbqueue import Suspended
from django_dbqueue.lifecycle.claimer import Claimer
from django_dbqueue.models import Event, Group, Line, Message, Step, Ticket, Waiter
from django_dbqueue.models.fields import DbNow
from django_dbqueue.sessions.django_session import session_of
from django_dbqueue.states.table import PARKED_AT
from tests.factories import QUEUE, claim_one, claimed, row
from tests.flows.fans import keep
from tests.groups.rows import nothing_is_left
from tests.groups.sending import payloads, send
from tests.insight.test_why import ask

pytestmark = pytest.mark.django_db(transaction=True)
HOUR = timedelta(hours=1)
calls = pytest.mark.parametrize(
    "call",
    [
        lambda message: message.sleep("cool off", HOUR),
        lambda message: message.wait_for("paid"),
        lambda message: message.wait_for("paid", timeout=HOUR),
    ],
    ids=["sleep", "wait", "wait with a timeout"],
)


def suspended(call: Callable[[Message], Any], payload: int = 1) -> Message:
    send(payload)
    message = claim_one()
    assert message.payload == payload
    with pytest.raises(Suspended):
        call(message)
    return message


def let_go_on(message: Message) -> None:
    """Let come what the message was suspended for."""
    Event.objects.emit("paid", 5)
    Step.objects.filter(kind="sleep").update(until=DbNow())
    Message.objects.delayed().filter(pk=message.pk).update(available_at=DbNow())


@calls
def test_those_behind_it_wait_until_it_has_ended(call: Callable[[Message], Any]) -> None:
    message = suspended(call)
    send(2)
    keep()
    assert claimed() == []
    assert Ticket.objects.get().message_id == message.pk
    assert Line.objects.count() == 1
    let_go_on(message)
    again = claim_one()
    assert again.payload == 1
    call(again)
    assert claimed() == []
    again.ack()
    claim_one().ack()
    assert nothing_is_left()


@calls
def test_in_a_paused_group_it_begins_when_the_group_is_resumed(call: Callable[[Message], Any]) -> None:
    message = suspended(call)
    send(2)
    Group.objects.pause(QUEUE, "a", reason="maintenance")
    let_go_on(message)
    keep()
    assert claimed() == []
    assert row(message)["available_at"] == PARKED_AT
    assert min(Line.objects.values_list("message_id", flat=True)) == message.pk
    Group.objects.resume(QUEUE, "a")
    Message.objects.delayed().filter(pk=message.pk).update(available_at=DbNow())
    assert payloads() == [1]


@calls
def test_one_that_is_suspended_while_its_group_is_paused_waits_in_its_place(call: Callable[[Message], Any]) -> None:
    send(1)
    message = claim_one()
    send(2)
    Group.objects.pause(QUEUE, "a", reason="maintenance")
    with pytest.raises(Suspended):
        call(message)
    assert row(message)["available_at"] == PARKED_AT
    let_go_on(message)
    assert claimed() == []
    assert row(message)["available_at"] == PARKED_AT
    Group.objects.resume(QUEUE, "a")
    Message.objects.delayed().filter(pk=message.pk).update(available_at=DbNow())
    assert payloads() == [1]


def test_a_sleep_through_a_pause_ends_no_sooner() -> None:
    message = suspended(lambda each: each.sleep("cool off", HOUR))
    until = Step.objects.get().until
    Group.objects.pause(QUEUE, "a", reason="maintenance")
    Group.objects.resume(QUEUE, "a")
    assert row(message)["available_at"] == until


def test_an_event_of_others_wakes_no_other_of_the_group() -> None:
    suspended(lambda message: message.wait_for("paid"))
    send(2)
    waiter = Waiter.objects.get()
    Event.objects.emit("other", 5)
    keep()
    assert claimed() == []
    Waiter.objects.update(token=waiter.token + 1)
    Event.objects.emit("paid", 5)
    assert claimed() == [], "it waits under another claim by now"


def test_in_a_row_it_stops_those_behind_it() -> None:
    """As a worker does it: the first is acked with those that come back."""
    with override_settings(DBQUEUE={"QUEUES": {QUEUE: {"group_batch": 5}}}):
        for payload in (1, 2, 3):
            send(payload)
        claimer = Claimer(Message, session_of("default"), QUEUE, in_a_row=5, room=100)
        [head] = claimer.take(1, lease=60, max_reads=0)
        first = Message.objects.get(pk=head.claim.id)
        second, third = (Message.objects.get(pk=each.claim.id) for each in claimer.followers[head.claim.id])
        for message in (first, second, third):
            message.held_token = message.claim_token
        with pytest.raises(Suspended):
            second.sleep("cool off", HOUR)
        first.ack()
        third.release()
        keep()
        assert claimed() == []
        assert row(second)["available_at"] == Step.objects.get().until
        assert Ticket.objects.get().message_id == second.pk
        let_go_on(second)
        assert payloads() == [2]


def test_why_shows_for_what_the_one_before_it_waits() -> None:
    message = suspended(lambda each: each.wait_for("paid"))
    behind = send(2)
    answer = ask(message)
    assert answer.code == "waits_for_event"
    assert "“paid”, without" in answer.text
    answer = ask(behind)
    assert (answer.code, answer.behind) == ("behind", message.pk)
    assert f"#{message.pk} of its group a is suspended" in answer.text
    assert f"#{message.pk}: It waits for event “paid”, without a timeout." in answer.evidence
