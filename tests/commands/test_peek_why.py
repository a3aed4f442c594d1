"""``queue_peek --why`` and ``--steps`` (P21)."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from django.test import override_settings

from django_dbqueue import Suspended
from django_dbqueue.models import Queue
from tests.commands.peeking import STATES, one_of_each, peek
from tests.factories import QUEUE, claim_one, held, waiting

pytestmark = pytest.mark.django_db


def test_it_explains_when_requested() -> None:
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


def test_it_explains_each_state() -> None:
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


def test_it_shows_steps_only_when_requested() -> None:
    message = held()
    message.step("charge\x1b[31m", lambda: "secret")
    message.nack(delay=0)
    with pytest.raises(Suspended):
        claim_one().sleep("cool off", 3_600)
    code, out, _ = peek(QUEUE, "--state", "delayed", "--steps")
    assert code == 0
    assert "'charge\\x1b[31m'  step done  20" in out
    assert "'cool off'  sleep until 20" in out
    assert "delivery 1" in out
    assert "secret" not in out
    assert "charge" not in peek(QUEUE, "--state", "delayed")[1]


def test_a_step_in_progress_is_shown_and_its_cursor_with_the_payload() -> None:
    message = held()
    with suppress(ZeroDivisionError), message.resumable_step("import") as step:
        step.save({"card": "visa-4711", "last": "\x1b[31m"})
        raise ZeroDivisionError
    message.nack(delay=0)
    out = peek(QUEUE, "--steps")[1]
    assert "'import'  step in progress  20" in out
    assert "visa-4711" not in out
    out = peek(QUEUE, "--steps", "--payload")[1]
    assert 'cursor {"card": "visa-4711", "last": "' in out
    assert "\x1b" not in out
    [shown] = json.loads(peek(QUEUE, "--steps", "--json")[1])["steps"]
    assert (shown["kind"], "cursor" in shown) == ("cursor", False)
    with override_settings(DBQUEUE={"REDACT": ["card"]}):
        [shown] = json.loads(peek(QUEUE, "--steps", "--json", "--payload")[1])["steps"]
    assert json.loads(shown["cursor"]) == {"card": "[redacted]", "last": "\x1b[31m"}


def test_programs_get_them_as_json() -> None:
    message = held()
    with pytest.raises(Suspended):
        message.wait_for("paid:17")
    shown = json.loads(peek(QUEUE, "--state", "waiting", "--steps", "--json")[1])
    [step] = shown["steps"]
    assert step.pop("at").startswith("20")
    assert step == {"name": "paid:17", "kind": "wait", "read_count": 1, "until": None}
    assert "steps" not in json.loads(peek(QUEUE, "--state", "waiting", "--json")[1])
