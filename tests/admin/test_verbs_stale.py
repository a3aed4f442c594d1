"""A page that was made before the row moved, was sent twice or is forged changes nothing, and says so."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client

from django_dbqueue.models import Message
from tests.admin.confirmations import ONE_EACH, ask, confirm
from tests.admin.conftest import make_dead, make_ready, make_stuck
from tests.factories import row

pytestmark = pytest.mark.django_db


def claimed_since(message: Message) -> None:
    assert Message.objects.claim(1, queue="q")


def claimed_and_released(message: Message) -> None:
    Message.objects.claim(1, queue="q")[0].release()


def updated_since(message: Message) -> None:
    outcome = Message.objects.enqueue({"n": 2}, queue="q", key="k", on_conflict="update").outcome
    assert outcome == "updated"


def done_since(message: Message) -> None:
    message.ack()


def claimed_by_another(message: Message) -> None:
    message.release()
    assert Message.objects.claim(1, queue="q")


def requeued_since(message: Message) -> None:
    assert Message.objects.filter(pk=message.pk).requeue() == 1


STALE = [
    ("drop", make_ready, claimed_since),
    ("drop", make_ready, claimed_and_released),
    ("drop", make_ready, updated_since),
    ("reject", make_ready, claimed_since),
    ("reject", make_ready, updated_since),
    ("reject", make_stuck, claimed_by_another),
    ("release", make_stuck, done_since),
    ("release", make_stuck, claimed_by_another),
    ("release", make_stuck, updated_since),
    ("requeue", make_stuck, done_since),
    ("requeue", make_stuck, claimed_by_another),
    ("requeue", make_dead, requeued_since),
    ("drop", make_dead, requeued_since),
    ("send-again", make_dead, requeued_since),
]


@pytest.mark.parametrize(("verb", "make", "act"), STALE)
def test_a_stale_page_changes_nothing(
    browser: Client, verb: str, make: Callable[..., Message], act: Callable[[Message], None]
) -> None:
    message = make(key="k")
    form = ask(browser, verb, message)
    act(message)
    before = row(message)
    assert "changed in the meantime, left alone" in confirm(browser, verb, form)
    assert row(message) == before
    assert Message.objects.count() == 1
    assert not LogEntry.objects.exists()


@pytest.mark.parametrize(("verb", "make"), ONE_EACH)
def test_a_page_is_good_for_once(browser: Client, verb: str, make: Callable[..., Message]) -> None:
    message = make()
    form = ask(browser, verb, message)
    confirm(browser, verb, form)
    before = row(message)
    page = confirm(browser, verb, form)
    assert "left alone" in page or "nothing was done twice" in page
    assert row(message) == before
    assert LogEntry.objects.count() == 1
    assert Message.objects.count() == (2 if verb == "send-again" else 1)


def test_the_others_go_on_when_one_moved(browser: Client) -> None:
    dead = [make_dead() for _ in range(3)]
    form = {"message": [ask(browser, "requeue", message)["message"][0] for message in dead]}
    Message.objects.filter(pk=dead[1].pk).requeue()
    page = confirm(browser, "requeue", form)
    assert "Requeue: 2 messages." in page
    assert f"q #{dead[1].pk} changed in the meantime, left alone." in page


def test_an_archived_message_is_reported(browser: Client) -> None:
    message = make_dead()
    form = ask(browser, "requeue", message)
    Message.objects.dead().purge()
    assert "may have been archived" in confirm(browser, "requeue", form)


@pytest.mark.parametrize(
    "pin", ["", "x", "1:2:3", ":::", "1:x:dead:0", "-1::dead:0", f"{'9' * 40}::dead:0", "1::dead:0:0"]
)
def test_forged_pins_change_nothing(browser: Client, pin: str) -> None:
    make_dead()
    confirm(browser, "requeue", {"message": [pin]})
    assert Message.objects.dead().count() == 1
