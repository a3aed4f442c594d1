"""What ``on_conflict`` makes of a second message with a live key: ignored, refused, or an update (P11)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from django_dbqueue import DuplicateKey, LeaseLost
from django_dbqueue.models import Message
from tests.factories import QUEUE, claim_one, done, held, let_pass, row, rows, waiting

pytestmark = pytest.mark.django_db


def test_ignore_returns_the_message_that_stands_there_as_it_stands() -> None:
    message = held(payload="old", key="k")
    before = row(message)
    live = waiting(payload="new", key="k", priority=50, delay=60)
    assert (live.outcome, live.status, live.payload) == ("ignored", "run", "old")
    assert row(message) == before
    message.ack()


def test_error_names_queue_and_key_and_changes_nothing() -> None:
    waiting(payload="old", key="k")
    before = rows()
    with pytest.raises(DuplicateKey, match=f"queue '{QUEUE}' already has a live message with key 'k'") as refused:
        waiting(payload="new", key="k", on_conflict="error")
    assert (refused.value.queue, refused.value.key) == (QUEUE, "k")
    assert rows() == before
    assert waiting(payload="new", key="other", on_conflict="error").outcome == "created"


def test_update_gives_a_waiting_message_the_new_content() -> None:
    first = waiting(payload="old", key="k", headers={"a": 1}, max_reads=9, delay=1000)
    second = waiting(payload=b"new", key="k", priority=5, lease=7, on_conflict="update")
    assert (second.outcome, second.pk) == ("updated", first.pk)
    stored = row(first)
    for name, value in stored.items():
        assert getattr(second, name) == value, name
    assert (stored["body"], stored["content_type"], stored["headers_text"]) == ("bmV3", "bytes", None)
    assert (stored["priority"], stored["max_reads"], stored["lease_seconds"]) == (5, None, 7)
    assert claim_one().payload == b"new"


def test_update_outlives_the_running_claim_whose_ack_is_lost() -> None:
    holder = held(payload="old", key="k")
    assert waiting(payload="new", key="k", on_conflict="update").outcome == "updated"
    after = row(holder)
    assert (after["status"], after["conn_id"], after["worker_id"]) == ("n", None, None)
    for verb in ("ack", "nack", "reject", "release", "extend"):
        with pytest.raises(LeaseLost):
            getattr(holder, verb)(*([5] if verb == "extend" else []))
    assert row(holder) == after
    other = claim_one()
    assert (other.payload, other.read_count) == ("new", 1)
    with pytest.raises(LeaseLost):
        holder.ack()
    other.ack()


def test_update_resets_counts_and_error() -> None:
    message = held(payload="old", key="k", max_reads=3)
    message.nack(error="failed once")
    let_pass(claim_one(), 61)
    Message.objects.rescue(QUEUE)
    before = row(message)
    assert (before["read_count"], before["crashes"], bool(before["error"])) == (2, 1, True)
    waiting(payload="new", key="k", on_conflict="update")
    after = row(message)
    assert (after["read_count"], after["crashes"], after["error"]) == (0, 0, None)
    assert (after["max_reads"], after["live"]) == (None, 1)


@pytest.mark.parametrize("make", [waiting, held])
def test_an_identical_update_changes_nothing(make: Any) -> None:
    same = {"payload": {"a": [1, "ü"]}, "key": "k", "priority": 3, "headers": {"h": 1}}
    message = make(**same)
    before = row(message)
    assert waiting(**same, on_conflict="update").outcome == "ignored"
    assert row(message) == before


@pytest.mark.parametrize(
    ("make", "at"),
    [
        (waiting, datetime(2998, 1, 1, 0, 0, 0, 123457, tzinfo=UTC)),
        (waiting, datetime(2022, 10, 22, 10, tzinfo=UTC)),
        (held, datetime(2022, 10, 22, 10, tzinfo=UTC)),
    ],
    ids=["the same", "past, of what is due", "past, of what is held"],
)
def test_an_identical_update_for_that_moment_changes_nothing(make: Any, at: datetime) -> None:
    same = {"payload": 1, "key": "k", "at": at}
    message = make(**same)
    before = row(message)
    assert waiting(**same, on_conflict="update").outcome == "ignored"
    assert row(message) == before


def test_a_moment_that_is_past_brings_forward_what_is_delayed() -> None:
    message = waiting(payload=1, key="k", delay=3600)
    again = waiting(payload=1, key="k", at=datetime(2022, 10, 22, 10, tzinfo=UTC), on_conflict="update")
    assert (again.outcome, claim_one()) == ("updated", message)


DIFFERENT: list[dict[str, Any]] = [
    {"payload": [1]},
    {"payload": "1"},
    {"priority": 1},
    {"max_reads": 8},
    {"lease": 8},
    {"headers": {"h": 2}},
    {"delay": 5},
    {"at": datetime(2998, 1, 1, tzinfo=UTC)},
]


@pytest.mark.parametrize("change", DIFFERENT, ids=str)
def test_an_update_that_differs_in_one_thing_is_an_update(change: dict[str, Any]) -> None:
    waiting(payload=1, key="k")
    assert waiting(**({"payload": 1, "key": "k", "on_conflict": "update"} | change)).outcome == "updated"


def test_update_sets_again_when_the_message_is_due() -> None:
    message = waiting(payload=1, key="k", delay=1000)
    let_pass(message, 600)
    assert waiting(payload=2, key="k", delay=1000, on_conflict="update").outcome == "updated"
    stored = row(message)
    assert stored["due_at"] == stored["available_at"]
    assert abs(stored["due_at"] - stored["created_at"] - timedelta(seconds=1600)) < timedelta(seconds=60)


def test_update_of_a_message_that_has_ended_creates_a_new_one() -> None:
    done(payload="old", key="k")
    assert waiting(payload="new", key="k", on_conflict="update").outcome == "created"
