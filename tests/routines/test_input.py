"""What the verbs take: the settings of queues, values that they refuse by name, and payloads as they come."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.management import call_command
from django.test import override_settings

from django_dbqueue.models import Message
from tests.factories import QUEUE
from tests.routines.client import Client


def test_null_means_what_the_settings_have(client: Client) -> None:
    message_id = client.put(QUEUE, "hello", None, None)
    [row] = client.get(QUEUE)
    assert (row["id"], row["max_read_cnt"], row["invisibility_time"]) == (message_id, 5, 60)


@pytest.fixture
def settings_of_queues(client: Client) -> Iterator[None]:
    """Routines know the settings of the moment when they were installed."""
    queues = {"patient": {"lease": 7200, "max_reads": 2, "priority": 7}, "forgetful": {"on_ack": "delete"}}
    with override_settings(DBQUEUE={"QUEUES": queues, "DEFAULTS": {"max_reads": 9}, "MAX_PAYLOAD_BYTES": 20}):
        call_command("queue_routines", "install", verbosity=0)
        yield
    call_command("queue_routines", "install", verbosity=0)


@pytest.mark.usefixtures("settings_of_queues")
def test_the_settings_of_single_queues_hold(client: Client) -> None:
    client.put("patient", "hello", None, None)
    [row] = client.get("patient")
    assert (row["max_read_cnt"], row["invisibility_time"]) == (2, 7200)
    assert Message.objects.get(pk=row["id"]).priority == 7
    client.put(QUEUE, "hello", None, None)
    [row] = client.get(QUEUE)
    assert (row["max_read_cnt"], row["invisibility_time"]) == (9, 60)
    assert Message.objects.get(pk=row["id"]).priority == 0


@pytest.mark.usefixtures("settings_of_queues")
def test_the_largest_payload_is_that_of_the_settings_counted_in_bytes(client: Client) -> None:
    client.put(QUEUE, "é" * 10)
    with pytest.raises(client.Error, match="payload must not take more than 20 bytes"):
        client.put(QUEUE, "é" * 10 + "!")
    assert Message.objects.count() == 1


@pytest.mark.usefixtures("settings_of_queues")
def test_an_ack_removes_the_row_where_the_queue_keeps_no_history(client: Client) -> None:
    for queue in ("forgetful", "patient"):
        client.put(queue, "by token", 5, 0)
        client.put(queue, "by id", 5, 0)
        [held, other] = client.claim(queue, 2)
        client.claim(queue, 2)
        assert client.ack(held["id"], held["token"]) is False, "it is another's by now"
        assert Message.objects.filter(queue=queue).count() == 2
        [held, other] = client.claim(queue, 2)
        assert client.ack(held["id"], held["token"]) is True
        client.delete(other["id"])
        assert Message.objects.filter(queue=queue).exclude(status="y").count() == 0
    assert set(Message.objects.values_list("queue", flat=True)) == {"patient"}


def test_where_no_queue_keeps_a_history_but_one_all_others_remove(client: Client) -> None:
    keeping = {"DEFAULTS": {"on_ack": "delete"}, "QUEUES": {"kept": {"on_ack": "keep"}}}
    with override_settings(DBQUEUE=keeping):
        call_command("queue_routines", "install", verbosity=0)
    for queue in ("kept", "lost"):
        client.put(queue, "x")
        [held] = client.claim(queue)
        assert client.ack(held["id"], held["token"])
    call_command("queue_routines", "install", verbosity=0)
    assert [(message.queue, message.status) for message in Message.objects.all()] == [("kept", "y")]


BAD: dict[str, tuple[tuple[Any, ...], str]] = {
    "no queue": ((None, "x", 1, 0), "queue_name must be"),
    "an empty queue": (("", "x", 1, 0), "queue_name must be"),
    "a queue with a blank": (("a b", "x", 1, 0), "queue_name must be"),
    "a queue that ends a line": (("a\n", "x", 1, 0), "queue_name must be"),
    "a queue that begins with a dot": ((".a", "x", 1, 0), "queue_name must be"),
    "a queue of 65 characters": (("a" * 65, "x", 1, 0), "queue_name must be"),
    "a queue of 300 characters": (("a" * 300, "x", 1, 0), "queue_name"),
    "a queue that is not ASCII": (("büro", "x", 1, 0), "queue_name"),
    "no payload": (("q", None, 1, 0), "payload must not be NULL"),
    "a payload over a mebibyte": (("q", "x" * (1024 * 1024 + 1), 1, 0), "payload must not take more"),
    "a negative limit": (("q", "x", -1, 0), "max_read_cnt must be"),
    "a limit beyond all sense": (("q", "x", 2_000_000_001, 0), "max_read_cnt must be"),
    "a negative time": (("q", "x", 1, -1), "invisibility_time must be"),
    "a time beyond the calendar": (("q", "x", 1, 10**15), "invisibility_time must be"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused_by_name_and_nothing_is_written(client: Client, case: str) -> None:
    arguments, words = BAD[case]
    with pytest.raises(client.Error, match=words):
        client.value("put_message_in_queue", *arguments)
    assert Message.objects.count() == 0


@pytest.mark.parametrize("case", [case for case in BAD if "queue" in case])
def test_the_verbs_that_take_messages_refuse_the_same_names(client: Client, case: str) -> None:
    name, words = BAD[case][0][0], BAD[case][1]
    with pytest.raises(client.Error, match=words):
        client.call("get_message_from_queue", name)
    with pytest.raises(client.Error, match=words):
        client.call("claim_messages", name, 1, 60)


@pytest.mark.parametrize(("how_many", "lease"), [(None, 60), (0, 60), (-1, 60), (1001, 60), (1, -1), (1, 0), (1, 1e12)])
def test_a_claim_of_a_senseless_number_is_refused(client: Client, how_many: int | None, lease: float) -> None:
    client.put(QUEUE, "hello")
    with pytest.raises(client.Error, match="how_many must be" if lease == 60 else "lease must be"):
        client.call("claim_messages", QUEUE, how_many, lease)
    assert Message.objects.ready(QUEUE).count() == 1


def test_a_time_of_nothing_holds_for_readers_by_sql_and_a_worker_takes_its_own_lease(client: Client) -> None:
    message_id = client.put(QUEUE, "hello", 0, 0)
    assert [client.get(QUEUE)[0]["id"] for _ in range(2)] == [message_id] * 2
    assert Message.objects.rescue(QUEUE) == 1
    [message] = Message.objects.claim(1, queue=QUEUE)
    assert (message.pk, message.lease_seconds) == (message_id, 60)
    assert client.get(QUEUE) == []


def test_senseless_delays_are_refused_and_the_claim_stays(client: Client) -> None:
    client.put(QUEUE, "hello")
    [held] = client.claim(QUEUE)
    with pytest.raises(client.Error, match="delay must be"):
        client.nack(held["id"], held["token"], -1)
    with pytest.raises(client.Error, match="seconds must be"):
        client.extend(held["id"], held["token"], 1e12)
    assert client.ack(held["id"], held["token"])


PLANES = "".join(chr(code) for plane in range(17) for code in (plane * 0x10000 + 0xFF, plane * 0x10000 + 0x1234))
BRACKETS = ["[" * 30 + "]" * 30, "[" * 90 + "]" * 90, "[" * 201 + "]" * 201, '{"a":' * 199 + "1" + "}" * 199]
TEXTS = [
    "", " ", "hello", "it's 100% \\ \"fine\"\r\n\t; -- /* */ //", "\x01\x02\x1f\x7f", "\ufeffbom", "é" + "e\u0301",
    "123", "true", "null", '"quoted"', "NaN", "{}", " [1, 2]\n", '{"a": 1, "a": 2}', '{"b":1,  "a":1.0, "c":1e2}',
    '{"a":', "[1,]", "[01]", "[1.]", "[.5]", "[-]", "[1e]", "[NaN]", '["\\x41"]', '["\\a"]', '["\\ud800"]', "[1]x",
    '["a\nb"]', "\x0b[1]", "[1]\x0b", "[1e999]", '["\\\\", "\\"", "\\u00e9"]', '["- a. 1. b 1e c", -1.5e-7]',
    "[" + "9" * 4300 + "]", "[" + "9" * 4301 + "]", '["' + "9" * 5000 + '"]', json.dumps({"a": "x" * 200_000}),
    '["' + '\\"' * 400_000 + '"]', json.dumps({f"k{number}": "- v 1." for number in range(40_000)}),
    "[[]" + ",[]" * 999 + "]", PLANES, *BRACKETS,
]  # fmt: skip


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: ascii(text)[:40])
def test_any_text_comes_out_as_it_went_in_and_python_can_read_it(client: Client, text: str) -> None:
    client.put(QUEUE, text, 0, 0)
    assert client.get(QUEUE)[0]["payload"] == text
    [message] = Message.objects.claim(queue=QUEUE)
    assert message.body == text
    if message.content_type == "json":
        assert text.strip()[0] in "[{"
        assert message.payload == json.loads(text)
    else:
        assert message.payload == text


@pytest.mark.parametrize("text", ["{}", "[]", ' {"to": "ann@example.com"}', '[{"a": [1, 2.5, null, "ü"]}]\n'])
def test_json_objects_and_arrays_are_decoded_for_python(client: Client, text: str) -> None:
    client.put(QUEUE, text)
    [message] = Message.objects.claim(queue=QUEUE)
    assert (message.content_type, message.payload) == ("json", json.loads(text))


def test_a_payload_with_nul_comes_through_where_text_can_hold_it(client: Client) -> None:
    if not client.is_mysql:
        with pytest.raises(Exception, match="NUL"):
            client.put(QUEUE, "a\0b")
        return
    for text in ("a\0b", "[1]\0", '["\0"]'):
        client.put(QUEUE, text, 0, 0)
        [message] = Message.objects.claim(queue=QUEUE)
        assert (message.payload, message.content_type) == (text, "text")
        message.ack()


@pytest.mark.parametrize("payload", [{"a": [1, "ü"]}, "plain text", b"\x00\xff bytes", 17, None])
def test_what_python_enqueues_comes_out_as_its_stored_body(client: Client, payload: Any) -> None:
    message = Message.objects.enqueue(payload, queue=QUEUE, headers={"trace": "1"}, key="k")
    [row] = client.claim(QUEUE)
    stored = Message.objects.get(pk=message.pk)
    assert (row["payload"], row["content_type"]) == (stored.body, stored.content_type)
    assert (row["key"], json.loads(row["headers"])) == ("k", {"trace": "1"})
    if isinstance(payload, bytes):
        assert base64.b64decode(row["payload"]) == payload
    elif not isinstance(payload, str):
        assert json.loads(row["payload"]) == payload
