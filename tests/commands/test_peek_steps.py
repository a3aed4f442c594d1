"""``queue_peek --steps`` (P21)."""

from __future__ import annotations

import json

import pytest

from django_dbqueue import Suspended
from tests.commands.peeking import peek
from tests.factories import QUEUE, claim_one, held

pytestmark = pytest.mark.django_db


def test_it_shows_steps_only_when_asked() -> None:
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


def test_programs_get_them_as_json() -> None:
    message = held()
    with pytest.raises(Suspended):
        message.wait_for("paid:17")
    shown = json.loads(peek(QUEUE, "--state", "waiting", "--steps", "--json")[1])
    [step] = shown["steps"]
    assert step.pop("at").startswith("20")
    assert step == {"name": "paid:17", "kind": "wait", "read_count": 1, "until": None}
    assert "steps" not in json.loads(peek(QUEUE, "--state", "waiting", "--json")[1])
