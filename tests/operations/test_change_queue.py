"""Moving to another queue: the row stays, and its key, its group and its due time come along."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.db import transaction

from django_dbqueue import DuplicateKey, Envelope, InvalidMessage, Suspended, flow
from django_dbqueue.models import Group, Message, MessageEvent
from django_dbqueue.operations.mover import move
from django_dbqueue.operations.outcome import CHANGED
from django_dbqueue.operations.seen import Seen
from django_dbqueue.operations.verbs import VERBS, Order
from django_dbqueue.sessions.django_session import session_of
from tests.factories import QUEUE, claim_one, claimed, dead, done, held, row, rows, waiting
from tests.groups.rows import line, nothing_is_left, tickets

if TYPE_CHECKING:
    from pytest_django.fixtures import SettingsWrapper

pytestmark = pytest.mark.django_db(transaction=True)
THERE = "there"


def in_group(payload: Any, queue: str = QUEUE, **options: Any) -> Message:
    return Message.objects.enqueue(payload, queue=queue, group="a", **options)


def take_there() -> Message:
    [message] = Message.objects.claim(1, queue=THERE)
    return message


def test_a_message_goes_there_with_its_key_and_is_as_it_was() -> None:
    message = waiting(key="k", priority=3, max_reads=4, headers={"h": 1})
    before = row(message)
    assert Message.objects.filter(pk=message.pk).move_to(THERE, by="ann") == 1
    after = row(message)
    assert {name for name, value in before.items() if after[name] != value} <= {"queue", "key_hash", "available_at"}
    assert Message.objects.get_by_key(THERE, "k") == message
    assert Message.objects.get_by_key(QUEUE, "k") is None
    [event] = MessageEvent.objects.filter(message_id=message.pk)
    assert (event.kind, event.actor, event.queue, event.detail) == ("moved", "ann", QUEUE, "→ there")
    assert claimed() == []
    assert take_there() == message


def test_a_delayed_one_is_due_when_it_was_to_be() -> None:
    message = waiting(delay=3600)
    before = row(message)
    Message.objects.all().move_to(THERE)
    after = row(message)
    assert (after["due_at"], after["available_at"]) == (before["due_at"], before["available_at"])


def test_it_is_due_no_earlier_than_now_there_so_that_no_claimer_overlooks_it() -> None:
    message, later = waiting(), waiting(queue=THERE)
    Message.objects.filter(pk=message.pk).move_to(THERE)
    assert row(message)["available_at"] >= row(later)["available_at"]


def test_a_dead_one_is_as_if_new_there() -> None:
    message = dead(key="k", max_reads=3)
    assert Message.objects.dead().move_to(THERE) == 1
    stored = row(message)
    assert (stored["status"], stored["read_count"], stored["crashes"], stored["live"]) == ("n", 0, 0, 1)
    assert (stored["finished_at"], stored["max_reads"]) == (None, 3)
    assert take_there() == message


def test_what_somebody_has_claimed_or_has_done_stays() -> None:
    held()
    before = rows()
    assert Message.objects.all().move_to(THERE) == 0
    assert rows() == before
    done()
    assert Message.objects.done().move_to(THERE) == 0


def test_what_is_there_already_is_left_alone() -> None:
    waiting(queue=THERE)
    before = rows()
    assert Message.objects.all().move_to(THERE) == 0
    assert rows() == before
    assert not MessageEvent.objects.exists()


def test_a_key_that_is_in_use_there_is_reported_and_the_others_go_on() -> None:
    first, second = waiting(key="k"), waiting(key="other")
    waiting(queue=THERE, key="k")
    changed = Message.objects.in_queue(QUEUE).move_to(THERE)
    [conflict] = changed.conflicts
    assert isinstance(conflict, DuplicateKey)
    assert (changed, conflict.message_id) == (1, first.pk)
    assert [row(message)["queue"] for message in (first, second)] == [QUEUE, THERE]
    assert MessageEvent.objects.get().message_id == second.pk


def test_a_page_that_was_read_before_another_move_changes_nothing() -> None:
    message = waiting()
    seen = Seen(message.pk, message.claim_token, message.queue)
    Message.objects.all().move_to("elsewhere")
    outcome = move(Message, session_of("default"), Order(VERBS["move"], None, queue=THERE), [seen])
    assert (outcome.moved, outcome.left) == ({}, {message.pk: CHANGED})
    assert row(message)["queue"] == "elsewhere"


def test_a_name_that_no_queue_can_have_moves_nothing() -> None:
    waiting()
    before = rows()
    for name in ("no good", "", "dbqueue.operations"):
        with pytest.raises(InvalidMessage):
            Message.objects.all().move_to(name)
    assert rows() == before


def test_a_step_of_a_bulk_operation_stays() -> None:
    step = waiting(queue="dbqueue.operations")
    changed = Message.objects.filter(pk=step.pk).move_to(THERE)
    assert (changed, type(changed.conflicts[0])) == (0, InvalidMessage)


def test_a_rolled_back_move_leaves_all_as_it_was() -> None:
    in_group(1)
    in_group(2)
    before, places = rows(), (line(), tickets())
    with transaction.atomic():
        assert Message.objects.all().move_to(THERE) == 2
        transaction.set_rollback(True)
    assert (rows(), (line(), tickets())) == (before, places)


# -- groups -----------------------------------------------------------------------------------------------


def test_who_had_the_turn_hands_it_on_and_stands_in_the_line_of_the_group_there() -> None:
    first, second = in_group(1), in_group(2)
    there = in_group(3, THERE)
    assert Message.objects.filter(pk=first.pk).move_to(THERE) == 1
    assert claim_one() == second
    assert claimed() == []
    running = take_there()
    assert running == there
    assert Message.objects.claim(1, queue=THERE) == [], "its group is at work there"
    running.ack()
    assert take_there() == first


def test_who_waits_in_a_line_leaves_it_and_comes_there_by_its_age() -> None:
    first, second = in_group(1), in_group(2)
    third, fourth = in_group(3, THERE), in_group(4, THERE)
    assert Message.objects.filter(pk=second.pk).move_to(THERE) == 1
    assert claim_one() == first
    order = []
    for _ in range(3):
        message = take_there()
        order.append(message)
        message.ack()
    assert order == [third, second, fourth]
    Message.objects.get(pk=first.pk, status="run")
    Message.objects.filter(pk=first.pk).drop_all("enough")
    assert nothing_is_left()


def test_all_of_a_group_go_in_their_order() -> None:
    Message.objects.enqueue_many([Envelope(number, group="a") for number in range(5)], queue=QUEUE)
    assert Message.objects.in_queue(QUEUE).move_to(THERE) == 5
    order = []
    for _ in range(5):
        message = take_there()
        order.append(message.payload)
        assert Message.objects.claim(5, queue=THERE) == []
        message.ack()
    assert order == [0, 1, 2, 3, 4]
    assert nothing_is_left()


def test_a_dead_one_that_held_its_group_lets_it_go_on(settings: SettingsWrapper) -> None:
    settings.DBQUEUE = {"QUEUES": {QUEUE: {"on_dead": "hold"}}}
    first, second = in_group(1), in_group(2)
    claim_one().reject("bad")
    assert claimed() == []
    assert Message.objects.filter(pk=first.pk).move_to(THERE) == 1
    assert claim_one() == second
    assert take_there() == first


def test_a_paused_group_there_takes_it_in_and_begins_nothing() -> None:
    message = in_group(1)
    Group.objects.pause(THERE, "a")
    assert Message.objects.all().move_to(THERE) == 1
    assert Message.objects.claim(1, queue=THERE) == []
    Group.objects.resume(THERE, "a")
    assert take_there() == message


def test_a_queue_that_is_one_group_takes_in_what_has_none_and_no_other(settings: SettingsWrapper) -> None:
    settings.DBQUEUE = {"QUEUES": {THERE: {"group": "*"}}}
    alone, grouped = waiting(), in_group(1)
    changed = Message.objects.in_queue(QUEUE).move_to(THERE)
    assert (changed, type(changed.conflicts[0])) == (1, InvalidMessage)
    assert (row(alone)["queue"], row(alone)["group_name"], row(grouped)["queue"]) == (THERE, "*", QUEUE)
    message = take_there()
    assert Message.objects.filter(pk=message.pk).move_to(QUEUE) == 0
    message.release()
    assert Message.objects.filter(pk=alone.pk).move_to(QUEUE) == 1
    assert (row(alone)["group_name"], row(alone)["lane"]) == (None, None)
    Message.objects.filter(pk=grouped.pk).drop_all("enough")
    assert nothing_is_left()


def test_what_waits_for_others_of_its_flow_or_for_an_event_stays() -> None:
    with flow("two") as f:
        first = f.enqueue(1, queue=QUEUE)
        f.enqueue(Envelope(2, group="a"), queue=QUEUE, after=first)
    with pytest.raises(Suspended):
        claim_one().wait_for("paid")
    before = rows()
    changed = Message.objects.order_by("pk").move_to(THERE)
    assert (changed, len(changed.conflicts)) == (0, 2)
    assert "for others of its flow" in str(changed.conflicts[0])
    assert rows() == before
