"""``manage.py queue_send``: what goes in by a terminal comes out byte for byte, or nothing goes in."""

from __future__ import annotations

import base64
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.test import override_settings

from django_dbqueue.models import Message, Worker
from tests.commands.running import Ended, run, run_alone
from tests.factories import QUEUE, claim_one, waiting

pytestmark = pytest.mark.django_db


UNSERVED = (
    "Queue 'tests' has no consumer in this project, and no worker serves it: the message waits. Did you mean 'test'?"
)


def send(*arguments: str) -> Ended:
    return run("queue_send", *arguments)


def sent(*arguments: str) -> Message:
    ended = send(*arguments)
    assert (ended.code, ended.err) == (0, f"{UNSERVED}\n")
    return Message.objects.get(pk=int(ended.out))


@pytest.mark.parametrize(
    ("arguments", "payload"),
    [
        (['{"to": "a@b.c", "n": [1, null, "ü"]}'], {"to": "a@b.c", "n": [1, None, "ü"]}),
        (["7", "--json-payload"], 7),
        (["-5"], -5),
        ([' "blanks around" '], "blanks around"),
        (["as it stands: {", "--text"], "as it stands: {"),
        (["", "--text"], ""),
        (["AP8=", "--base64"], b"\0\xff"),
        (["", "--base64"], b""),
    ],
)
def test_a_payload_is_what_was_given(arguments: list[str], payload: Any) -> None:
    assert sent(QUEUE, *arguments).payload == payload
    assert claim_one().payload == payload


def test_everything_that_enqueue_takes_can_be_given() -> None:
    at = "2031-01-31T12:00:00.123456+01:00"
    options = ["--key", "k", "--at", at, "--priority", "-7", "--max-reads", "0", "--lease", "1.5"]
    message = sent(QUEUE, "{}", *options, "--header", "trace=a=b", "--header", "empty=")
    assert message.due_at == datetime(2031, 1, 31, 11, 0, 0, 123456, tzinfo=UTC)
    assert (message.queue, message.key, message.priority) == (QUEUE, "k", -7)
    assert (message.max_reads, message.lease_seconds) == (0, 1.5)
    assert message.headers == {"trace": "a=b", "empty": ""}
    late = sent(QUEUE, "{}", "--delay", "90.5")
    assert abs(late.due_at - late.created_at - timedelta(seconds=90.5)) < timedelta(seconds=1)


def test_a_header_names_the_types_of_a_payload() -> None:
    order = uuid.UUID(int=1)
    message = sent(QUEUE, f'{{"order": "{order}"}}', "--header", 'dbqueue.types={"order": "uuid"}', "--header", "a=1")
    assert (message.payload, message.headers) == ({"order": order}, {"a": "1"})


def test_json_shows_what_came_of_it() -> None:
    ended = send(QUEUE, "1", "--key", "k", "--json")
    message = Message.objects.get()
    due = ended.document["due_at"]
    assert datetime.fromisoformat(due) == message.due_at
    assert ended.document == {"id": message.pk, "queue": QUEUE, "key": "k", "outcome": "created", "due_at": due}


def test_a_live_message_with_the_key_is_left_updated_or_refused_as_requested() -> None:
    live = waiting(key="k", payload="old")
    ended = send(QUEUE, '"new"', "--key", "k")
    assert (ended.code, ended.out) == (0, f"{live.pk}\n")
    assert ended.err.startswith("Not sent: this live message already has the key")
    assert send(QUEUE, '"new"', "--key", "k", "--json").document["outcome"] == "ignored"
    refused = send(QUEUE, '"new"', "--key", "k", "--on-conflict", "error")
    assert (refused.code, refused.out) == (1, "")
    assert "a live message with key 'k'" in refused.err
    assert Message.objects.get().payload == "old"
    assert send(QUEUE, '"new"', "--key", "k", "--on-conflict", "update", "--json").document["outcome"] == "updated"
    assert Message.objects.get().payload == "new"


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ([], "queue"),
        (["no queue", "1"], "'no queue' is not a queue name"),
        ([QUEUE, "{broken"], "For plain text, use --text"),
        ([QUEUE, ""], "The payload is not JSON"),
        ([QUEUE, "NaN"], "NaN is not JSON"),
        ([QUEUE, "[" * 3_000], "nests deeper"),
        ([QUEUE, "9" * 5_000], "The payload is not JSON"),
        ([QUEUE, '"\\ud800"'], "surrogate"),
        ([QUEUE, "ü", "--base64"], "The payload is not base64"),
        ([QUEUE, "abc", "--base64"], "The payload is not base64"),
        ([QUEUE, "1", "--text", "--base64"], "not allowed with"),
        ([QUEUE, "1", "--delay", "-1"], "delay"),
        ([QUEUE, "1", "--delay", "nan"], "'nan' is not a number of seconds"),
        ([QUEUE, "1", "--delay", "1", "--at", "2031-01-31T12:00:00Z"], "not allowed with"),
        ([QUEUE, "1", "--at", "tomorrow"], "'tomorrow' is not a date and time"),
        ([QUEUE, "1", "--at", "2031-01-31T12:00:00"], "has no time zone"),
        ([QUEUE, "1", "--at", "9999-12-31T23:00:00Z"], "before the year 9000"),
        ([QUEUE, "1", "--priority", "101"], "'101' is not a whole number from -100 to 100"),
        ([QUEUE, "1", "--priority", "high"], "'high' is not a whole number"),
        ([QUEUE, "1", "--max-reads", "-1"], "max-reads"),
        ([QUEUE, "1", "--lease", "0"], "a number of seconds above 0"),
        ([QUEUE, "1", "--key", ""], "The key has 0 characters"),
        ([QUEUE, "1", "--key", "k" * 201], "The key has 201 characters"),
        ([QUEUE, "1", "--header", "name"], "write NAME=VALUE"),
        ([QUEUE, "1", "--header", "=value"], "write NAME=VALUE"),
        ([QUEUE, "1", "--header", "a=1", "--header", "a=2"], "'a' is given twice"),
        ([QUEUE, "1", "--header", f"a={'x' * 20_000}"], "The headers take"),
        ([QUEUE, "1", "--header", "dbqueue.types=uuid"], "dbqueue.types is not JSON"),
        ([QUEUE, "1", "--on-conflict", "merge"], "invalid choice"),
    ],
)
def test_what_can_not_be_sent_is_refused_by_name_and_nothing_is_written(arguments: list[str], error: str) -> None:
    ended = send(*arguments)
    assert (ended.code != 0, ended.out) == (True, "")
    assert error in ended.err
    assert Message.objects.count() == 0


@override_settings(DBQUEUE={"MAX_PAYLOAD_BYTES": 1_000})
def test_a_payload_that_is_too_large_is_refused() -> None:
    ended = send(QUEUE, "x" * 1_001, "--text")
    assert (ended.code, "1,000" in ended.err) == (2, True)
    assert Message.objects.count() == 0


@pytest.mark.django_db(transaction=True)
def test_standard_input_is_read_to_its_end(worker_env: dict[str, str]) -> None:
    for arguments, given, payload in (
        ([QUEUE], '{"n":\n 1}\n', {"n": 1}),
        ([QUEUE, "-", "--text"], "zwei\nZeilen ü\n", "zwei\nZeilen ü\n"),
        ([QUEUE, "--base64"], base64.encodebytes(bytes(range(256))).decode(), bytes(range(256))),
    ):
        ended = run_alone(worker_env, "queue_send", *arguments, input=given)
        assert (ended.code, ended.err) == (0, f"{UNSERVED}\n")
        assert Message.objects.get(pk=int(ended.out)).payload == payload


@pytest.mark.django_db(transaction=True)
def test_standard_input_that_can_not_be_a_payload_is_refused(worker_env: dict[str, str], tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    raw.write_bytes(b"\xff\xfe")
    endless = tmp_path / "endless"
    endless.write_bytes(b"x" * 3_000_000)
    for file, error in ((raw, "is not UTF-8"), (endless, "the maximum for a payload")):
        with file.open() as stdin:
            ended = run_alone(worker_env, "queue_send", QUEUE, "--text", stdin=stdin)
        assert (ended.code, ended.out) == (2, "")
        assert error in ended.err
        assert "Traceback" not in ended.err
    assert run_alone(worker_env, "queue_send", QUEUE).code == 2  # nothing is no JSON
    assert Message.objects.count() == 0


def test_who_sends_to_a_queue_that_is_served_hears_nothing() -> None:
    assert send("test", "1").err == "", "it has a consumer here"
    Worker.objects.create(id=1, host="box", pid=17, queues=QUEUE, threads=2, held=0)
    assert send(QUEUE, "1").err == "", "another project serves it"
