"""What settings and operators say of a group: a limit, a pause, and that a dead message holds it (P18, P19)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from django.contrib.auth import get_user_model

from django_dbqueue.models import ArchivedMessage, Group, Message
from django_dbqueue.sessions.django_session import session_of
from django_dbqueue.worker.keepers import Keepers
from tests.factories import QUEUE, claimed
from tests.groups.sending import payloads, send, take

if TYPE_CHECKING:
    from pytest_django.fixtures import SettingsWrapper

pytestmark = pytest.mark.django_db(transaction=True)


def test_on_dead_hold_keeps_the_group_until_somebody_decides(settings: SettingsWrapper) -> None:
    settings.DBQUEUE = {"QUEUES": {QUEUE: {"on_dead": "hold"}}}
    for number in (1, 2, 3):
        send(number)
    take().reject("unwanted")
    assert claimed() == []
    assert Message.objects.dead(QUEUE).requeue() == 1
    first = take()
    assert first.payload == 1
    first.reject("once more")
    assert claimed() == []
    assert Message.objects.dead(QUEUE).drop_all("leave it") == 1
    second = take()
    assert second.payload == 2
    second.reject("too")
    assert Message.objects.dead(QUEUE).purge() == 1
    assert ArchivedMessage.objects.get().group_name == "a"
    assert payloads() == [3]


def test_a_limit_lets_as_many_run_at_once_and_can_be_changed(settings: SettingsWrapper) -> None:
    settings.DBQUEUE = {"QUEUES": {QUEUE: {"group_limit": 2}}}
    for number in range(8):
        send(number)
    running = Message.objects.claim(10, queue=QUEUE)
    assert [message.payload for message in running] == [0, 1]
    Group.objects.limit(QUEUE, "a", 4)
    more = Message.objects.claim(10, queue=QUEUE)
    assert [message.payload for message in more] == [2, 3]
    Group.objects.limit(QUEUE, "a", 1)
    Message.objects.ack([*running, *more][1:])
    assert claimed() == []
    running[0].ack()
    assert payloads() == [4]
    assert Group.objects.order(QUEUE, "a") == list(
        Message.objects.filter(body__in=["5", "6", "7"]).order_by("pk").values_list("pk", flat=True)
    )


@pytest.mark.parametrize("by", ["an operator", "the settings"])
def test_while_one_runs_above_a_lower_limit_no_other_begins(settings: SettingsWrapper, by: str) -> None:
    settings.DBQUEUE = {"QUEUES": {QUEUE: {"group_limit": 3}}}
    for number in range(3):
        send(number)
    running = Message.objects.claim(10, queue=QUEUE)
    if by == "an operator":
        Group.objects.limit(QUEUE, "a", 1)
    else:
        settings.DBQUEUE = {}
    Message.objects.ack(running[:2])
    send(3)
    Keepers(session_of("default")).turn()
    assert claimed() == []
    running[2].ack()
    assert claimed() == [3]


def test_a_paused_group_begins_nothing_until_it_is_resumed() -> None:
    for number in (1, 2, 3):
        send(number)
    first = take()
    send("b", "b")
    Group.objects.pause(QUEUE, "a", reason="maintenance", by="me")
    first.ack()
    Group.objects.pause(QUEUE, "b")
    assert claimed() == []
    Group.objects.resume(QUEUE, "a")
    assert payloads() == [2]
    Group.objects.resume(QUEUE, "b")
    assert payloads() == ["b"]


def test_a_pause_takes_a_user_itself_for_its_name() -> None:
    user = get_user_model()(username="ann")
    Group.objects.pause(QUEUE, "g", by=user, reason=17)  # type: ignore[arg-type]
    assert Group.objects.values_list("paused_by", "pause_reason").get() == ("ann", "17")
