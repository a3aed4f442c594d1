"""A message is sent anew with another payload: the new one has all else, and the old one is dropped in one commit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import transaction
from django.test import override_settings

from django_dbqueue import DuplicateKey, InvalidFlow, InvalidMessage, flow
from django_dbqueue.exceptions import MessageChanged
from django_dbqueue.models import Message, MessageEvent
from tests.factories import QUEUE, claim_one, claimed, dead, done, held, row, rows, waiting
from tests.groups.rows import line, nothing_is_left, tickets

pytestmark = pytest.mark.django_db(transaction=True)
LINEAGE = "dbqueue.sent_again_from"


def seen(message: Message) -> Message:
    return Message.objects.get(pk=message.pk)


def edit(message: Message, payload: Any = "new") -> Message:
    return Message.objects.send_edited(seen(message), payload, by="ann")


def in_group(payload: Any) -> Message:
    return Message.objects.enqueue(payload, queue=QUEUE, group="a")


def test_the_new_one_has_all_but_the_payload_and_names_the_old_one() -> None:
    old = waiting(key="k", priority=7, max_reads=3, lease=45, headers={"h": 1})
    new = seen(edit(old, {"n": 2}))
    assert (new.payload, new.key, new.priority, new.max_reads, new.lease_seconds) == ({"n": 2}, "k", 7, 3, 45.0)
    assert new.headers == {"h": 1, LINEAGE: old.pk}
    assert Message.objects.get_by_key(QUEUE, "k") == new
    assert claim_one() == new
    assert claimed() == []


def test_the_old_one_is_dropped_and_its_life_shows_by_whom_and_what_came_of_it() -> None:
    old = waiting()
    new = edit(old)
    stored = row(old)
    assert stored["status"] == "y"
    assert "by ann with an edited payload" in stored["error"]
    events = MessageEvent.objects.filter(message_id=old.pk).order_by("pk").values_list("kind", "actor", "detail")
    assert list(events) == [("dropped", "ann", stored["error"]), ("resent", "ann", f"#{new.pk}")]


def test_a_delayed_one_is_due_when_it_was_to_be() -> None:
    old = waiting(delay=3600)
    assert row(edit(old))["due_at"] == row(old)["due_at"]


def test_a_dead_one_is_due_now_as_if_new() -> None:
    old = dead(key="k")
    new = edit(old)
    assert claim_one() == new
    assert (row(old)["status"], row(new)["read_count"]) == ("y", 1)


def test_a_done_one_stays_as_it_is() -> None:
    old = done(key="k")
    before = row(old)
    new = edit(old)
    assert row(old) == before
    assert claim_one() == new


def claimed_and_released(message: Message) -> None:
    claim_one().release()


def made_due(message: Message) -> None:
    Message.objects.update(due_at=row(message)["created_at"])
    Message.objects.all().move_to("there")


def rejected(message: Message) -> None:
    Message.objects.all().reject_waiting("no")


@pytest.mark.parametrize(
    ("make", "act", "error"),
    [
        (held, None, "release it first"),
        *((waiting, each, "in the meantime") for each in (claimed_and_released, made_due, rejected)),
    ],
)
def test_one_that_is_claimed_or_not_as_it_was_seen_is_refused(
    make: Callable[[], Message], act: Callable[[Message], None] | None, error: str
) -> None:
    message = seen(make())
    if act is not None:
        act(message)
    before = rows()
    with pytest.raises(MessageChanged, match=error):
        Message.objects.send_edited(message, "new")
    assert rows() == before


def test_a_payload_that_can_not_be_stored_changes_nothing() -> None:
    message = waiting(key="k")
    before = rows()
    for payload in (float("nan"), object(), "x" * 2_000_000):
        with pytest.raises(InvalidMessage):
            edit(message, payload)
    assert rows() == before
    assert not MessageEvent.objects.exists()


def test_a_dead_one_whose_key_a_live_one_has_is_refused() -> None:
    old = dead(key="k")
    waiting(key="k")
    before = rows()
    with pytest.raises(DuplicateKey):
        edit(old)
    assert rows() == before


def test_in_a_group_it_hands_its_turn_on_and_the_new_one_waits_behind_the_others() -> None:
    first, second, third = in_group(1), in_group(2), in_group(3)
    new = edit(first, "1 edited")
    assert seen(new).group == "a"
    order = []
    for _ in range(3):
        message = claim_one()
        assert claimed() == []
        order.append(message.pk)
        message.ack()
    assert order == [second.pk, third.pk, new.pk]
    assert nothing_is_left()


def test_a_rolled_back_edit_leaves_the_line_as_it_was() -> None:
    first = in_group(1)
    in_group(2)
    before = (rows(), line(), tickets())
    with transaction.atomic():
        edit(first)
        transaction.set_rollback(True)
    assert (rows(), line(), tickets()) == before


@override_settings(DBQUEUE={"QUEUES": {QUEUE: {"group": "*"}}})
def test_in_a_queue_that_is_one_group_the_new_one_is_of_it_too() -> None:
    old = waiting()
    assert seen(edit(old)).group == "*"


def test_what_is_sent_again_stays_in_its_group() -> None:
    message = in_group(1)
    claim_one().reject("bad")
    in_group(2)
    assert claim_one().payload == 2
    assert Message.objects.filter(pk=message.pk).send_again() == 1
    new = Message.objects.latest("pk")
    assert (new.group, new.payload) == ("a", 1)
    assert claimed() == [], "its group is at work"


def test_one_of_a_flow_that_is_not_done_is_refused_since_others_would_not_wait_for_the_new_one() -> None:
    with flow("two") as f:
        first = f.enqueue(1, queue=QUEUE)
        f.enqueue(2, queue=QUEUE, after=first)
    old = Message.objects.get(pk=first.first)
    with pytest.raises(InvalidFlow, match="would not wait for the new one"):
        edit(old)
    assert [each.payload for each in Message.objects.claim(9, queue=QUEUE)] == [1]
