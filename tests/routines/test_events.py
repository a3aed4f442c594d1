"""What SQL clients do beside the ordinary is in the life of a message too, written by the routine that does it."""

from __future__ import annotations

from typing import Any

from django_dbqueue.models import Message, MessageEvent
from tests.factories import QUEUE, let_pass, written_by_sql
from tests.routines.client import Client


def recorded() -> list[tuple[Any, ...]]:
    rows = MessageEvent.objects.order_by("id").values_list("message_id", "kind", "read_count", "detail")
    return [(message, kind, reads, (detail or "").partition(":")[0]) for message, kind, reads, detail in rows]


def test_a_failure_is_recorded_and_the_last_one_as_a_death(client: Client) -> None:
    message_id = client.put(QUEUE, "hello", 2)
    for _ in range(2):
        [claim] = client.claim(QUEUE)
        assert client.nack(message_id, claim["token"])
    assert recorded() == [(message_id, "failed", 1, ""), (message_id, "died", 2, "")]
    event = MessageEvent.objects.latest("id")
    assert event.conn_id is not None
    assert event.claimed_at is not None
    assert Message.objects.get(pk=message_id).is_dead


def test_whoever_lost_the_claim_is_not_recorded(client: Client) -> None:
    message_id = client.put(QUEUE, "hello", 2)
    [claim] = client.claim(QUEUE)
    assert not client.nack(message_id, claim["token"] + 1)
    assert client.ack(message_id, claim["token"])
    assert not client.nack(message_id, claim["token"])
    assert recorded() == []


def test_what_a_claim_takes_from_a_late_holder_is_recorded(client: Client) -> None:
    again, last = client.put(QUEUE, "hello", 2), client.put(QUEUE, "hello", 1)
    assert len(client.claim(QUEUE, 2)) == 2
    for message in Message.objects.all():
        let_pass(message, 61)
    assert [row["id"] for row in client.claim(QUEUE, 2)] == [again]
    assert sorted(recorded()) == [(again, "rescued", 1, "LeaseOver"), (last, "died", 1, "LeaseOver")]


def test_a_row_without_a_read_left_is_recorded(client: Client) -> None:
    message = written_by_sql("1", read_count=2, max_reads=2)
    assert client.claim(QUEUE) == []
    assert recorded() == [(message.pk, "died", 2, "ReadsSpent")]


def test_what_the_caller_rolls_back_is_not_recorded(client: Client) -> None:
    message_id = client.put(QUEUE, "hello", 2)
    [claim] = client.claim(QUEUE)
    client.run("BEGIN")
    assert client.nack(message_id, claim["token"])
    client.run("ROLLBACK")
    assert recorded() == []
    assert Message.objects.get(pk=message_id).status == "run"


def test_the_ordinary_is_not_recorded(client: Client) -> None:
    message_id = client.put(QUEUE, "hello", 2)
    [claim] = client.claim(QUEUE)
    assert client.extend(message_id, claim["token"], 5)
    assert client.ack(message_id, claim["token"])
    assert recorded() == []
