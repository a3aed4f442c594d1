"""What a claim takes along with the first of a group, and what becomes of it (``group_batch``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.db import transaction

from django_dbqueue import Envelope
from django_dbqueue.lanes import lanes_sql
from django_dbqueue.lifecycle.claimer import Claimer
from django_dbqueue.models import Group, Line, Message
from django_dbqueue.sessions.django_session import session_of
from django_dbqueue.worker.keepers import Keepers
from tests.factories import QUEUE, claimed
from tests.groups.rows import followers, line, nothing_is_left, tickets

if TYPE_CHECKING:
    from pytest_django.fixtures import SettingsWrapper

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _in_a_row(settings: SettingsWrapper) -> None:
    settings.DBQUEUE = {"QUEUES": {QUEUE: {"group_batch": 10}}}


def send(*payloads: Any, group: str | None = "a", **options: Any) -> list[int]:
    Message.objects.enqueue_many([Envelope(payload, group=group, **options) for payload in payloads], queue=QUEUE)
    return list(Message.objects.order_by("pk").values_list("pk", flat=True))[-len(payloads) :]


def take(*, in_a_row: int = 5, room: int = 100, limit: int = 10) -> list[list[Message]]:
    """Claim as a worker does; each head with what was taken along."""
    claimer = Claimer(Message, session_of("default"), QUEUE, in_a_row=in_a_row, room=room)
    heads = claimer.take(limit, lease=60, max_reads=5)
    return [[one.message for one in (head, *claimer.followers.get(head.claim.id, ()))] for head in heads]


def ids(messages: list[Message]) -> list[int]:
    return [message.pk for message in messages]


def test_a_head_takes_the_next_of_its_line_along_in_order_and_under_its_own_token() -> None:
    one = send(*range(7))
    other = send("x", "y", group="b")
    alone = send("alone", group=None)
    rows = sorted(take(), key=lambda row: row[0].pk)
    assert [ids(row) for row in rows] == [one[:5], other, alone]
    assert len({message.claim.token for row in rows for message in row}) == 1
    assert [message.payload for message in rows[0]] == [0, 1, 2, 3, 4]
    assert {(m.status, m.read_count, m.queue, m.group) for m in rows[0]} == {("run", 1, QUEUE, "a")}
    assert line() == one[5:]
    assert followers() == [*one[1:5], other[1]]
    for message in rows[0]:
        stored = Message.objects.get(pk=message.pk)
        assert (stored.claim, stored.lease_seconds, stored.max_reads) == (message.claim, 60, 5)
        assert stored.claimed_at == message.claimed_at
        assert stored.lease_until == message.lease_until


def test_a_head_without_a_read_left_takes_none_along() -> None:
    spent, *others = send(*range(3))
    Message.objects.filter(pk=spent).update(read_count=5, max_reads=5)
    [row] = take()
    assert ids(row) == others
    assert Message.objects.get(pk=spent).is_dead


def test_priorities_of_followers_are_their_own() -> None:
    send("first")
    send("second", priority=7)
    [[_, second]] = take()
    assert (second.payload, second.priority) == ("second", 7)


def test_acks_of_a_whole_row_let_the_next_one_run() -> None:
    sent = send(*range(7))
    [row] = take()
    assert claimed() == []
    assert Message.objects.ack(row) == []
    assert (tickets(), line(), followers()) == ([sent[5]], [sent[6]], [])
    [row] = take()
    assert ids(row) == sent[5:]
    assert Message.objects.ack(row) == []
    assert nothing_is_left()


def test_a_ticket_walks_along_the_row_whatever_waits_before_it() -> None:
    """What was committed late has a lower id than what a worker holds, and must not begin beside it."""
    sent = send(*range(5))
    Line.objects.filter(message_id=sent[1]).delete()  # as if its sender had not committed yet
    [row] = take(in_a_row=3)
    assert ids(row) == [sent[0], sent[2], sent[3]]
    Line.objects.create(lane=row[0].lane, message_id=sent[1])
    for message, holder in zip(row, [sent[2], sent[3], sent[1]], strict=True):
        assert claimed() == []
        message.ack()
        assert tickets() == [holder]
    assert claimed() == [1]


@pytest.mark.parametrize("way", ["nack", "release", "rescue"])
def test_a_row_that_comes_back_waits_in_its_order_whichever_comes_back_first(way: str) -> None:
    sent = send(*range(6))
    [row] = take(in_a_row=4)
    row[0].ack()
    for message in row[:0:-1]:
        if way == "nack":
            message.nack(error="no")
        elif way == "release":
            message.release()
        else:
            Message.objects.extend([message], 0)
            assert Message.objects.rescue(QUEUE) == 1
    assert followers() == []
    assert sorted([*tickets(), *line()]) == sent[1:]
    run = []
    while messages := Message.objects.claim(10, queue=QUEUE):
        run += [message.payload for message in messages]
        Message.objects.ack(messages)
    assert run == [1, 2, 3, 4, 5]
    assert nothing_is_left()


def test_a_row_that_comes_back_at_once_keeps_its_order() -> None:
    sent = send(*range(6))
    [row] = take(in_a_row=4)
    assert Message.objects.release(row) == []
    assert (tickets(), line()) == (sent[:1], sent[1:])


def test_one_that_fails_keeps_its_place_before_those_behind_it() -> None:
    sent = send(*range(4))
    [row] = take(in_a_row=4)
    Message.objects.ack(row[:2])
    row[2].nack(delay=3_600)
    row[3].release()
    assert (tickets(), line()) == ([sent[2]], [sent[3]])
    assert claimed() == []


def test_one_that_comes_back_gives_its_ticket_to_one_before_it() -> None:
    sent = send(*range(4))
    [row] = take(in_a_row=4)
    row[1].release()
    row[0].ack()
    assert tickets() == [sent[2]]
    row[2].release()
    row[3].release()
    assert (tickets(), line()) == ([sent[1]], sent[2:])
    assert claimed() == [1]


def test_what_is_dropped_or_rejected_under_its_worker_leaves_no_trace(settings: SettingsWrapper) -> None:
    settings.DBQUEUE = {"QUEUES": {QUEUE: {"group_batch": 10, "on_ack": "delete"}}}
    send(*range(4), key=None)
    [row] = take(in_a_row=4)
    assert Message.objects.filter(pk=row[1].pk).drop_all("unwanted") == 1
    row[2].reject("unwanted")
    with transaction.atomic():
        row[0].ack()
    row[3].ack()
    assert nothing_is_left()


def test_a_dead_follower_that_holds_its_group_has_the_ticket_in_its_turn(settings: SettingsWrapper) -> None:
    settings.DBQUEUE = {"QUEUES": {QUEUE: {"group_batch": 10, "on_dead": "hold"}}}
    sent = send(*range(4))
    [row] = take(in_a_row=3)
    row[1].reject("unwanted")
    row[2].release()
    row[0].ack()
    assert (tickets(), line(), claimed()) == ([sent[1]], sent[2:], [])
    assert Message.objects.dead(QUEUE).requeue() == 1
    assert claimed() == [1]


@pytest.mark.parametrize("why", ["not due", "suspect", "no reads left", "none by the settings", "paused"])
def test_a_row_ends_before_one_that_no_claim_would_give_out_now(why: str) -> None:
    sent = send(*range(4))
    if why == "not due":
        Message.objects.filter(pk=sent[2]).update(due_at="2999-01-01T00:00:00+00:00")
    elif why == "suspect":
        Message.objects.filter(pk=sent[2]).update(crashes=1)
    elif why == "no reads left":
        Message.objects.filter(pk=sent[2]).update(read_count=3, max_reads=3)
    elif why == "none by the settings":
        Message.objects.filter(pk=sent[2]).update(read_count=5, max_reads=None)
    else:
        Group.objects.create(lane=Message.objects.get(pk=sent[0]).lane, queue=QUEUE, name="a", is_paused=True)
    [row] = take()
    assert ids(row) == sent[: 1 if why == "paused" else 2]


def test_a_suspect_takes_none_along() -> None:
    sent = send(*range(3))
    Message.objects.filter(pk=sent[0]).update(crashes=1)
    assert [ids(row) for row in take()] == [sent[:1]]


def test_where_there_is_little_room_each_group_has_its_share() -> None:
    for group in "ab":
        send(*range(5), group=group)
    assert sorted(len(row) for row in take(in_a_row=5, room=10)) == [3, 3]
    assert followers() == sorted(followers())
    assert len(followers()) == 4


@pytest.mark.parametrize("way", ["released", "rescued", "requeued"])
def test_a_head_that_comes_back_alone_takes_none_along_while_another_has_followers(way: str) -> None:
    """They were sent before what waits, and so run before it."""
    sent = send(*range(6))
    [row] = take(in_a_row=3)
    if way == "released":
        row[0].release()
    elif way == "rescued":
        Message.objects.extend(row[:1], 0)
        assert Message.objects.rescue(QUEUE) == 1
    else:
        assert Message.objects.filter(pk=sent[0]).requeue() == 1
    [again] = take(in_a_row=3)
    assert ids(again) == sent[:1]
    again[0].ack()
    assert Message.objects.release(row[1:]) == []
    began = []
    while messages := take(in_a_row=2):
        began += ids(messages[0])
        Message.objects.ack(messages[0])
    assert began == sent[1:]
    assert nothing_is_left()


def test_two_rows_of_a_group_never_let_a_third_begin(settings: SettingsWrapper) -> None:
    settings.DBQUEUE = {"QUEUES": {QUEUE: {"group_batch": 10, "group_limit": 2}}}
    send(*range(10))
    one = take(in_a_row=3)[0]
    other = take(in_a_row=3)
    rows = [one, *other] if other else [one]
    for message in one:
        message.ack()
        rows += take(in_a_row=3)
        assert len([row for row in rows if any(not m.settled for m in row)]) <= 2


def test_the_keeper_lets_those_wait_again_that_somebody_made_new_by_hand() -> None:
    sent = send(*range(4))
    [row] = take(in_a_row=4)
    Message.objects.filter(pk=sent[2]).update(status="n", available_at="2000-01-01T00:00:00+00:00")
    Message.objects.filter(pk=sent[3]).delete()
    Keepers(session_of("default")).turn()
    assert (followers(), line()) == ([sent[1]], [sent[2]])
    Message.objects.ack(row[:2])
    assert claimed() == [2]


def test_a_hand_over_passes_by_those_that_somebody_moved_by_hand() -> None:
    sent = send(*range(4))
    [row] = take(in_a_row=4)
    Message.objects.filter(pk=sent[1]).update(status="n", available_at="2000-01-01T00:00:00+00:00")
    Message.objects.filter(pk=sent[2]).delete()
    row[0].ack()
    assert (tickets(), followers(), line()) == ([sent[3]], [], [sent[1]])


def test_a_claim_that_is_undone_leaves_all_in_their_line(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = send(*range(3))
    follow = lanes_sql.follow

    def fail(*_: object) -> Any:
        raise AssertionError("as told")

    monkeypatch.setattr(lanes_sql, "follow", fail)
    with pytest.raises(AssertionError, match="as told"):
        take()
    monkeypatch.setattr(lanes_sql, "follow", follow)
    assert (tickets(), line(), followers()) == (sent[:1], sent[1:], [])
    assert ids(take()[0]) == sent
