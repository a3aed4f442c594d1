"""Groups by SQL beside transactions that are open, rolled back, or hold the next message locked (P18)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.conf import settings

from django_dbqueue.models import Message, Ticket
from tests.factories import QUEUE
from tests.groups.rows import nothing_is_left
from tests.routines.client import Client
from tests.routines.conftest import drained


def test_a_message_whose_transaction_rolls_back_leaves_nothing_behind(client: Client) -> None:
    client.run("START TRANSACTION")
    client.put_in_group(QUEUE, "a", "x")
    client.run("ROLLBACK")
    assert client.kick(QUEUE, "a") == 0
    assert nothing_is_left()


@pytest.mark.parametrize("configured", [{"group_limit": 2}], indirect=True)
def test_in_a_transaction_others_of_a_wide_group_are_not_kept_waiting(
    configured: Client, start_client: Callable[[], Client]
) -> None:
    for number in range(5):
        configured.put_in_group(QUEUE, "a", str(number))
    configured.kick(QUEUE, "a")
    one, other = configured.claim(QUEUE, 2, 60)
    configured.run("START TRANSACTION")
    if configured.is_mysql:
        configured.run("SET @before = 1")
    configured.put("elsewhere", "their own rows")
    assert configured.ack(one["id"], one["token"])
    if settings.TEST_DATABASE != "mysql":  # which doesn't tell a routine of START TRANSACTION
        second = start_client()
        assert second.ack(other["id"], other["token"])
        assert [row["payload"] for row in second.claim(QUEUE, 10, 60)] == ["2"]
    configured.run("COMMIT")
    configured.kick(QUEUE)
    assert Ticket.objects.count() == 2


def test_an_ack_in_a_transaction_that_rolls_back_keeps_the_place(client: Client) -> None:
    first = client.put_in_group(QUEUE, "a", "1")
    client.put_in_group(QUEUE, "a", "2")
    client.kick(QUEUE, "a")
    [held] = client.claim(QUEUE, 1, 600)
    client.run("START TRANSACTION")
    assert client.ack(first, held["token"])
    client.run("ROLLBACK")
    assert client.claim(QUEUE, 10, 60) == []
    assert client.ack(first, held["token"])
    assert drained(client) == ["2"]


@pytest.mark.parametrize("end", ["ack", "delete"])
def test_what_cannot_hand_on_fails_and_changes_nothing(
    client: Client, start_client: Callable[[], Client], end: str
) -> None:
    """Somebody has the next message locked, and this session waits no longer than a second for it."""
    first, second = (client.put_in_group(QUEUE, "a", text) for text in ("1", "2"))
    client.kick(QUEUE, "a")
    [held] = client.claim(QUEUE, 1, 600)
    other = start_client()
    other.run("START TRANSACTION")
    other.delete(second)
    client.run("SET innodb_lock_wait_timeout = 1" if client.is_mysql else "SET lock_timeout = '500ms'")
    with pytest.raises(client.Error) as error:
        client.ack(first, held["token"]) if end == "ack" else client.delete(first)
    assert client.code(error.value) in {1205, "55P03"}
    assert Message.objects.get(pk=first).status == "run"
    assert list(Ticket.objects.values_list("message_id", flat=True)) == [first]
    other.run("ROLLBACK")
    assert client.ack(first, held["token"])
    assert drained(client) == ["2"]


def test_a_kick_and_a_put_wait_for_nobodys_transaction(client: Client, start_client: Callable[[], Client]) -> None:
    ids = [client.put_in_group(QUEUE, "a", text) for text in ("1", "2")]
    client.put_in_group(QUEUE, "b", "of another group")
    assert client.kick(QUEUE) == 2
    [held] = [row for row in client.claim(QUEUE, 2, 600) if row["id"] == ids[0]]
    client.run("START TRANSACTION")
    assert client.ack(ids[0], held["token"])
    client.put_in_group(QUEUE, "a", "3")
    client.put_in_group(QUEUE, "c", "first of its group")
    other = start_client()
    other.run("SET innodb_lock_wait_timeout = 1" if client.is_mysql else "SET lock_timeout = '500ms'")
    other.put_in_group(QUEUE, "a", "4")
    other.put_in_group(QUEUE, "c", "second")
    assert other.kick(QUEUE, "a") == 0
    assert other.kick(QUEUE, "c") == 1
    assert other.kick(QUEUE) == 0
    client.run("COMMIT")
    assert client.kick(QUEUE) == 0
    assert set(Ticket.objects.values_list("message_id", flat=True)) > {ids[1]}
    assert Ticket.objects.count() == 3
