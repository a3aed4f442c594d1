"""The verbs of article 002 over this queue: put, get, delete, what they refuse, and how payloads come through."""

from __future__ import annotations

import base64
import io
import json
from typing import TYPE_CHECKING, Any

import pytest
from django.conf import settings
from django.core.management import call_command
from django.test import override_settings

from django_dbqueue.databases import Statement, installed
from django_dbqueue.models import Message, Queue
from tests import factories
from tests.factories import QUEUE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.routines.client import Client

COLUMNS = [
    "id", "queue_name", "payload", "read_cnt", "max_read_cnt", "last_read", "next_read", "invisibility_time",
    "created_at", "deleted_at",
]  # fmt: skip


def test_get_has_the_columns_of_the_article_with_our_values(client: Client) -> None:
    message_id = client.put(QUEUE, "hello", 3, 60)
    [row] = client.get(QUEUE)
    message = Message.objects.get(pk=message_id)
    assert list(row) == COLUMNS
    assert {name: row[name] for name in COLUMNS if not name.endswith(("_at", "_read"))} == {
        "id": message_id, "queue_name": QUEUE, "payload": "hello", "read_cnt": 1, "max_read_cnt": 3,
        "invisibility_time": 60,
    }  # fmt: skip
    moments = ("last_read", "next_read", "created_at")
    assert [row[name].replace(tzinfo=None) for name in moments] == [
        moment.replace(tzinfo=None) for moment in (message.claimed_at, message.available_at, message.created_at)
    ]
    assert row["deleted_at"] is None


def test_the_view_shows_the_same_columns_of_every_message(client: Client) -> None:
    waiting, read, deleted = (client.put(QUEUE, text, 1, 60) for text in ("waiting", "read", "deleted"))
    Message.objects.filter(pk=waiting).update(priority=-1)
    [seen] = client.get(QUEUE)
    client.delete(deleted)
    view = {row["id"]: row for row in client.run("SELECT * FROM main_queue")}
    assert list(view[read]) == COLUMNS
    assert view[read] == seen
    assert (view[waiting]["read_cnt"], view[waiting]["last_read"], view[waiting]["deleted_at"]) == (0, None, None)
    assert view[deleted]["deleted_at"] is not None


def test_what_was_got_is_invisible_for_its_time_and_then_comes_again(client: Client) -> None:
    message_id = client.put(QUEUE, "hello", 0, 600)
    assert [row["id"] for row in client.get(QUEUE)] == [message_id]
    assert client.get(QUEUE) == []
    factories.let_pass(Message.objects.get(pk=message_id), 601)
    [row] = client.get(QUEUE)
    assert (row["id"], row["read_cnt"]) == (message_id, 2)


def test_a_limit_of_nothing_is_no_limit(client: Client) -> None:
    client.put(QUEUE, "hello", 0, 0)
    assert [client.get(QUEUE)[0]["read_cnt"] for _ in range(7)] == [1, 2, 3, 4, 5, 6, 7]


def test_what_was_read_as_often_as_it_may_is_dead_and_not_lost(client: Client) -> None:
    message_id = client.put(QUEUE, "hello", 2, 0)
    assert [client.get(QUEUE)[0]["read_cnt"] for _ in range(2)] == [1, 2]
    assert client.get(QUEUE) == []
    [dead] = Message.objects.dead(QUEUE)
    assert dead.pk == message_id
    assert Message.objects.dead(QUEUE).requeue() == 1
    assert client.get(QUEUE)[0]["id"] == message_id


@pytest.mark.parametrize("make", [factories.waiting, factories.held, factories.stuck, factories.dead])
def test_delete_finishes_a_message_in_every_state_but_done(client: Client, make: Callable[..., Message]) -> None:
    message = make(key="k")
    client.delete(message.pk)
    row = factories.row(message)
    assert (row["status"], row["live"], row["error"], row["available_at"]) == ("y", None, None, row["finished_at"])
    assert Message.objects.enqueue("again", queue=QUEUE, key="k").outcome == "created"


def test_delete_of_what_is_done_or_unknown_changes_nothing_and_says_nothing(client: Client) -> None:
    message = factories.done()
    before = factories.rows()
    client.delete(message.pk)
    client.delete(message.pk + 1)
    assert factories.rows() == before


def test_whoever_holds_what_was_deleted_is_refused(client: Client) -> None:
    client.put(QUEUE, "hello")
    [held] = client.claim(QUEUE)
    client.delete(held["id"])
    assert client.ack(held["id"], held["token"]) is False


def test_null_says_what_the_settings_say(client: Client) -> None:
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


@pytest.mark.parametrize(("how_many", "lease"), [(None, 60), (0, 60), (-1, 60), (1001, 60), (1, -1), (1, 1e12)])
def test_a_claim_of_a_senseless_number_is_refused(client: Client, how_many: int | None, lease: float) -> None:
    client.put(QUEUE, "hello")
    with pytest.raises(client.Error, match="how_many must be" if lease == 60 else "lease must be"):
        client.call("claim_messages", QUEUE, how_many, lease)
    assert Message.objects.ready(QUEUE).count() == 1


def test_senseless_delays_are_refused_and_the_claim_stays(client: Client) -> None:
    client.put(QUEUE, "hello")
    [held] = client.claim(QUEUE)
    with pytest.raises(client.Error, match="delay must be"):
        client.nack(held["id"], held["token"], -1)
    with pytest.raises(client.Error, match="seconds must be"):
        client.extend(held["id"], held["token"], 1e12)
    assert client.ack(held["id"], held["token"])


def test_a_paused_queue_takes_messages_in_and_gives_none_out(client: Client) -> None:
    Queue.objects.pause(QUEUE)
    client.put(QUEUE, "hello")
    assert client.get(QUEUE) == []
    Queue.objects.resume(QUEUE)
    assert len(client.get(QUEUE)) == 1


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


def test_put_joins_the_callers_transaction(client: Client, start_client: Callable[[], Client]) -> None:
    client.run("START TRANSACTION")
    message_id = client.put(QUEUE, "hello")
    assert start_client().get(QUEUE) == []
    client.run("ROLLBACK")
    assert not Message.objects.filter(pk=message_id).exists()
    client.run("START TRANSACTION")
    client.put(QUEUE, "hello")
    client.run("COMMIT")
    assert len(start_client().get(QUEUE)) == 1


def test_a_settlement_joins_the_callers_transaction(client: Client) -> None:
    client.put(QUEUE, "hello")
    [held] = client.claim(QUEUE)
    client.run("START TRANSACTION")
    assert client.ack(held["id"], held["token"])
    client.run("ROLLBACK")
    assert client.ack(held["id"], held["token"])


def test_a_get_in_the_callers_transaction_is_undone_with_it_and_commits_nothing(
    client: Client, start_client: Callable[[], Client]
) -> None:
    first, second = client.put(QUEUE, "first"), client.put(QUEUE, "second")
    client.run("START TRANSACTION")
    third = client.put(QUEUE, "third")
    assert client.get(QUEUE)[0]["id"] == first
    assert start_client().get(QUEUE)[0]["id"] == second
    client.run("ROLLBACK")
    assert not Message.objects.filter(pk=third).exists()
    assert client.get(QUEUE)[0]["id"] == first
    assert client.get(QUEUE) == []


def test_what_others_have_locked_is_passed_by_however_much_it_is(
    client: Client, start_client: Callable[[], Client]
) -> None:
    ids = [client.put(QUEUE, "x", 5, 60) for _ in range(60)]
    client.run("START TRANSACTION")
    assert [row["id"] for row in client.claim(QUEUE, 55)] == ids[:55]
    other = start_client()
    assert [row["id"] for row in other.get(QUEUE)] == [ids[55]]
    assert [row["id"] for row in other.claim(QUEUE, 10)] == ids[56:]
    assert other.get(QUEUE) == []
    client.run("ROLLBACK")
    assert [row["id"] for row in other.claim(QUEUE, 3)] == ids[:3]


def test_a_get_of_nothing_in_an_open_transaction_holds_up_nobody(
    client: Client, start_client: Callable[[], Client]
) -> None:
    Message.objects.enqueue("later", queue="empty", delay=3600)
    Message.objects.enqueue("running", queue="empty")
    client.claim("empty")
    client.run("START TRANSACTION")
    assert client.get("empty") == []
    other = start_client()
    if other.is_mysql:
        other.run("SET SESSION innodb_lock_wait_timeout = 1")
    else:
        other.run("SET lock_timeout = '1s'")
    sent = [other.put(queue, "x") for queue in ("empty", "emptx", "emptz")]
    assert [other.get(queue)[0]["id"] for queue in ("empty", "emptx", "emptz")] == sent
    client.run("COMMIT")


def test_what_is_put_in_one_time_zone_is_due_at_once_in_another(
    client: Client, start_client: Callable[[], Client]
) -> None:
    name = "time_zone" if client.is_mysql else "TimeZone"
    other = start_client()
    client.run(f"SET {name} = '+11:00'")
    other.run(f"SET {name} = '-11:00'")
    message_id = client.put(QUEUE, "x", 0, 600)
    assert [row["id"] for row in other.get(QUEUE)] == [message_id]
    assert client.get(QUEUE) == []
    message = Message.objects.get(pk=message_id)
    assert (message.available_at - message.claimed_at).total_seconds() == 600


def test_a_late_message_that_its_holder_is_settling_is_passed_by(
    client: Client, start_client: Callable[[], Client]
) -> None:
    client.put(QUEUE, "x", 5, 0)
    [held] = client.claim(QUEUE)
    client.run("START TRANSACTION")
    assert client.ack(held["id"], held["token"])
    assert start_client().get(QUEUE) == []
    client.run("COMMIT")
    assert Message.objects.get(pk=held["id"]).status == "y"


def test_the_isolation_of_the_callers_session_stays_as_it_was(client: Client) -> None:
    if client.is_mysql:
        name = (
            "@@session.transaction_isolation"
            if "maria" not in client.session.get_server_info().lower()
            else "@@tx_isolation"
        )
        ask = f"SELECT {name} AS isolation"
    else:
        ask = "SELECT current_setting('transaction_isolation') AS isolation"
    before = client.run(ask)
    client.get(QUEUE)
    client.claim(QUEUE)
    assert client.run(ask) == before


@pytest.mark.parametrize("source", ["as the server has it", "without RANDOM_BYTES"])
def test_the_tokens_are_63_bits_of_which_each_is_as_often_set_as_not(
    client: Client, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if source == "without RANDOM_BYTES":  # as a MariaDB before 10.10
        monkeypatch.setattr(installed, "random_bytes", lambda: Statement("SELECT NO_SUCH_FUNCTION(1)", ()))
        made = io.StringIO()
        call_command("queue_routines", "install", stdout=made)
        assert ("made function dbqueue_new_token" in made.getvalue()) == (settings.TEST_DATABASE == "mariadb")
        monkeypatch.undo()
    for _ in range(400):
        client.put(QUEUE, "x")
    tokens = {client.claim(QUEUE)[0]["token"] for _ in range(400)}
    assert len(tokens) == 400
    assert all(0 < token < 2**63 for token in tokens)
    for bit in range(63):
        # 400 tosses of a coin come outside of these bounds once in some millions of millions of runs
        assert 130 < sum(token >> bit & 1 for token in tokens) < 270, f"bit {bit}"
    call_command("queue_routines", "install", verbosity=0)


if settings.TEST_DATABASE == "postgres":

    def heard(listener: Client) -> list[tuple[str, str]]:
        """What has come to a session that listens; one of its own statements shows that no more is under way."""
        listener.run("SELECT 1")
        return [(notify.channel, notify.payload) for notify in listener.session.notifies(timeout=0)]

    def test_put_notifies_listening_workers_when_it_commits(client: Client, start_client: Callable[[], Client]) -> None:
        listener = start_client()
        listener.run("LISTEN django_dbqueue")
        client.run("BEGIN")
        client.put(QUEUE, "hello")
        assert heard(listener) == []
        client.run("COMMIT")
        assert heard(listener) == [("django_dbqueue", QUEUE)]

    def test_put_notifies_nobody_where_the_setting_says_so(client: Client, start_client: Callable[[], Client]) -> None:
        listener = start_client()
        listener.run("LISTEN django_dbqueue")
        with override_settings(DBQUEUE={"NOTIFY": False}):
            call_command("queue_routines", "install", verbosity=0)
        client.put(QUEUE, "hello")
        call_command("queue_routines", "install", verbosity=0)
        assert heard(listener) == []
