"""Why a message of a group waits: each answer by what stands in the database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from django_dbqueue.insight import turns
from django_dbqueue.insight.why import Why, why
from django_dbqueue.models import Group, Line, Message, Queue, Ticket
from django_dbqueue.models.fields import clock
from tests.factories import QUEUE, claim_one, let_end

if TYPE_CHECKING:
    from pytest_django.fixtures import SettingsWrapper

pytestmark = pytest.mark.django_db


def send(**options: Any) -> Message:
    return Message.objects.enqueue(1, queue=QUEUE, group="a", **options)


def ask(message: Message) -> Why:
    stored = Message.objects.get(pk=message.pk)
    return why(stored, now=clock("default"), has_consumer=lambda _queue: True)


def test_it_is_behind_another_one_whatever_that_one_does() -> None:
    first, second, third = send(), send(), send()
    answer = ask(second)
    assert (answer.code, answer.behind, answer.verbs) == ("behind", first.pk, ("reject", "drop"))
    assert f"#{first.pk} of its group a is ready" in answer.text
    assert "next one" in answer.evidence[0]
    assert "1 message " in ask(third).evidence[0]
    held = claim_one()
    assert f"#{first.pk} of its group a is running" in ask(second).text
    let_end(held)
    assert "is stuck; its lease expired" in ask(second).text
    held.nack(delay=60)
    assert f"#{first.pk} of its group a failed, and is retried in" in ask(second).text
    assert ask(first).code == "not_due"
    Message.objects.filter(pk=first.pk).drop_all("unwanted")
    assert ask(second).code == "no_worker"
    assert ask(third).behind == second.pk


def test_the_one_before_it_is_delayed() -> None:
    first, second = send(delay=3_600), send()
    assert f"#{first.pk} of its group a is delayed, and due in" in ask(second).text


def test_all_that_may_run_are_named_and_those_before_it_are_counted_to_a_cap(
    settings: SettingsWrapper, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.DBQUEUE = {"QUEUES": {QUEUE: {"group_limit": 8}}}
    monkeypatch.setattr(turns, "MOST_COUNTED", 2)
    first, *others = [send() for _ in range(12)]
    named = ", ".join(f"#{each.pk}" for each in others[:4])
    also, width, count = ask(others[-1]).evidence
    assert (f"{named}…" in also, "Up to 8 " in width, "2+ messages" in count) == (True, True, True)
    assert ask(others[-1]).behind == first.pk
    Group.objects.limit(QUEUE, "a", 2)
    assert any("Up to 2 " in line for line in ask(others[-1]).evidence)


def test_its_group_is_paused_by_somebody_for_a_reason() -> None:
    first, second = send(), send()
    Group.objects.pause(QUEUE, "a", by="ann", reason="the bank is down")
    Queue.objects.pause(QUEUE, by="bob", reason="all of it")
    for message in (first, second):
        answer = ask(message)
        assert (answer.code, answer.verbs[0]) == ("group_paused", "resume_group")
        assert "by ann: the bank is down" in answer.evidence[0]
        assert "by bob: all of it" in answer.evidence[-1]


def test_a_dead_one_holds_its_group(settings: SettingsWrapper) -> None:
    settings.DBQUEUE = {"QUEUES": {QUEUE: {"on_dead": "hold"}}}
    first, second = send(), send()
    claim_one().reject("unwanted")
    answer = ask(second)
    assert (answer.code, answer.behind) == ("group_held", first.pk)
    assert f"#{first.pk} is dead, and holds" in answer.text
    assert f"#{first.pk}" in answer.advice
    reason = ask(first)
    assert reason.code == "rejected"
    assert "holds its group a" in reason.evidence[0]


def test_a_dead_one_that_holds_nothing_does_not_mention_its_group() -> None:
    message = send()
    claim_one().reject("unwanted")
    assert ask(message).evidence == ()


def test_a_place_is_free_and_none_was_let_in() -> None:
    _first, second = send(), send()
    Ticket.objects.all().delete()
    Line.objects.filter(message_id__lt=second.pk).delete()
    answer = ask(second)
    assert (answer.code, answer.behind) == ("group_idle", None)
    assert "queue_doctor" in answer.advice
