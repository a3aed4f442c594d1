"""One suite for both ways in: what a put and a claim leave in the row is the same through Python and the routines."""

from __future__ import annotations

import pytest
from django.db import connection

from django_dbqueue.envelope import LEAST_LEASE
from django_dbqueue.models import Message, Queue
from django_dbqueue.statuses import RUNNING
from tests.factories import QUEUE, let_pause_end
from tests.refusing import refusing
from tests.routines.ways import DEAD, HELD, LEASE, MAX_READS, NEW, ThroughRoutines, Way, claimed, overdue, state


def test_put_leaves_a_row_that_is_due_now(way: Way) -> None:
    assert state(way.put("hello", None, None)) == NEW


def test_put_keeps_the_limit_and_the_lease_that_it_was_given(way: Way) -> None:
    assert state(way.put("hello", 0, 30)) == NEW | {"max_reads": 0, "lease_seconds": 30}


def test_put_of_a_json_object_or_array_is_json(way: Way) -> None:
    assert state(way.put('{"a":[1,null]}', None, None)) == NEW | {"body": '{"a":[1,null]}', "content_type": "json"}


def test_a_claim_takes_the_row_under_a_token_and_writes_what_holds_for_it(way: Way) -> None:
    held = claimed(way)
    assert state(held.id) == HELD
    assert (held.body, held.content_type, held.read_count, held.max_reads) == ("hello", "text", 1, MAX_READS)
    assert 0 < held.token < 2**63
    assert held.token == Message.objects.get(pk=held.id).claim_token


def test_a_claim_names_the_session_that_holds_it(way: Way) -> None:
    held = claimed(way)
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
    assert state(message_id) == HELD | {"available_at": "+2 h", "lease_seconds": 2 * LEASE}


def test_without_any_lease_the_setting_holds(way: Way) -> None:
    message_id = way.put("hello", None, None)
    way.claim(1, None)
    assert state(message_id) == HELD | {"available_at": "now", "lease_seconds": 60}


def test_get_takes_one_message_for_its_own_lease(way: Way) -> None:
    first, second = way.put("hello", None, LEASE), way.put("hello", None, None)
    assert way.get() == (first, "hello", 1)
    assert (state(first), state(second)) == (HELD, NEW)
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


def test_a_claim_takes_no_more_than_was_requested(way: Way) -> None:
    ids = [way.put("hello", None, None) for _ in range(5)]
    assert [held.id for held in way.claim(3, LEASE)] == ids[:3]
    assert [held.id for held in way.claim(3, LEASE)] == ids[3:]
    assert way.claim(3, LEASE) == []


def test_a_claim_takes_nothing_of_other_queues(way: Way) -> None:
    for other in ("aaa", "tests.", "zzz"):
        Message.objects.enqueue("x", queue=other)
    assert way.claim(10, LEASE) == []


@pytest.mark.parametrize("has_end", [False, True], ids=["until it is resumed", "with an end"])
def test_a_paused_queue_gives_nothing(way: Way, has_end: bool) -> None:
    message_id = way.put("hello", None, None)
    Queue.objects.pause(QUEUE, by="ann", reason="tea", for_=3_600 if has_end else None)
    assert way.claim(1, LEASE) == []
    assert state(message_id) == NEW
    let_pause_end() if has_end else Queue.objects.resume(QUEUE)
    assert [held.id for held in way.claim(1, LEASE)] == [message_id]


def test_who_claims_after_the_leases_end_gets_the_message_charged_and_as_a_crash(way: Way) -> None:
    first = overdue(way)
    [second] = way.claim(1, LEASE)
    assert (second.id, second.read_count) == (first.id, 2)
    assert second.token != first.token
    row = state(first.id)
    assert row == HELD | {"read_count": 2, "crashes": 1, "error": row["error"]}
    assert row["error"].startswith("LeaseOver: ")


def test_a_lease_that_ends_with_all_reads_spent_is_the_death_of_the_message(way: Way) -> None:
    held = overdue(way, max_reads=1)
    assert way.claim(1, LEASE) == []
    row = state(held.id)
    assert row == DEAD | {"max_reads": 1, "crashes": 1, "error": row["error"]}
    assert row["error"].startswith("LeaseOver: ")


def test_a_claim_with_the_shortest_lease_gives_each_message_once(way: Way) -> None:
    ids = [way.put("hello", None, None) for _ in range(3)]
    assert [held.id for held in way.claim(10, LEAST_LEASE)] == ids


def test_a_claim_that_comes_back_short_rescues_more_than_it_needs_bounds_for(way: Way) -> None:
    ids = [way.put("hello", 1, None) for _ in range(150)]
    last = way.put("last", 2, None)
    assert all(way.extend(held, 0) for held in way.claim(151, LEASE))
    assert [held.id for held in way.claim(1, LEASE)] == [last]
    assert Message.objects.dead(QUEUE).count() == len(ids)


def test_a_claim_that_an_error_ends_holds_nothing_that_it_does_not_give(way: Way) -> None:
    way.put("late", None, LEASE)
    [late] = way.claim(1, LEASE)
    assert way.extend(late, 0)
    waiting = way.put("next", None, LEASE)
    with refusing("UPDATE", f"OLD.id = {late.id}"):
        try:
            given = [held.id for held in way.claim(2, LEASE)]
        except Exception as error:
            assert "as told" in str(error)  # noqa: PT017 - an error is one of two ends
            given = []
    assert given == list(Message.objects.filter(pk=waiting, status=RUNNING).values_list("pk", flat=True))


def test_a_row_whose_reads_were_spent_by_hand_goes_to_the_dead_undelivered(way: Way) -> None:
    spent, good = way.put("hello", 2, None), way.put("hello", None, None)
    Message.objects.filter(pk=spent).update(read_count=2)
    assert [held.id for held in way.claim(1, LEASE)] == [good]
    row = state(spent)
    assert row == DEAD | {"read_count": 2, "max_reads": 2, "error": row["error"]}
    assert row["error"].startswith("ReadsSpent: ")
