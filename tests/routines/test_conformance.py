"""One suite for both ways in: what a verb leaves in the row is the same through Python and through the routines."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connection

from django_dbqueue.exceptions import LeaseLost
from django_dbqueue.models import Message, Queue
from tests import factories
from tests.routines.client import Client

if TYPE_CHECKING:
    from collections.abc import Callable

QUEUE = factories.QUEUE
LEASE = 3_600
MAX_READS = 5
"""What the settings say where nobody else does; a lease is 60 seconds then."""


@dataclass(frozen=True, slots=True)
class Held:
    """What a holder knows of its claim."""

    id: int
    token: int
    body: str
    content_type: str
    read_count: int
    max_reads: int
    message: Any = None


class ThroughPython:
    def put(self, body: str, max_reads: int | None, lease: int | None) -> int:
        payload = json.loads(body) if body[0] in "[{" else body
        return int(Message.objects.enqueue(payload, queue=QUEUE, max_reads=max_reads, lease=lease).pk)

    def claim(self, how_many: int, lease: float | None) -> list[Held]:
        return [
            Held(m.pk, m.claim_token, m.body, m.content_type, m.read_count, m.max_reads, m)
            for m in Message.objects.claim(how_many, queue=QUEUE, lease=lease)
        ]

    def get(self) -> tuple[int, str, int] | None:
        messages = Message.objects.claim(queue=QUEUE)
        return (messages[0].pk, messages[0].body, messages[0].read_count) if messages else None

    def ack(self, held: Held) -> bool:
        return self._held(held.message.ack)

    def nack(self, held: Held, delay: float | None) -> bool:
        return self._held(lambda: held.message.nack(delay=delay))

    def extend(self, held: Held, seconds: float | None) -> bool:
        return self._held(lambda: held.message.extend(seconds))

    @staticmethod
    def _held(verb: Callable[[], None]) -> bool:
        try:
            verb()
        except LeaseLost:
            return False
        return True


class ThroughRoutines:
    def __init__(self, client: Client) -> None:
        self.client = client

    def put(self, body: str, max_reads: int | None, lease: int | None) -> int:
        return self.client.put(QUEUE, body, max_reads, lease)

    def claim(self, how_many: int, lease: float | None) -> list[Held]:
        return [
            Held(r["id"], r["token"], r["payload"], r["content_type"], r["read_count"], r["max_reads"])
            for r in self.client.claim(QUEUE, how_many, lease)
        ]

    def get(self) -> tuple[int, str, int] | None:
        rows = self.client.get(QUEUE)
        return (rows[0]["id"], rows[0]["payload"], rows[0]["read_cnt"]) if rows else None

    def ack(self, held: Held) -> bool:
        return self.client.ack(held.id, held.token)

    def nack(self, held: Held, delay: float | None) -> bool:
        return self.client.nack(held.id, held.token, delay)

    def extend(self, held: Held, seconds: float | None) -> bool:
        return self.client.extend(held.id, held.token, seconds)


Way = ThroughPython | ThroughRoutines


@pytest.fixture(params=["python", "routines"])
def way(request: pytest.FixtureRequest, client: Client) -> Way:
    return ThroughPython() if request.param == "python" else ThroughRoutines(client)


NEW = {
    "queue": QUEUE, "key": None, "key_hash": None, "live": None, "status": "n", "conn_id": False, "worker_id": False,
    "claim_token": False, "available_at": "now", "due_at": "now", "priority": 0, "read_count": 0, "max_reads": None,
    "crashes": 0, "lease_seconds": None, "body": "hello", "content_type": "text", "headers_text": None,
    "created_at": "now", "claimed_at": None, "finished_at": None, "error": None,
}  # fmt: skip
"""A row as it came in. Numbers of sessions and tokens are there or not; moments are now, or hours from now."""
TAKEN = NEW | {
    "status": "run", "conn_id": True, "claim_token": True, "claimed_at": "now", "available_at": "+1 h",
    "read_count": 1, "max_reads": MAX_READS, "lease_seconds": LEASE,
}  # fmt: skip
BACK = TAKEN | {"status": "n", "conn_id": False, "available_at": "now"}
DONE = TAKEN | {"status": "y", "available_at": "now", "finished_at": "now"}
DEAD = TAKEN | {"status": "n", "conn_id": False, "available_at": None, "finished_at": "now"}


def state(message_id: int) -> dict[str, Any]:
    """The row, with what differs from run to run made comparable."""
    row = Message.objects.values().get(pk=message_id)
    now = datetime.now(UTC)
    del row["id"]
    for name in ("conn_id", "worker_id", "claim_token"):
        row[name] = row[name] is not None
    for name, value in row.items():
        if isinstance(value, datetime):
            hours = round((value - now).total_seconds() / 3600)
            row[name] = f"{hours:+d} h" if hours else "now"
    return row


def taken(way: Way, body: str = "hello", *, max_reads: int | None = None, lease: float = LEASE) -> Held:
    way.put(body, max_reads, None)
    [held] = way.claim(1, lease)
    return held


def test_put_leaves_a_row_that_is_due_now(way: Way) -> None:
    assert state(way.put("hello", None, None)) == NEW


def test_put_keeps_the_limit_and_the_lease_that_it_was_given(way: Way) -> None:
    assert state(way.put("hello", 0, 30)) == NEW | {"max_reads": 0, "lease_seconds": 30}


def test_put_of_a_json_object_or_array_is_json(way: Way) -> None:
    assert state(way.put('{"a":[1,null]}', None, None)) == NEW | {"body": '{"a":[1,null]}', "content_type": "json"}


def test_a_claim_takes_the_row_under_a_token_and_writes_what_holds_for_it(way: Way) -> None:
    held = taken(way)
    assert state(held.id) == TAKEN
    assert (held.body, held.content_type, held.read_count, held.max_reads) == ("hello", "text", 1, MAX_READS)
    assert 0 < held.token < 2**63
    assert held.token == Message.objects.get(pk=held.id).claim_token


def test_a_claim_says_the_session_that_holds_it(way: Way) -> None:
    held = taken(way)
    if isinstance(way, ThroughRoutines):
        [row] = way.client.run(
            "SELECT connection_id() AS id" if way.client.is_mysql else "SELECT pg_backend_pid() AS id"
        )
        session = row["id"]
    else:
        with connection.cursor() as cursor:
            cursor.execute("SELECT connection_id()" if connection.vendor == "mysql" else "SELECT pg_backend_pid()")
            session = cursor.fetchone()[0]
    assert Message.objects.get(pk=held.id).conn_id == session


def test_the_messages_own_lease_goes_before_the_claims(way: Way) -> None:
    message_id = way.put("hello", None, 2 * LEASE)
    way.claim(1, LEASE)
    assert state(message_id) == TAKEN | {"available_at": "+2 h", "lease_seconds": 2 * LEASE}


def test_without_any_lease_the_setting_holds(way: Way) -> None:
    message_id = way.put("hello", None, None)
    way.claim(1, None)
    assert state(message_id) == TAKEN | {"available_at": "now", "lease_seconds": 60}


def test_get_takes_one_message_for_its_own_lease(way: Way) -> None:
    first, second = way.put("hello", None, LEASE), way.put("hello", None, None)
    assert way.get() == (first, "hello", 1)
    assert (state(first), state(second)) == (TAKEN, NEW)
    assert way.get() == (second, "hello", 1)
    assert way.get() is None


def test_each_claim_draws_a_token_of_its_own_for_all_that_it_takes(way: Way) -> None:
    for _ in range(4):
        way.put("hello", None, None)
    first, second = way.claim(2, LEASE), way.claim(2, LEASE)
    assert len({held.token for held in first}) == len({held.token for held in second}) == 1
    assert first[0].token != second[0].token


def test_a_claim_gives_priority_then_due_time_then_id(way: Way) -> None:
    low, high, highest = (Message.objects.enqueue(p, queue=QUEUE, priority=p).pk for p in (0, 5, 9))
    also_high = Message.objects.enqueue("x", queue=QUEUE, priority=5).pk
    Message.objects.enqueue("later", queue=QUEUE, priority=9, delay=3600)
    assert [held.id for held in way.claim(10, LEASE)] == [highest, high, also_high, low]


def test_a_claim_takes_no_more_than_it_was_asked_for(way: Way) -> None:
    ids = [way.put("hello", None, None) for _ in range(5)]
    assert [held.id for held in way.claim(3, LEASE)] == ids[:3]
    assert [held.id for held in way.claim(3, LEASE)] == ids[3:]
    assert way.claim(3, LEASE) == []


def test_a_claim_takes_nothing_of_other_queues(way: Way) -> None:
    for other in ("aaa", "tests.", "zzz"):
        Message.objects.enqueue("x", queue=other)
    assert way.claim(10, LEASE) == []


def test_a_paused_queue_gives_nothing(way: Way) -> None:
    message_id = way.put("hello", None, None)
    Queue.objects.pause(QUEUE, by="ann", reason="tea")
    assert way.claim(1, LEASE) == []
    assert state(message_id) == NEW
    Queue.objects.resume(QUEUE)
    assert [held.id for held in way.claim(1, LEASE)] == [message_id]


def test_ack_finishes_the_message(way: Way) -> None:
    held = taken(way)
    assert way.ack(held)
    assert state(held.id) == DONE


def test_ack_forgets_the_error_and_the_crashes_and_frees_the_key(way: Way) -> None:
    message = Message.objects.enqueue("hello", queue=QUEUE, key="k")
    Message.objects.filter(pk=message.pk).update(crashes=2, error="was bad")
    [held] = way.claim(1, LEASE)
    assert way.ack(held)
    assert state(held.id) == DONE | {"key": "k", "key_hash": message.key_hash}


def test_nack_gives_the_message_back_where_it_stood(way: Way) -> None:
    held = taken(way)
    factories.let_pass(Message.objects.get(pk=held.id), 3 * 3600)
    assert way.nack(held, None)
    before = {"created_at": "-3 h", "due_at": "-3 h", "claimed_at": "-3 h"}
    assert state(held.id) == BACK | before | {"available_at": "-3 h"}


def test_nack_with_a_delay_makes_it_due_then(way: Way) -> None:
    held = taken(way)
    assert way.nack(held, 2 * 3600)
    assert state(held.id) == BACK | {"available_at": "+2 h", "due_at": "+2 h"}


def test_nack_forgets_the_crashes_and_keeps_the_error(way: Way) -> None:
    held = taken(way)
    Message.objects.filter(pk=held.id).update(crashes=2, error="was bad")
    assert way.nack(held, None)
    assert state(held.id) == BACK | {"error": "was bad"}


@pytest.mark.parametrize("delay", [None, 3600])
def test_nack_of_the_last_read_is_the_death_of_the_message(way: Way, delay: float | None) -> None:
    held = taken(way, max_reads=1)
    assert way.nack(held, delay)
    assert state(held.id) == DEAD | {"max_reads": 1}
    assert way.claim(1, LEASE) == []


def test_a_death_frees_the_key(way: Way) -> None:
    message = Message.objects.enqueue("hello", queue=QUEUE, key="k", max_reads=1)
    [held] = way.claim(1, LEASE)
    assert way.nack(held, None)
    assert state(held.id) == DEAD | {"max_reads": 1, "key": "k", "key_hash": message.key_hash}


def test_without_a_limit_a_nack_is_never_a_death(way: Way) -> None:
    held = taken(way, max_reads=0)
    Message.objects.filter(pk=held.id).update(read_count=1_000_000)
    assert way.nack(held, None)
    assert state(held.id) == BACK | {"max_reads": 0, "read_count": 1_000_000}


def test_extend_moves_the_deadline_and_nothing_else(way: Way) -> None:
    held = taken(way)
    assert way.extend(held, 3 * 3600)
    assert state(held.id) == TAKEN | {"available_at": "+3 h"}
    assert way.extend(held, None)
    assert state(held.id) == TAKEN


@pytest.mark.parametrize("verb", ["ack", "nack", "extend"])
def test_who_does_not_hold_the_claim_is_told_so_and_changes_nothing(way: Way, verb: str) -> None:
    first = taken(way, lease=0)
    [second] = way.claim(1, LEASE)
    assert second.id == first.id
    before = factories.rows()
    do = {"ack": way.ack, "nack": lambda held: way.nack(held, 0), "extend": lambda held: way.extend(held, 60)}[verb]
    assert do(first) is False
    assert factories.rows() == before
    assert do(second) is True


@pytest.mark.parametrize("verb", ["ack", "nack", "extend"])
def test_what_is_settled_is_not_settled_again(way: Way, verb: str) -> None:
    held = taken(way)
    assert way.ack(held)
    before = factories.rows()
    do = {"ack": way.ack, "nack": lambda held: way.nack(held, 0), "extend": lambda held: way.extend(held, 60)}[verb]
    assert do(held) is False
    assert factories.rows() == before


def test_who_claims_after_the_leases_end_gets_the_message_charged_and_as_a_crash(way: Way) -> None:
    first = taken(way, lease=0)
    [second] = way.claim(1, 0)
    assert (second.id, second.read_count) == (first.id, 2)
    assert second.token != first.token
    row = state(first.id)
    assert row == TAKEN | {
        "available_at": "now", "read_count": 2, "lease_seconds": 0, "crashes": 1, "error": row["error"],
    }  # fmt: skip
    assert row["error"].startswith("LeaseOver: ")


def test_a_lease_that_ends_with_all_reads_spent_is_the_death_of_the_message(way: Way) -> None:
    held = taken(way, max_reads=1, lease=0)
    assert way.claim(1, LEASE) == []
    row = state(held.id)
    assert row == DEAD | {"max_reads": 1, "lease_seconds": 0, "crashes": 1, "error": row["error"]}
    assert row["error"].startswith("LeaseOver: ")


def test_a_claim_with_a_lease_of_nothing_gives_each_message_once(way: Way) -> None:
    ids = [way.put("hello", None, None) for _ in range(3)]
    assert [held.id for held in way.claim(10, 0)] == ids


def test_a_claim_that_comes_back_short_rescues_more_than_it_needs_bounds_for(way: Way) -> None:
    ids = [way.put("hello", 1, None) for _ in range(150)]
    last = way.put("last", 2, None)
    assert len(way.claim(151, 0)) == 151
    assert [held.id for held in way.claim(1, LEASE)] == [last]
    assert Message.objects.dead(QUEUE).count() == len(ids)


def test_a_row_whose_reads_were_spent_by_hand_goes_to_the_dead_undelivered(way: Way) -> None:
    spent, good = way.put("hello", 2, None), way.put("hello", None, None)
    Message.objects.filter(pk=spent).update(read_count=2)
    assert [held.id for held in way.claim(1, LEASE)] == [good]
    row = state(spent)
    assert row == DEAD | {"read_count": 2, "max_reads": 2, "error": row["error"]}
    assert row["error"].startswith("ReadsSpent: ")
