"""Groups by SQL: one message after the other, through the routines alone and beside Python (P18)."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pytest
from django.core.management import call_command
from django.test import override_settings

from django_dbqueue.exceptions import InvalidMessage
from django_dbqueue.keys import lane_of
from django_dbqueue.models import Group, Line, Message, Ticket
from django_dbqueue.sessions.django_session import session_of
from django_dbqueue.worker.keepers import Keepers
from tests import factories
from tests.factories import QUEUE
from tests.groups.rows import nothing_is_left
from tests.routines.client import Client
from tests.routines.conftest import drained

GROUPS = ["a", " ", "a ", "A", "ü", "\U0001f6e9 tail", "x" * 200, "é" * 200, "**", "a\tb\n", 'it\'s 100% \\ "fine"']


def test_a_routine_knows_the_same_lane_as_python(client: Client) -> None:
    sent = {
        client.put_in_group(queue, group, "x"): (queue, group)
        for queue, group in product(["b", "odd.Name_:-1", "q" * 64, "7"], GROUPS)
    }
    rows = Message.objects.values_list("pk", "lane", "queue", "group_name")
    assert {pk: place for pk, *place in rows} == {pk: [lane_of(*of), *of] for pk, of in sent.items()}
    assert set(Line.objects.values_list("lane", "message_id")) == {(lane_of(*of), pk) for pk, of in sent.items()}


def test_what_a_routine_writes_is_what_python_writes(client: Client) -> None:
    by_routine = client.put_in_group(QUEUE, "a", "hello", 3, 60)
    first, second = (
        Message.objects.enqueue("hello", queue=QUEUE, group="a", max_reads=3, lease=60).pk for _ in range(2)
    )
    assert Message.objects.get(pk=by_routine).status == "n"
    names = [field.attname for field in Message._meta.concrete_fields if not field.attname.endswith(("_at", "id"))]
    assert (
        Message.objects.values_list(*names).get(pk=by_routine)
        == Message.objects.values_list(*names).get(pk=first)
        == Message.objects.values_list(*names).get(pk=second)
    )
    assert set(Message.objects.waiting(QUEUE).values_list("pk", flat=True)) == {first, second}


def test_a_message_waits_until_its_group_is_kicked(client: Client, start_client: Callable[[], Client]) -> None:
    client.run("START TRANSACTION")
    message_id = client.put_in_group(QUEUE, "a", "x")
    client.run("COMMIT")
    assert client.get(QUEUE) == []
    assert Message.objects.waiting(QUEUE).get().pk == message_id
    assert client.kick(QUEUE, "a") == 1
    assert client.kick(QUEUE, "a") == 0
    assert [row["id"] for row in start_client().get(QUEUE)] == [message_id]


def test_without_a_kick_a_workers_keeper_lets_the_group_go_on(client: Client) -> None:
    message_id = client.put_in_group(QUEUE, "a", "x")
    Keepers(session_of("default")).turn()
    assert [row["id"] for row in client.get(QUEUE)] == [message_id]


def test_a_kick_without_a_group_reaches_each_group_of_the_queue_and_no_other(client: Client) -> None:
    for number in range(510):
        client.put_in_group(QUEUE, f"g{number}", "x")
    client.put_in_group("other", "g0", "x")
    assert client.kick(QUEUE) == 510
    assert client.kick(QUEUE) == 0
    assert Message.objects.ready(QUEUE).count() == 510
    assert Message.objects.waiting("other").count() == 1


def test_no_group_is_an_ordinary_message(client: Client) -> None:
    client.put_in_group(QUEUE, None, "x")
    assert nothing_is_left()
    assert len(client.get(QUEUE)) == 1


def test_groups_and_messages_without_one_do_not_wait_for_each_other(client: Client) -> None:
    for payload in ("1", "2", "3"):
        client.put_in_group(QUEUE, "a", payload)
    client.put_in_group(QUEUE, "b", "other")
    client.put(QUEUE, "none")
    assert client.kick(QUEUE) == 2
    rows = client.claim(QUEUE, 10, 60)
    assert {row["payload"] for row in rows} == {"1", "other", "none"}
    assert all(client.ack(row["id"], row["token"]) for row in rows)
    assert drained(client) == ["2", "3"]
    assert nothing_is_left()


ENDS = ["ack", "delete", "death by nack", "death by rescue", "found spent", "removed", "in a transaction"]


@pytest.mark.parametrize("end", ENDS)
def test_whatever_ends_a_message_lets_the_next_one_run(client: Client, end: str) -> None:
    first = client.put_in_group(QUEUE, "a", "1", 1)
    second = client.put_in_group(QUEUE, "a", "2")
    assert client.kick(QUEUE, "a") == 1
    [held] = client.claim(QUEUE, 10, 60)
    assert held["id"] == first
    if end == "ack":
        assert client.ack(first, held["token"])
    elif end == "delete":
        client.delete(first)
    elif end == "death by nack":
        assert client.nack(first, held["token"], 60)
    elif end == "death by rescue":
        factories.let_pass(Message.objects.get(pk=first), 61)
    elif end == "found spent":
        Message.objects.filter(pk=first).update(status="n", available_at=Message.objects.get(pk=second).created_at)
    elif end == "removed":
        with override_settings(DBQUEUE={"QUEUES": {QUEUE: {"on_ack": "delete"}}}):
            call_command("queue_routines", "install", verbosity=0)
        assert client.ack(first, held["token"])
        call_command("queue_routines", "install", verbosity=0)  # as the settings are after the test
        assert not Message.objects.filter(pk=first).exists()
    else:
        client.run("START TRANSACTION")
        assert client.ack(first, held["token"])
        client.run("COMMIT")
    assert [row["id"] for row in client.claim(QUEUE, 10, 60)] == [second]
    assert list(Ticket.objects.values_list("message_id", flat=True)) == [second]
    assert not Line.objects.exists()


def test_a_waiting_message_can_be_deleted(client: Client) -> None:
    ids = [client.put_in_group(QUEUE, "a", str(number)) for number in range(4)]
    client.kick(QUEUE, "a")
    client.delete(ids[1])
    assert drained(client) == ["0", "2", "3"]
    assert nothing_is_left()


def test_a_retry_and_a_rescue_keep_the_place(client: Client) -> None:
    first = client.put_in_group(QUEUE, "a", "1", 9)
    client.put_in_group(QUEUE, "a", "2")
    client.kick(QUEUE, "a")
    [held] = client.claim(QUEUE, 10, 60)
    assert client.nack(first, held["token"], 3_600)
    assert client.claim(QUEUE, 10, 60) == []
    factories.let_pass(Message.objects.get(pk=first), 3_600)
    assert [row["id"] for row in client.claim(QUEUE, 10, 60)] == [first]
    factories.let_pass(Message.objects.get(pk=first), 61)
    [held] = client.claim(QUEUE, 10, 60)
    assert (held["id"], held["read_count"]) == (first, 3)
    assert client.ack(first, held["token"])
    assert drained(client) == ["2"]


def test_who_lost_the_claim_hands_nothing_on(client: Client) -> None:
    first = client.put_in_group(QUEUE, "a", "1", 0, 0)
    client.put_in_group(QUEUE, "a", "2")
    client.kick(QUEUE, "a")
    [old] = client.claim(QUEUE, 1)
    [held] = client.claim(QUEUE, 1)
    assert client.ack(first, old["token"]) is False
    assert client.nack(first, old["token"]) is False
    assert list(Ticket.objects.values_list("message_id", flat=True)) == [first]
    assert client.ack(first, held["token"])
    assert client.ack(first, held["token"]) is False
    assert drained(client) == ["2"]


def test_a_paused_group_begins_nothing_until_it_is_resumed(client: Client) -> None:
    for payload in ("1", "2"):
        client.put_in_group(QUEUE, "a", payload)
    client.kick(QUEUE, "a")
    [held] = client.claim(QUEUE, 1, 60)
    Group.objects.pause(QUEUE, "a")
    assert client.nack(held["id"], held["token"], 0)
    assert client.kick(QUEUE, "a") == client.kick(QUEUE) == 0
    assert client.claim(QUEUE, 10, 60) == []
    assert Message.objects.waiting(QUEUE).count() == 2
    Group.objects.resume(QUEUE, "a")
    assert drained(client) == ["1", "2"]


@pytest.mark.parametrize("configured", [{"on_dead": "hold"}], indirect=True)
def test_a_dead_message_holds_its_group_where_the_queue_is_set_so(configured: Client) -> None:
    first = configured.put_in_group(QUEUE, "a", "1", 1)
    configured.put_in_group(QUEUE, "a", "2")
    configured.kick(QUEUE, "a")
    [held] = configured.claim(QUEUE, 10, 60)
    assert configured.nack(first, held["token"])
    assert configured.kick(QUEUE, "a") == 0
    assert configured.claim(QUEUE, 10, 60) == []
    configured.delete(first)
    assert drained(configured) == ["2"]


@pytest.mark.parametrize("configured", [{"group_limit": 2}], indirect=True)
def test_as_many_run_at_once_as_the_settings_or_the_group_allow(configured: Client) -> None:
    for number in range(8):
        configured.put_in_group(QUEUE, "a", str(number))
    assert configured.kick(QUEUE, "a") == 2
    held = configured.claim(QUEUE, 10, 60)
    assert [row["payload"] for row in held] == ["0", "1"]
    assert all(configured.ack(row["id"], row["token"]) for row in held)
    held = configured.claim(QUEUE, 10, 60)
    assert sorted(row["payload"] for row in held) == ["2", "3"]
    Group.objects.limit(QUEUE, "a", 3)
    held += configured.claim(QUEUE, 10, 60)
    assert sorted(row["payload"] for row in held) == ["2", "3", "4"]
    Group.objects.limit(QUEUE, "a", 1)
    assert all(configured.ack(row["id"], row["token"]) for row in held)
    configured.kick(QUEUE)
    assert [row["payload"] for row in configured.claim(QUEUE, 10, 60)] == ["5"]


@pytest.mark.parametrize("configured", [{"group": "*"}], indirect=True)
def test_where_the_queue_is_one_group_each_message_waits_for_its_turn(configured: Client) -> None:
    configured.put(QUEUE, "1")
    configured.put_in_group(QUEUE, None, "2")
    Message.objects.enqueue("3", queue=QUEUE)
    assert configured.kick(QUEUE, "*") == 0
    assert Message.objects.filter(queue=QUEUE, group_name="*", lane=lane_of(QUEUE, "*")).count() == 3
    with pytest.raises(configured.Error, match="all messages of this queue are one group"):
        configured.put_in_group(QUEUE, "a", "x")
    assert [row["payload"] for row in configured.claim(QUEUE, 10, 60)] == ["1"]


BAD = {
    "": "group_name must have 1 to 200 characters",
    "x" * 201: "group_name must have 1 to 200 characters",
    "*": "stands for all messages of a queue",
}


@pytest.mark.parametrize("group", BAD, ids=["nothing", "too long", "all"])
def test_a_group_that_python_refuses_is_refused(client: Client, group: str) -> None:
    with pytest.raises(InvalidMessage):
        Message.objects.enqueue("x", queue=QUEUE, group=group)
    with pytest.raises(client.Error, match=BAD[group]):
        client.put_in_group(QUEUE, group, "x")
    with pytest.raises(client.Error, match=BAD[group]):
        client.kick(QUEUE, group)
    with pytest.raises(client.Error, match="payload must not be NULL"):
        client.value("put_message_in_group", QUEUE, None, 1, 0, "a")
    with pytest.raises(client.Error, match="queue_name must be"):
        client.kick("a b", "a")
    assert not Message.objects.exists()


def test_sql_and_python_share_a_group(client: Client) -> None:
    for number in range(6):
        if number % 2:
            client.put_in_group(QUEUE, "a", str(number))
        else:
            Message.objects.enqueue(str(number), queue=QUEUE, group="a")
    order = []
    for number in range(6):
        if number % 3:
            [row] = client.claim(QUEUE, 10, 60)
            order.append(row["payload"])
            assert client.ack(row["id"], row["token"])
        else:
            [message] = Message.objects.claim(10, queue=QUEUE)
            order.append(message.payload)
            message.ack()
    assert order == ["0", "1", "2", "3", "4", "5"]
    assert nothing_is_left()


def test_what_a_session_last_inserted_is_as_before(client: Client) -> None:
    """On MySQL and MariaDB a routine learns of the lane by LAST_INSERT_ID()."""
    first = client.put_in_group(QUEUE, "a", "1")
    client.kick(QUEUE)
    [held] = client.claim(QUEUE, 1, 60)
    if client.is_mysql:
        client.run("SELECT LAST_INSERT_ID(42)")
    assert client.ack(first, held["token"])
    other = client.put_in_group(QUEUE, "a", "2")
    client.delete(other)
    if client.is_mysql:
        assert client.run("SELECT LAST_INSERT_ID() AS id") == [{"id": 42}]
    assert not client.ack(other, held["token"])
