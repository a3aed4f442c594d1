"""Tickets above the limit of a group, while somebody has nothing else to do (``group_burst``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from django_dbqueue import Envelope
from django_dbqueue.lanes.bursts import Bursts
from django_dbqueue.models import Group, Message
from django_dbqueue.sessions.django_session import session_of
from tests.factories import QUEUE
from tests.groups.rows import line, tickets

if TYPE_CHECKING:
    from pytest_django.fixtures import SettingsWrapper

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def bursts(settings: SettingsWrapper) -> Bursts:
    settings.DBQUEUE = {"QUEUES": {QUEUE: {"group_limit": 2, "group_burst": 4}}}
    return Bursts(session_of("default"), QUEUE)


def send(number: int, group: str = "a", queue: str = QUEUE) -> list[int]:
    report = Message.objects.enqueue_many([Envelope(each, group=group) for each in range(number)], queue=queue)
    assert report.created == number
    return list(Message.objects.filter(group_name=group).order_by("pk").values_list("pk", flat=True))


def claim() -> list[Message]:
    messages: list[Any] = Message.objects.claim(100, queue=QUEUE)
    return sorted(messages, key=lambda message: message.pk)


def test_what_is_idle_is_given_to_those_that_wait_up_to_the_burst(bursts: Bursts) -> None:
    ids = send(10)
    assert [message.pk for message in claim()] == ids[:2]
    assert bursts.give(1) == 1
    assert bursts.give(100) == 1
    assert bursts.give(100) == 0
    assert [message.pk for message in claim()] == ids[2:4]
    assert tickets() == ids[:4]


def test_groups_take_turns(bursts: Bursts) -> None:
    ids = {group: send(10, group) for group in "abc"}
    claim()
    assert bursts.give(3) == 3
    assert sorted(message.group or "" for message in claim()) == ["a", "b", "c"]
    assert bursts.give(1) == 1
    first = claim()[0].group
    assert bursts.give(2) == 2
    assert {message.group for message in claim()} | {first} == {"a", "b", "c"}
    assert bursts.give(100) == 0
    assert len(tickets()) == 12
    assert line() == sorted(one for group in ids.values() for one in group[4:])


def test_a_ticket_above_the_limit_ends_with_its_message(bursts: Bursts) -> None:
    ids = send(10)
    regular = claim()
    bursts.give(100)
    extra = claim()
    Message.objects.ack(extra)
    assert tickets() == ids[:2]
    assert claim() == []
    Message.objects.ack(regular)
    assert [message.pk for message in claim()] == ids[4:6]


def test_a_limit_that_was_set_for_a_group_alone_holds(bursts: Bursts) -> None:
    send(10)
    Group.objects.limit(QUEUE, "a", 2)
    assert bursts.give(100) == 0
    Group.objects.pause(QUEUE, "a")
    assert bursts.give(100) == 0


def test_lanes_of_other_queues_have_none(bursts: Bursts) -> None:
    send(10, queue="another")
    assert bursts.give(100) == 0


def test_retries_above_the_limit_hold_up_none_that_comes_later(bursts: Bursts) -> None:
    send(4)
    messages = claim()
    assert bursts.give(2) == 2
    for message in claim():
        message.nack(delay=3_600)
    Message.objects.ack(messages)
    ids = send(2)[-2:]
    assert [message.pk for message in claim()] == ids
