"""Totals never shrink, whatever becomes of the minutes that they are made of."""

from __future__ import annotations

from datetime import timedelta

import pytest

from django_dbqueue.insight.ended import Cell
from django_dbqueue.insight.totals import totals
from django_dbqueue.models import Message, QueueMinute, QueueTotal
from django_dbqueue.sessions.django_session import DjangoSession
from tests.factories import QUEUE, done
from tests.insight.passing import begin, count, let_pass

pytestmark = pytest.mark.django_db(transaction=True)
MINUTE = timedelta(minutes=1)


def now(queue: str = QUEUE) -> Cell | None:
    return totals(DjangoSession("default"), [queue, "other"]).get(queue)


def test_a_minute_is_in_one_of_the_two_tables() -> None:
    begin()
    for _ in range(3):
        done()
    let_pass(MINUTE)
    seen = []
    for _ in range(12):
        count()
        cell = now()
        assert cell is not None
        seen.append((cell.messages, cell.run.total(), QueueTotal.objects.filter(queue=QUEUE).exists()))
        let_pass(MINUTE)
    assert {messages for messages, _, _ in seen} == {runs for _, runs, _ in seen} == {3}
    assert [is_settled for _, _, is_settled in seen] == sorted(is_settled for _, _, is_settled in seen)
    assert seen[0][2] is False
    assert seen[-1][2] is True


def test_what_was_counted_stays_counted_when_its_rows_are_gone_before_the_final_count() -> None:
    begin()
    message = done()
    done()
    let_pass(MINUTE)
    count()
    Message.objects.filter(pk=message.pk).delete()
    let_pass(10 * MINUTE)
    count()
    cell = now()
    assert cell is not None
    assert (cell.messages, cell.run.total()) == (2, 2)
    assert QueueMinute.objects.get(queue=QUEUE).messages == 1, "as the charts show it"


def test_a_minute_of_which_nothing_is_left_is_added_all_the_same() -> None:
    begin()
    done()
    let_pass(MINUTE)
    count()
    Message.objects.all().delete()
    let_pass(10 * MINUTE)
    count()
    cell = now()
    assert cell is not None
    assert cell.messages == 1


def test_queues_are_kept_apart_and_all_of_them_together_are_no_queue() -> None:
    begin()
    done()
    done(queue="other")
    let_pass(MINUTE)
    count()
    let_pass(10 * MINUTE)
    count()
    assert set(QueueTotal.objects.values_list("queue", flat=True)) == {QUEUE, "other"}
    assert now("none") is None
