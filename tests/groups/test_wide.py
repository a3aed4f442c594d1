"""Lanes with many tickets: what ends together makes way together, at the price of one (P19)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from django.db import OperationalError, connection, transaction
from django.test.utils import CaptureQueriesContext

from django_dbqueue import Envelope
from django_dbqueue.databases import Server, Statement
from django_dbqueue.databases.own_tables import Tables
from django_dbqueue.lanes import lanes_sql
from django_dbqueue.lifecycle.claimer import Claimer
from django_dbqueue.models import Group, Line, Message, Ticket
from django_dbqueue.sessions.django_session import session_of
from tests.factories import QUEUE
from tests.groups.rows import followers, line, nothing_is_left, tickets
from tests.groups.test_rates import due, gaps

if TYPE_CHECKING:
    from pytest_django.fixtures import SettingsWrapper

pytestmark = pytest.mark.django_db(transaction=True)
WIDE = 60


def configure(settings: SettingsWrapper, **options: Any) -> None:
    settings.DBQUEUE = {"QUEUES": {QUEUE: options}}


def send_many(number: int, group: str = "a") -> None:
    Message.objects.enqueue_many([Envelope(n, group=group) for n in range(number)], queue=QUEUE)


def statements() -> AbstractContextManager[Any]:
    return CaptureQueriesContext(connection)


def tickets_written(captured: Any) -> int:
    return sum(Tables.ticket in query["sql"] and not query["sql"].startswith("SELECT") for query in captured)


def claim(limit: int = 200) -> list[Message]:
    return list(Message.objects.claim(limit, queue=QUEUE))


def of_no_row(build: Callable[..., Statement], server: Server, rows: Sequence[int], **how: Any) -> Statement:
    return build(server, [-row for row in rows], **how)


def ids(messages: list[Message]) -> list[int]:
    return sorted(message.pk for message in messages)


@pytest.mark.parametrize("in_a_transaction", [False, True])
def test_acks_of_many_of_a_group_cost_as_many_statements_as_those_of_two(
    settings: SettingsWrapper, *, in_a_transaction: bool
) -> None:
    configure(settings, group_limit=WIDE)
    costs = {}
    for number in (3, WIDE):
        send_many(3 * WIDE, str(number))
        running = claim(WIDE)
        waiting = line()
        with statements() as captured:
            if in_a_transaction:
                with transaction.atomic():
                    Message.objects.ack(running[:number])
            else:
                Message.objects.ack(running[:number])
        costs[number] = len(captured)
        assert ids(claim()) == waiting[:number]
        for model in (Message, Line, Ticket):
            model.objects.all().delete()
    assert costs[WIDE] <= costs[3]


def test_sends_of_many_to_a_group_are_let_in_together(settings: SettingsWrapper) -> None:
    configure(settings, group_limit=WIDE)
    with statements() as few:
        send_many(3)
    with statements() as many:
        send_many(3 * WIDE, "b")
    assert tickets_written(many) == tickets_written(few)
    assert len(claim()) == 3 + WIDE


def test_a_raised_limit_lets_many_in_together(settings: SettingsWrapper) -> None:
    configure(settings, group_limit=1)
    send_many(250)
    with statements() as captured:
        Group.objects.limit(QUEUE, "a", 190)
    assert len(captured) < 40
    assert tickets() == [message.pk for message in Message.objects.order_by("pk")[:190]]
    assert len(line()) == 60


def test_a_lowered_limit_is_kept_when_many_end_together(settings: SettingsWrapper) -> None:
    configure(settings, group_limit=WIDE)
    send_many(2 * WIDE)
    running, waiting = claim(), line()
    Group.objects.limit(QUEUE, "a", 10)
    Message.objects.ack(running[5:40])
    assert list(Ticket.objects.filter(ticket__lt=10).order_by("message_id").values_list("message_id", flat=True)) == [
        *ids(running)[:5],
        *waiting[:5],
    ]
    assert len(claim()) == 5


def test_a_message_to_which_somebody_has_given_a_second_ticket_hands_both_on(settings: SettingsWrapper) -> None:
    configure(settings, group_limit=2)
    send_many(4)
    first, second = claim()
    Message.objects.ack([second])
    waiting = line()
    Ticket.objects.filter(message_id=second.pk + 1).update(message_id=first.pk)
    Message.objects.filter(pk=second.pk + 1).drop_all("unwanted")
    first.ack()
    assert tickets() == waiting
    assert ids(claim()) == waiting


def test_who_never_comes_first_in_a_busy_group_meets_an_error_of_djangos(
    settings: SettingsWrapper, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(settings, group_limit=2)
    send_many(4)
    first, _ = claim()
    with monkeypatch.context() as others:
        others.setattr(lanes_sql, "let_run", partial(of_no_row, lanes_sql.let_run))
        with pytest.raises(OperationalError, match="repeat the transaction"):
            first.ack()
    first.ack()
    assert len(claim()) == 1


def test_no_more_tickets_stay_out_than_there_are_messages(settings: SettingsWrapper) -> None:
    configure(settings, group_limit=WIDE)
    send_many(WIDE + 7)
    running, waiting = claim(), line()
    Message.objects.ack(running)
    assert tickets() == waiting
    Message.objects.ack(claim())
    assert nothing_is_left()


def test_those_of_a_wide_group_that_come_back_keep_their_tickets_or_their_order(settings: SettingsWrapper) -> None:
    configure(settings, group_limit=4)
    send_many(8)
    first = claim()
    Group.objects.pause(QUEUE, "a")
    for message in first:
        message.release()
    assert (tickets(), len(line())) == ([], 8)
    Group.objects.resume(QUEUE, "a")
    assert tickets() == ids(first)


def test_tickets_of_a_wide_group_go_to_followers_before_they_go_to_the_line(settings: SettingsWrapper) -> None:
    configure(settings, group_limit=3, group_batch=10)
    send_many(5)
    claimer = Claimer(Message, session_of("default"), QUEUE, in_a_row=10, room=100)
    heads = [head.message for head in claimer.take(3, lease=60, max_reads=5)]
    along = followers()
    assert (len(heads), len(along), line()) == (3, 2, [])
    send_many(3)
    waiting = line()
    Message.objects.ack(heads)
    assert (tickets(), line()) == ([*along, waiting[0]], waiting[1:])
    assert followers() == []


def test_a_place_that_somebody_deleted_by_hand_is_passed_over_when_many_end(settings: SettingsWrapper) -> None:
    configure(settings, group_limit=5)
    send_many(12)
    running, waiting = claim(), line()
    Message.objects.filter(pk__in=[waiting[0], waiting[3]]).delete()
    Message.objects.ack(running)
    assert tickets() == [waiting[1], waiting[2], *waiting[4:7]]


def test_starts_of_a_wide_group_with_a_rate_stay_an_interval_apart_when_many_end(settings: SettingsWrapper) -> None:
    configure(settings, group_limit=3, group_rate="1/m")
    send_many(6)
    Message.objects.filter(pk__in=tickets()).update(available_at="2000-01-01T00:00:00+00:00")
    Group.objects.update(scheduled=None)  # the last of them has begun a while ago
    Message.objects.ack(claim())
    Message.objects.done(QUEUE).delete()
    assert gaps(due()) == [60.0, 60.0]
