"""A pause with an end: claims continue by the database's clock, and nobody writes anything for it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.db import connection
from django.test.utils import CaptureQueriesContext

from django_dbqueue import InvalidMessage
from django_dbqueue.insight.why import Why, why
from django_dbqueue.models import Message, Queue
from django_dbqueue.models.fields import clock
from tests.factories import QUEUE, claimed, let_pause_end, waiting
from tests.lifecycle.test_clock import client_clock

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)


def now() -> datetime:
    return clock("default")


@pytest.mark.parametrize("end", [lambda: {"for_": HOUR}, lambda: {"for_": 3600}, lambda: {"until": now() + HOUR}])
def test_it_holds_until_its_end_and_claims_then_continue(end: Callable[[], dict[str, Any]]) -> None:
    waiting(payload="a")
    began = now()
    Queue.objects.pause(QUEUE, by="ann", reason="the bank is down", **end())
    row = Queue.objects.get()
    assert began + HOUR <= row.paused_until <= now() + HOUR
    assert row.is_paused
    assert Queue.objects.paused_names() == {QUEUE}
    assert claimed() == []
    let_pause_end()
    before = Queue.objects.values().get()
    assert Queue.objects.paused_names() == set()
    assert claimed() == ["a"]
    assert Queue.objects.values().get() == before, "nobody had to write"


def test_when_it_has_ended_the_row_keeps_who_paused_it_and_why() -> None:
    Queue.objects.pause(QUEUE, for_=60, by="ann", reason="the bank is down")
    row = Queue.objects.get()
    let_pause_end()
    row.refresh_from_db()
    assert (row.is_paused, row.paused_by, row.pause_reason) == (False, "ann", "the bank is down")
    assert row.paused_at <= row.paused_until <= now()
    again = Queue.objects.get()
    assert not again.is_paused
    assert not Queue.objects.filter(is_paused=True).exists()


def test_a_resume_ends_it_at_once() -> None:
    waiting(payload="a")
    Queue.objects.pause(QUEUE, for_=HOUR)
    Queue.objects.resume(QUEUE)
    assert claimed() == ["a"]
    assert Queue.objects.get().paused_until is None


def test_a_later_pause_replaces_its_end() -> None:
    waiting(payload="a")
    Queue.objects.pause(QUEUE, for_=HOUR)
    Queue.objects.pause(QUEUE, for_=2 * HOUR)
    assert Queue.objects.get().paused_until > now() + HOUR
    Queue.objects.pause(QUEUE)
    assert Queue.objects.get().paused_until is None
    assert claimed() == []
    Queue.objects.pause(QUEUE, for_=HOUR)
    let_pause_end()
    assert claimed() == ["a"]
    Queue.objects.pause(QUEUE)
    waiting()
    assert claimed() == [], "what ended before says nothing of this one"


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"until": datetime(2020, 1, 1, tzinfo=UTC)}, "until is 2020-01-01 00:00:00 UTC, which has passed: it is 20"),
        ({"until": datetime(2120, 1, 1)}, "until must be an aware datetime"),  # noqa: DTZ001
        ({"until": "2120-01-01"}, "until must be an aware datetime"),
        ({"until": datetime(9500, 1, 1, tzinfo=UTC)}, "until must be before the year 9000"),
        ({"for_": 0}, "for_ must be more than 0 seconds"),
        ({"for_": timedelta(0)}, "for_ must be more than 0 seconds"),
        ({"for_": -1}, "for_ must be from 0 to"),
        ({"for_": "2h"}, "for_ must be a number of seconds or a timedelta, not '2h'"),
        ({"for_": float("inf")}, "for_ must be a number of seconds"),
        ({"for_": 5, "until": datetime(2120, 1, 1, tzinfo=UTC)}, "Give until or for_, not both"),
    ],
)
def test_an_end_that_can_not_be_is_refused_and_the_pause_before_stays(wrong: dict[str, Any], error: str) -> None:
    Queue.objects.pause(QUEUE, reason="first")
    before = Queue.objects.values().get()
    with pytest.raises(InvalidMessage) as refused:
        Queue.objects.pause(QUEUE, reason="second", **wrong)
    assert error in str(refused.value)
    assert Queue.objects.values().get() == before


@pytest.mark.parametrize("wrong_by", [timedelta(hours=-5), timedelta(hours=5)])
def test_only_the_clock_of_the_database_counts(monkeypatch: pytest.MonkeyPatch, wrong_by: timedelta) -> None:
    waiting(payload="a")
    with client_clock(monkeypatch, wrong_by):
        Queue.objects.pause(QUEUE, for_=HOUR)
        assert Queue.objects.get().paused_until <= now() + HOUR
        assert claimed() == []
        assert Queue.objects.paused_names() == {QUEUE}
        Queue.objects.pause(QUEUE, until=now() + HOUR)
        let_pause_end()
        assert Queue.objects.paused_names() == set()
        assert claimed() == ["a"]


@pytest.mark.django_db(transaction=True)
def test_async_code_has_the_same() -> None:
    async def pause_and_resume() -> set[str]:
        await Queue.objects.apause(QUEUE, for_=HOUR, reason="tea")
        row = await Queue.objects.aget()
        assert (row.is_paused, row.pause_reason) == (True, "tea")
        await Queue.objects.aresume(QUEUE)
        return await sync_to_async(Queue.objects.paused_names)()

    assert async_to_sync(pause_and_resume)() == set()


def test_a_claim_asks_no_more_than_without_an_end() -> None:
    def count() -> int:
        waiting()
        with CaptureQueriesContext(connection) as queries:
            assert len(claimed()) == 1
        return len(queries)

    without = count()
    Queue.objects.pause(QUEUE, for_=HOUR)
    let_pause_end()
    assert count() == without


def ask() -> Why:
    return why(Message.objects.get(), now=now(), has_consumer=lambda _queue: True)


def test_why_it_is_stuck_shows_until_when() -> None:
    waiting()
    Queue.objects.pause(QUEUE, for_=HOUR, by="ann", reason="the bank is down")
    end = Queue.objects.get().paused_until
    answer = ask()
    assert answer.code == "paused"
    assert f"The pause ends at {end:%Y-%m-%d %H:%M:%S} UTC; then claims continue automatically." in answer.evidence
    let_pause_end()
    assert ask().code == "no_worker"
    Queue.objects.pause(QUEUE)
    assert len(ask().evidence) == 1
