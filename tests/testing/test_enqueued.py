"""assert_enqueued and refute_enqueued: a part is enough, and a failure tells what there is."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import ANY

import pytest

from django_dbqueue import InvalidMessage
from django_dbqueue.testing import assert_enqueued, refute_enqueued
from tests import factories
from tests.factories import QUEUE, MessageFactory

pytestmark = pytest.mark.django_db

THERE = {"to": "ann", "items": [{"id": 1, "price": 2.5}, {"id": 2}], "gift": True, "note": None}


@pytest.mark.parametrize(
    "part",
    [
        {},
        {"to": "ann"},
        {"items": [{"id": 1}, {"id": 2}]},
        {"items": ({"id": 1}, {"id": 2})},
        {"items": [{"price": 2.5}, ANY]},
        {"items": ANY, "note": None},
        {"gift": True},
        THERE,
    ],
    ids=repr,
)
def test_a_part_of_the_payload_is_enough(part: Any) -> None:
    message = MessageFactory(payload=THERE)
    assert assert_enqueued(QUEUE, payload=part) == [message]
    with pytest.raises(AssertionError, match="Expected no message in queue 'tests' with payload="):
        refute_enqueued(QUEUE, payload=part)


@pytest.mark.parametrize(
    ("part", "why"),
    [
        ({"to": "bob"}, r"payload['to'] is 'ann'"),
        ({"cc": "bob"}, r"payload['cc'] is missing"),
        ({"items": [{"id": 1}]}, r"payload['items'] has 2 items, not 1"),
        ({"items": [{"id": 1}, {"id": 3}]}, r"payload['items'][1]['id'] is 2"),
        ({"items": [{"id": 1}, {"price": 1}]}, r"payload['items'][1]['price'] is missing"),
        ({"gift": 1}, r"payload['gift'] is True"),
        ({"note": False}, r"payload['note'] is None"),
        ({"to": {"name": "ann"}}, r"payload['to'] is 'ann'"),
        ("ann", r"payload is {'to': 'ann'"),
        (None, r"payload is {'to': 'ann'"),
    ],
    ids=repr,
)
def test_what_differs_is_shown_by_its_path(part: Any, why: str) -> None:
    message = MessageFactory(payload=THERE)
    refute_enqueued(QUEUE, payload=part)
    with pytest.raises(AssertionError) as caught:
        assert_enqueued(QUEUE, payload=part)
    head, has, line, *rest = str(caught.value).splitlines()
    assert head == f"Expected at least 1 message in queue 'tests' with payload={part!r}, found none."
    assert has == "The queue has:"
    assert line.startswith(f"  #{message.pk}, due ")
    assert f" <- {why}" in line
    assert rest == []


@pytest.mark.parametrize("payload", ["text", b"bytes", 7, [1, [2]], None], ids=repr)
def test_any_kind_of_payload_can_be_expected(payload: Any) -> None:
    MessageFactory(payload=payload)
    assert_enqueued(QUEUE, payload=payload, count=1)
    refute_enqueued(QUEUE, payload="something else")


def test_the_key_may_be_given_and_none_is_a_message_without_one() -> None:
    with_key, without = MessageFactory(key="k"), MessageFactory()
    assert assert_enqueued(QUEUE, key="k") == [with_key]
    assert assert_enqueued(QUEUE, key=None) == [without]
    refute_enqueued(QUEUE, key="K")


def test_when_it_is_due_may_be_given_as_a_moment_or_a_delay_to_the_second() -> None:
    at = datetime(2060, 1, 2, 3, 4, 5, 678_901, tzinfo=UTC)
    MessageFactory(payload="at", at=at)
    MessageFactory(payload="delay", delay=3600)
    MessageFactory(payload="now")
    assert [message.payload for message in assert_enqueued(QUEUE, at=at)] == ["at"]
    assert_enqueued(QUEUE, at=at.astimezone(), count=1)
    refute_enqueued(QUEUE, at=at + timedelta(seconds=2))
    assert [message.payload for message in assert_enqueued(QUEUE, delay=3600)] == ["delay"]
    assert [message.payload for message in assert_enqueued(QUEUE, delay=timedelta(0))] == ["now"]
    assert_enqueued(QUEUE, at=datetime.now(UTC) + timedelta(hours=1), payload="delay")
    with pytest.raises(AssertionError, match=r"found none(?s:.)*<- delay is 1:00:00"):
        assert_enqueued(QUEUE, delay=60)


def test_priority_and_headers_may_be_given() -> None:
    MessageFactory(priority=7, headers={"trace": "abc", "more": 1})
    assert_enqueued(QUEUE, priority=7, headers={"trace": "abc"})
    refute_enqueued(QUEUE, priority=0)
    refute_enqueued(QUEUE, headers={"trace": "ab"})


def test_a_count_is_exact() -> None:
    both = MessageFactory.create_batch(2, payload="x")
    MessageFactory(payload="y", priority=9)
    assert assert_enqueued(QUEUE, payload="x", count=2) == both
    assert assert_enqueued(QUEUE, payload="z", count=0) == []
    for count, found in ((1, "Expected 1 message in"), (3, "Expected 3 messages in"), (0, "Expected 0 messages in")):
        with pytest.raises(AssertionError, match=rf"{found} queue 'tests' with payload='x', found 2\."):
            assert_enqueued(QUEUE, payload="x", count=count)


def test_what_is_finished_does_not_count_and_is_shown() -> None:
    factories.done(payload="x")
    factories.dead(payload="x")
    refute_enqueued(QUEUE)
    with pytest.raises(AssertionError) as caught:
        assert_enqueued(QUEUE, payload="x")
    nothing, *finished = str(caught.value).splitlines()[1:]
    assert nothing.startswith("Nothing waits or runs")
    assert [line.rpartition(": ")[2] for line in finished] == ["1 done.", "1 dead."]


def test_what_runs_counts_for_it_is_not_finished() -> None:
    factories.held(payload="x")
    with pytest.raises(AssertionError, match="running"):
        refute_enqueued(QUEUE, payload="x")
    assert_enqueued(QUEUE, payload="x")


def test_a_failure_names_the_other_queues_and_few_of_many_messages_cut_short() -> None:
    MessageFactory.create_batch(25, payload={"text": "x" * 1000})
    MessageFactory(queue="emails")
    with pytest.raises(AssertionError) as caught:
        assert_enqueued(QUEUE, payload={"text": "y"})
    lines = str(caught.value).splitlines()
    assert len(lines) == 24
    assert lines[-2:] == ["  ... and 5 more", "Other queues: emails (1)"]
    assert max(map(len, lines)) < 600


def test_a_message_that_cannot_be_decoded_matches_nothing_and_is_shown() -> None:
    factories.written_by_sql("{")
    refute_enqueued(QUEUE, payload={})
    with pytest.raises(AssertionError, match=r"undecodable \(The body is not JSON.*<- payload can't be decoded"):
        assert_enqueued(QUEUE, payload={})


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"at": datetime(2060, 1, 1)}, "at must be an aware datetime"),  # noqa: DTZ001
        ({"at": datetime(2060, 1, 1, tzinfo=UTC), "delay": 5}, "Give at or delay, not both"),
        ({"delay": -1}, "delay must be from 0"),
    ],
)
@pytest.mark.parametrize("verb", [assert_enqueued, refute_enqueued])
def test_what_can_match_nothing_is_refused(verb: Any, wrong: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        verb(QUEUE, **wrong)


def test_a_name_that_no_queue_can_have_is_refused() -> None:
    with pytest.raises(InvalidMessage, match="is not a queue name"):
        refute_enqueued("no name")
