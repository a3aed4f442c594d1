"""What the doctor says of groups whose lines and tickets don't fit their messages; on every database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from django_dbqueue import Suspended
from django_dbqueue.doctor import group_checks
from django_dbqueue.models import Group, Line, Message, Ticket, Waiter
from django_dbqueue.statuses import DONE
from tests.doctor.conftest import examined, levels
from tests.factories import QUEUE, claim_one, let_pass

if TYPE_CHECKING:
    from pytest_django.fixtures import SettingsWrapper

pytestmark = pytest.mark.django_db


def send(group: str = "a", **options: Any) -> Message:
    message = Message.objects.enqueue(1, queue=QUEUE, group=group, **options)
    let_pass_but_parked(message)
    return message


def let_pass_but_parked(message: Message) -> None:
    available_at = Message.objects.get(pk=message.pk).available_at
    let_pass(message, 120)
    if available_at is not None and available_at.year == 9999:
        Message.objects.filter(pk=message.pk).update(available_at=available_at)


def test_groups_that_go_on_are_fine(settings: SettingsWrapper, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_checks, "STEP", 2)
    settings.DBQUEUE = {"QUEUES": {QUEUE: {"on_dead": "hold", "group_limit": 2}}}
    for name in "abcde":
        for _ in range(4):
            send(name)
    Group.objects.pause(QUEUE, "b")
    Message.objects.claim(2, queue=QUEUE)[0].reject("unwanted")
    assert levels(examined(), "groups") == ["ok"]


def test_a_free_place_that_was_given_to_none() -> None:
    first, second = send(), send()
    send("b")
    Ticket.objects.filter(message_id=first.pk).delete()
    [finding] = examined()["groups"]
    assert finding.level == "warning"
    assert f"in group a of queue {QUEUE}, #{second.pk} waits" in finding.found
    Message.objects.filter(pk=second.pk).update(created_at=Message.objects.latest("claimed_at").created_at)
    Group.objects.pause(QUEUE, "a")
    assert levels(examined(), "groups") == ["ok"]


def test_a_free_place_of_a_moment_ago_is_the_business_of_a_worker() -> None:
    first = send()
    Message.objects.enqueue(1, queue=QUEUE, group="a")
    Ticket.objects.filter(message_id=first.pk).delete()
    assert levels(examined(), "groups") == ["ok"]


def test_a_place_that_is_kept_by_what_has_ended_or_is_gone() -> None:
    first, second = send(), send("b")
    Message.objects.filter(pk=first.pk).update(status=DONE, finished_at=first.created_at)
    Message.objects.filter(pk=second.pk).delete()
    [finding] = examined()["groups"]
    assert finding.level == "warning"
    assert f"2 (#{min(first.pk, second.pk)}" in finding.found or f"#{first.pk}" in finding.found
    assert f"#{second.pk}" in finding.found


def test_a_line_that_names_what_is_gone_is_a_note() -> None:
    send(), send()
    third = send()
    Message.objects.filter(pk=third.pk).delete()
    [finding] = examined()["groups"]
    assert finding.level == "note"
    assert f"1 (#{third.pk})" in finding.found


def test_a_message_that_stands_in_no_line_would_wait_for_ever_and_requeueing_mends_it() -> None:
    first, second = send(), send()
    Line.objects.all().delete()
    [finding] = examined()["groups"]
    assert (finding.level, f"1 (#{second.pk})" in finding.found) == ("problem", True)
    assert Message.objects.filter(pk=second.pk).reject_waiting("lost") == 1
    assert Message.objects.dead(QUEUE).requeue() == 1
    assert levels(examined(), "groups") == ["ok"]
    claim_one().ack()
    assert claim_one().pk == second.pk
    assert first.pk < second.pk


@pytest.mark.parametrize("group", ["a", None])
def test_a_message_that_waits_for_an_event_is_fine(group: str | None) -> None:
    Message.objects.enqueue(1, queue=QUEUE, group=group)
    with pytest.raises(Suspended):
        claim_one().wait_for("paid")
    assert levels(examined(), "groups") == ["ok"]
    Waiter.objects.all().delete()
    assert levels(examined(), "groups") == (["ok"] if group else ["problem"])


def test_no_more_is_examined_than_is_stated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_checks, "EXAMINED", 2)
    monkeypatch.setattr(group_checks, "STEP", 2)
    messages = [send() for _ in range(8)]
    Message.objects.filter(pk__in=[message.pk for message in messages[1:]]).delete()
    [finding] = examined()["groups"]
    assert finding.found.startswith("Lines of groups name messages that are gone, or wait no more: 2 (")
