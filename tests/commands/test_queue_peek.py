"""``manage.py queue_peek``: it shows what a claim would give, tells no secrets, and changes nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from django.core.management import CommandError

from django_dbqueue import InvalidMessage
from django_dbqueue.models import Message
from django_dbqueue.tasks.task_headers import TASK
from django_dbqueue.value_types import TYPES
from tests.commands.peeking import STATES, ids, one_of_each, peek
from tests.factories import QUEUE, claim_one, dead, done, let_pass, rows, waiting, written_by_sql
from tests.patience import patience

pytestmark = pytest.mark.django_db


def test_it_shows_what_a_claim_would_give_in_its_order_and_claims_nothing() -> None:
    low = waiting(priority=-1)
    late, early = waiting(), waiting()
    let_pass(early, 60)
    high = waiting(priority=9)
    waiting(priority=10, delay=3600)
    waiting(queue="other", priority=10)
    before = rows()
    assert ids(QUEUE) == [high.pk, early.pk, late.pk, low.pk]
    assert ids(QUEUE, "--limit", "2") == [high.pk, early.pk]
    assert [message.pk for message in Message.objects.peek(QUEUE, limit=3)] == [high.pk, early.pk, late.pk]
    assert rows() == before
    assert [claim_one().pk for _ in range(4)] == [high.pk, early.pk, late.pk, low.pk]


def test_every_state_can_be_shown() -> None:
    messages, _ = one_of_each(), one_of_each("other")
    before = rows()
    for state, message in messages.items():
        code, text, complaint = peek(QUEUE, "--state", state)
        assert (code, complaint) == (0, "")
        assert text.startswith(f"#{message.pk}  {state}  ")
        assert ids(QUEUE, "--state", state) == [message.pk]
    assert rows() == before


def test_of_the_dead_and_the_done_the_latest_come_first() -> None:
    for state in ("dead", "done"):
        first, second = STATES[state](), STATES[state]()
        let_pass(first, 60)
        assert ids(QUEUE, "--state", state) == [second.pk, first.pk]


def test_a_key_shows_the_live_message_as_it_stands() -> None:
    for state in ("ready", "delayed", "running", "stuck"):
        done(queue=state, key="k")
        message = STATES[state](queue=state, key="k")
        waiting(queue=state, key="other")
        code, text, _ = peek(state, "--key", "k")
        assert (code, text.startswith(f"#{message.pk}  {state}  ")) == (0, True)
        assert "key 'k'" in text
    assert peek("ready", "--key", "K")[:2] == (3, "")


def test_a_key_and_a_state_show_the_messages_of_both() -> None:
    first, second = done(key="k"), done(key="k")
    done(key="other")
    buried = dead(key="k")
    live = waiting(key="k")
    assert ids(QUEUE, "--key", "k", "--state", "done") == [second.pk, first.pk]
    assert ids(QUEUE, "--key", "k", "--state", "done", "--limit", "1") == [second.pk]
    assert ids(QUEUE, "--key", "k", "--state", "dead") == [buried.pk]
    assert ids(QUEUE, "--key", "k") == [live.pk]
    assert peek(QUEUE, "--key", "k", "--state", "stuck")[0] == 3


def test_payload_and_headers_are_shown_only_when_requested() -> None:
    waiting(payload={"password": "hush"}, headers={"session": "secret"}, key="k")
    for options in ((), ("--json",), ("--key", "k")):
        _, text, _ = peek(QUEUE, *options)
        assert "hush" not in text
        assert "secret" not in text
    _, text, _ = peek(QUEUE, "--payload")
    assert "{'password': 'hush'}" in text
    assert "{'session': 'secret'}" in text


def test_what_is_redacted_is_in_no_line(settings: Any) -> None:
    settings.DBQUEUE = {"REDACT": ["password", "session"]}
    message = waiting(payload={"password": "hush-1", "n": 1}, headers={"session": "hush-2"}, key="k")
    Message.objects.filter(pk=message.pk).update(error="ValueError: hush-1 is no password, nor hush-2")
    for options in ((), ("--json",), ("--key", "k"), ("--payload",), ("--payload", "--json")):
        _, text, _ = peek(QUEUE, *options)
        assert "hush" not in text
        assert "ValueError: [redacted] is no password, nor [redacted]" in text
    assert json.loads(text)["payload"] == {"password": "[redacted]", "n": 1}
    settings.DBQUEUE = {"REDACT": "no.such.hook"}
    for options in ((), ("--json",), ("--payload",), ("--payload", "--json")):
        _, text, _ = peek(QUEUE, *options)
        assert "hush" not in text
    assert "no.such.hook failed" in json.loads(text)["hidden"]


@pytest.mark.parametrize(
    ("payload", "shown"), [({"a": ["ü", None]}, {"a": ["ü", None]}), ("text", "text"), (b"\0\xff", "AP8="), (7, 7)]
)
def test_a_json_line_has_everything_in_a_form_for_programs(payload: Any, shown: Any) -> None:
    message = waiting(payload=payload, key="k", priority=3, max_reads=4, headers={"h": 1})
    [line] = peek(QUEUE, "--json", "--payload")[1].splitlines()
    document = json.loads(line)
    stored = Message.objects.get(pk=message.pk)
    assert document.pop("payload") == shown
    assert datetime.fromisoformat(document.pop("due_at")) == stored.due_at
    assert datetime.fromisoformat(document.pop("available_at")) == stored.available_at
    assert datetime.fromisoformat(document.pop("created_at")).tzinfo == UTC
    assert document == {
        "state": "ready",
        "id": message.pk,
        "queue": QUEUE,
        "group": None,
        "flow": None,
        "key": "k",
        "priority": 3,
        "read_count": 0,
        "max_reads": 4,
        "crashes": 0,
        "worker_id": None,
        "conn_id": None,
        "claimed_at": None,
        "finished_at": None,
        "error": None,
        "task": None,
        "content_type": stored.content_type,
        "headers": {"h": 1},
    }


def test_what_others_wrote_can_not_steer_the_terminal() -> None:
    waiting(payload="\x1b[2J\x9b31m", key="\x1b]0;k\x07")
    dead(reason="\x1b[31mred\nsecond line")
    text = peek(QUEUE, "--payload")[1] + peek(QUEUE, "--state", "dead")[1]
    assert [character for character in text if ord(character) < 32 or 127 <= ord(character) < 160] == ["\n"] * 3
    assert "second line" not in text


def test_a_long_payload_is_cut_in_text_and_whole_in_json() -> None:
    waiting(payload="x" * 5_000)
    assert len(peek(QUEUE, "--payload")[1]) < 2_500
    assert json.loads(peek(QUEUE, "--payload", "--json")[1])["payload"] == "x" * 5_000


def test_a_row_that_can_not_be_decoded_is_shown_with_the_reason() -> None:
    written_by_sql("{broken")
    assert "can't be decoded" in peek(QUEUE, "--payload")[1]
    assert "undecodable" in json.loads(peek(QUEUE, "--payload", "--json")[1])


def test_nothing_to_show_is_an_exit_code_and_a_sentence() -> None:
    waiting(queue="emails")
    assert peek("emails", "--state", "dead")[:2] == (3, "")
    code, text, complaint = peek("emials")
    assert (code, text) == (3, "")
    assert "Did you mean 'emails'?" in complaint


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["no queue"], "'no queue' is not a queue name"),
        ([QUEUE, "--key", ""], "The key has 0 characters"),
        ([QUEUE, "--key", "k" * 201], "The key has 201 characters"),
        ([QUEUE, "--state", "stcuk"], "did you mean 'stuck'?"),
        ([QUEUE, "--state", "zzz"], "the states are ready, delayed"),
        ([QUEUE, "--limit", "0"], "'0' is not a whole number from 1 to 1000"),
        ([QUEUE, "--limit", "-1"], "limit"),
        ([QUEUE, "--limit", "ten"], "'ten' is not a whole number"),
        ([QUEUE, "--database", "defualt"], "Did you mean 'default'?"),
        ([], "queue"),
    ],
)
def test_a_wrong_option_is_refused_by_name(arguments: list[str], error: str) -> None:
    with pytest.raises(CommandError, match=error.replace("?", r"\?")):
        peek(*arguments)


@pytest.mark.parametrize(("state", "limit"), [("gone", 1), ("ready", 0), ("ready", True), ("ready", "1")])
def test_a_wrong_peek_is_refused_with_a_sentence(state: str, limit: Any) -> None:
    with pytest.raises(InvalidMessage):
        Message.objects.peek(QUEUE, state=state, limit=limit)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ([QUEUE], 0),
        ([QUEUE, "--state", "dead"], 3),
        (["no queue"], 2),
        ([QUEUE, "--state", "gone"], 2),
        ([QUEUE, "--database", "gone"], 2),
    ],
)
def test_the_exit_code_shows_what_came_of_it(arguments: list[str], code: int, worker_env: dict[str, str]) -> None:
    waiting()
    ended = subprocess.run(
        [sys.executable, "-m", "django", "queue_peek", *arguments],
        env=worker_env,
        capture_output=True,
        text=True,
        check=False,
        timeout=patience(120),
    )
    assert ended.returncode == code, ended.stderr
    assert bool(ended.stdout) is (code == 0)
    assert bool(ended.stderr) is (code != 0)
    assert "Traceback" not in ended.stderr


def test_it_names_the_task_of_a_message_without_its_payload() -> None:
    waiting(headers={TASK: "shop.tasks.charge\x1b", "secret": "s3cret"})
    waiting()
    code, text, _ = peek(QUEUE)
    assert code == 0
    first, second = text.splitlines()
    assert "  task shop.tasks.charge\\x1b" in first
    assert "task" not in second
    assert "s3cret" not in text
    documents = [json.loads(line) for line in peek(QUEUE, "--json")[1].splitlines()]
    assert [each["task"] for each in documents] == ["shop.tasks.charge\x1b", None]
    assert "headers" not in documents[0]


def test_a_payload_is_shown_as_it_is_stored_with_its_types_among_the_headers() -> None:
    waiting(payload={"price": Decimal("1.50"), "at": datetime(2026, 11, 27, tzinfo=UTC)})
    [shown] = [json.loads(line) for line in peek(QUEUE, "--payload", "--json")[1].splitlines()]
    assert shown["payload"] == {"price": "1.50", "at": "2026-11-27T00:00:00+00:00"}
    assert shown["headers"] == {TYPES: {"price": "decimal", "at": "datetime"}}
    assert "'price': '1.50'" in peek(QUEUE, "--payload")[1]
