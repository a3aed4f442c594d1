"""Groups by SQL beside workers that take several of a group along, and beside operators who move what is next (P18)."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from django.db import transaction

from django_dbqueue.lifecycle.claimer import Claimer
from django_dbqueue.models import Group, Message, Ticket
from django_dbqueue.sessions.django_session import session_of
from tests import factories
from tests.concurrency.steps import aside, waits_for_a_lock
from tests.factories import QUEUE
from tests.groups.rows import followers, line, nothing_is_left, tickets
from tests.routines.client import Client
from tests.routines.conftest import drained

if TYPE_CHECKING:
    from pytest_django.fixtures import SettingsWrapper

IN_A_ROW = {"group_batch": 10}
in_a_row = pytest.mark.parametrize("configured", [IN_A_ROW], indirect=True)


def send(client: Client, number: int) -> list[int]:
    ids = [client.put_in_group(QUEUE, "a", str(each)) for each in range(number)]
    assert client.kick(QUEUE, "a") == 1
    return ids


def take(number: int) -> list[Message]:
    """Claim the first of the group as a worker does, with those behind it."""
    claimer = Claimer(Message, session_of("default"), QUEUE, in_a_row=number, room=100)
    [head] = claimer.take(1, lease=60, max_reads=5)
    row = [one.message for one in (head, *claimer.followers.get(head.claim.id, ()))]
    assert len(row) == number
    return row


@in_a_row
def test_the_end_of_one_by_sql_lets_none_begin_while_a_worker_has_followers(configured: Client) -> None:
    ids = send(configured, 4)
    row = take(3)
    configured.delete(ids[0])
    assert (tickets(), followers(), line()) == ([ids[1]], [ids[2]], [ids[3]])
    assert configured.claim(QUEUE, 10, 60) == []
    Message.objects.ack(row[1:])
    assert drained(configured) == ["3"]
    assert nothing_is_left()


@in_a_row
def test_a_kick_by_sql_lets_none_begin_while_a_worker_has_followers(configured: Client) -> None:
    ids = send(configured, 3)
    row = take(3)
    with transaction.atomic():
        row[0].ack()
    assert tickets() == []
    ids.append(configured.put_in_group(QUEUE, "a", "3"))
    configured.kick(QUEUE, "a")
    assert (tickets(), line()) == ([ids[1]], [ids[3]])
    assert configured.claim(QUEUE, 10, 60) == []
    Message.objects.ack(row[1:])
    assert drained(configured) == ["3"]
    assert nothing_is_left()


@in_a_row
def test_a_follower_that_is_rescued_by_sql_waits_in_its_order(configured: Client) -> None:
    ids = send(configured, 4)
    for message in take(3):
        factories.let_pass(message, 61)
    [first] = configured.claim(QUEUE, 10, 60)
    assert first["id"] == ids[0]
    assert (tickets(), followers(), line()) == (ids[:1], [], ids[1:])
    assert configured.ack(ids[0], first["token"])
    assert drained(configured) == ["1", "2", "3"]


HOLDS = {"group_batch": 10, "on_dead": "hold"}


@pytest.mark.parametrize("configured", [HOLDS], indirect=True)
@pytest.mark.parametrize("way", ["in the line", "taken along"])
def test_a_dead_one_that_holds_its_group_has_the_place_in_its_turn(
    configured: Client, settings: SettingsWrapper, way: str
) -> None:
    settings.DBQUEUE = {"QUEUES": {QUEUE: HOLDS}}
    ids = send(configured, 3)
    if way == "in the line":
        [held] = configured.claim(QUEUE, 1, 60)
        assert Message.objects.filter(pk=ids[1]).reject_waiting("unwanted") == 1
        assert configured.ack(held["id"], held["token"])
    else:
        row = take(2)
        Message.objects.filter(pk=ids[1]).update(read_count=9, max_reads=9)
        factories.let_pass(row[1], 61)
        assert configured.claim(QUEUE, 10, 60) == []
        assert (followers(), line()) == ([], ids[1:])
        row[0].ack()
    assert (tickets(), line()) == ([ids[1]], ids[2:])
    assert configured.claim(QUEUE, 10, 60) == []
    assert Message.objects.dead(QUEUE).requeue() == 1
    assert drained(configured) == ["1", "2"]
    assert nothing_is_left()


@pytest.mark.parametrize("configured", [{"group_limit": 3}], indirect=True)
def test_while_one_runs_above_a_lower_limit_no_other_begins(configured: Client) -> None:
    for number in range(3):
        configured.put_in_group(QUEUE, "a", str(number))
    assert configured.kick(QUEUE, "a") == 3
    held = configured.claim(QUEUE, 10, 60)
    Group.objects.limit(QUEUE, "a", 1)
    assert all(configured.ack(row["id"], row["token"]) for row in held[:2])
    configured.put_in_group(QUEUE, "a", "3")
    assert configured.kick(QUEUE, "a") == 0
    assert configured.ack(held[2]["id"], held[2]["token"])
    assert configured.kick(QUEUE, "a") == 1
    assert drained(configured) == ["3"]


def session_id(client: Client) -> int:
    return int(client.session.thread_id() if client.is_mysql else client.session.info.backend_pid)


def test_what_is_moved_to_another_queue_gets_no_turn_in_the_one_that_it_leaves(
    client: Client, start_client: Callable[[], Client]
) -> None:
    """Its group there has something to do, so that it waits there, too."""
    ids = send(client, 3)
    [held] = client.claim(QUEUE, 1, 60)
    client.put_in_group("there", "a", "x")
    client.kick("there", "a")
    [busy] = client.claim("there", 1, 600)
    session = session_id(client)
    with aside() as other, ThreadPoolExecutor(1) as thread:
        other.open_transaction()
        assert other.do(lambda: Message.objects.filter(pk=ids[1]).move_to("there")) == 1
        ending = thread.submit(client.surely, lambda: client.ack(held["id"], held["token"]))
        assert waits_for_a_lock(session, ending)
        other.commit()
        assert ending.result()
    moved = Message.objects.get(pk=ids[1])
    assert (moved.queue, moved.status) == ("there", "n")
    assert Message.objects.waiting("there").get() == moved
    assert set(Ticket.objects.values_list("message_id", flat=True)) <= {busy["id"], ids[2]}
    start_client().kick(QUEUE, "a")
    assert drained(client) == ["2"]
    assert client.ack(busy["id"], busy["token"])
    assert drained(client, "there") == ["1"]
