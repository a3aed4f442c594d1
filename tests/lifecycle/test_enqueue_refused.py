"""What a sender may set: what is refused is refused by name, and nothing is written."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from django_dbqueue import InvalidMessage
from django_dbqueue.envelope import LEAST_LEASE
from django_dbqueue.models import Message
from tests.factories import QUEUE, claim_one, row, rows, waiting

pytestmark = pytest.mark.django_db


class Sized(str):
    """A key whose name a test can read."""


NOT_A_QUEUE = ["", "a" * 65, ".a", "-a", "_a", "a b", "ä", "a\n", "a;b", "a/b", "a%s", None, 7, b"a"]


@pytest.mark.parametrize("name", NOT_A_QUEUE)
def test_a_bad_queue_name_is_refused(name: Any) -> None:
    with pytest.raises(InvalidMessage, match="is not a queue name: use 1 to 64"):
        Message.objects.enqueue(1, queue=name)
    with pytest.raises(InvalidMessage, match="is not a queue name"):
        Message.objects.enqueue_many([1], queue=name)
    with pytest.raises(InvalidMessage, match="is not a queue name"):
        Message.objects.claim(1, queue=name)
    assert rows() == []


@pytest.mark.parametrize("name", ["a", "0", "a" * 64, "Mail.eu-west_1:high", "A"])
def test_a_good_queue_name_is_kept_as_it_is(name: str) -> None:
    waiting(queue=name)
    assert claim_one(name).queue == name


def test_queue_names_differ_by_case() -> None:
    waiting(queue="Mail")
    assert Message.objects.claim(1, queue="mail") == []
    assert len(Message.objects.claim(1, queue="Mail")) == 1


REFUSED = [
    ({"key": ""}, "The key has 0 characters"),
    ({"key": "k" * 201}, "The key has 201 characters, but 1 to 200 are allowed"),
    ({"key": "a\0b"}, "The key has a NUL character"),
    ({"key": "a\ud800"}, "The key has a lone surrogate"),
    ({"key": 7}, "The key must be a string or None, not int"),
    ({"key": b"k"}, "The key must be a string or None, not bytes"),
    ({"delay": -1}, "delay must be from 0"),
    ({"delay": timedelta(seconds=-1)}, "delay must be from 0"),
    ({"delay": float("nan")}, "delay must be a number of seconds"),
    ({"delay": float("inf")}, "delay must be a number of seconds"),
    ({"delay": 1e12}, "delay must be from 0"),
    ({"delay": 10**400}, "delay must be from 0"),
    ({"delay": True}, "delay must be a number of seconds"),
    ({"delay": "5"}, "delay must be a number of seconds"),
    ({"delay": 10**5000}, "delay must be from 0 .*, not a int with more digits than can be shown"),
    ({"lease": -0.001}, "lease must be from 0"),
    (
        {"lease": 0},
        r"lease must be a number of seconds above 0 \(0.001 at least\), not 0: the lease would expire before",
    ),
    ({"lease": 0.0}, "lease must be a number of seconds above 0"),
    ({"lease": -0.0}, "lease must be a number of seconds above 0"),
    ({"lease": timedelta(0)}, "lease must be a number of seconds above 0"),
    ({"lease": 1e-9}, "lease must be a number of seconds above 0"),
    ({"lease": float("nan")}, "lease must be a number of seconds or a timedelta"),
    ({"lease": float("-inf")}, "lease must be a number of seconds or a timedelta"),
    ({"lease": False}, "lease must be a number of seconds or a timedelta"),
    ({"lease": timedelta.max}, "lease must be from 0"),
    ({"lease": timedelta.min}, "lease must be from 0"),
    ({"lease": 10**5000}, "lease must be from 0"),
    ({"lease": "long"}, "lease must be a number of seconds"),
    ({"at": datetime(2030, 1, 1)}, "at must be an aware datetime"),  # noqa: DTZ001
    ({"at": "2030-01-01"}, "at must be an aware datetime"),
    ({"at": datetime(9999, 12, 31, tzinfo=UTC)}, "at must be before the year 9000"),
    ({"at": datetime.max.replace(tzinfo=timezone(timedelta(hours=-12)))}, "at must be before the year 9000"),
    ({"at": datetime(2030, 1, 1, tzinfo=UTC), "delay": 5}, "Give delay or at, not both"),
    ({"priority": 101}, "priority must be a whole number from -100 to 100, not 101"),
    ({"priority": -101}, "priority must be a whole number"),
    ({"priority": 1.5}, "priority must be a whole number"),
    ({"priority": 10**5000}, "priority must be a whole number"),
    ({"priority": True}, "priority must be a whole number"),
    ({"max_reads": -1}, "max_reads must be a whole number from 0"),
    ({"max_reads": 2**31}, "max_reads must be a whole number"),
    ({"headers": ["a"]}, "headers must be a dict or None, not list"),
    ({"headers": {1: "a"}}, "The headers has the key 1 of type int|headers"),
    ({"headers": {"a": float("nan")}}, "headers"),
    ({"headers": {"a": "\udfff"}}, "The headers has a lone surrogate"),
    ({"headers": {"a": "x" * 20_000}}, "The headers take 20,0"),
    ({"on_conflict": "replace"}, "on_conflict must be one of ignore, update, error, not 'replace'"),
]


@pytest.mark.parametrize(("options", "error"), REFUSED, ids=[str(number) for number in range(len(REFUSED))])
def test_what_cannot_be_stored_is_refused_by_name_and_nothing_is_written(options: dict[str, Any], error: str) -> None:
    with pytest.raises(InvalidMessage, match=error):
        Message.objects.enqueue("payload", queue=QUEUE, **options)
    assert rows() == []


def test_the_limits_themselves_are_allowed() -> None:
    message = waiting(key="k" * 200, priority=-100, max_reads=2_000_000_000, lease=LEAST_LEASE)
    assert (message.priority, message.max_reads, message.lease_seconds) == (-100, 2_000_000_000, 0.001)
    assert len(row(message)["key"]) == 200
