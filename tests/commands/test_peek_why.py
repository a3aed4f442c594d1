"""``queue_peek --why``."""

from __future__ import annotations

import json

import pytest

from django_dbqueue.models import Queue
from tests.commands.peeking import STATES, one_of_each, peek
from tests.factories import QUEUE, waiting

pytestmark = pytest.mark.django_db


def test_it_says_why_when_it_is_asked() -> None:
    message = waiting()
    Queue.objects.pause(QUEUE, by="ann", reason="the bank\x1b[2J is down")
    code, text, _ = peek(QUEUE, "--why")
    assert code == 0
    assert "It waits because its queue is paused: nothing is claimed from it." in text
    assert "by ann: the bank\\x1b[2J is down" in text, "others' words can't steer the terminal"
    assert "What can be done: resume, reject, drop" in text
    shown = json.loads(peek(QUEUE, "--why", "--json")[1])
    assert (shown["id"], shown["why"]["code"]) == (message.pk, "paused")
    assert shown["why"]["verbs"] == ["resume", "reject", "drop"]
    assert "why" not in json.loads(peek(QUEUE, "--json")[1])


def test_it_says_why_of_each_state() -> None:
    one_of_each()
    codes = {
        state: json.loads(peek(QUEUE, "--state", state, "--why", "--json")[1].splitlines()[0])["why"]["code"]
        for state in STATES
    }
    assert codes == {
        "ready": "no_consumer",
        "delayed": "not_due",
        "waiting": "group_paused",
        "running": "running",
        "stuck": "lease_over",
        "dead": "rejected",
        "done": "done",
    }
