"""By its key, a live message is found, and taken back by who sent it (P11)."""

from __future__ import annotations

import re
from typing import Any

import pytest

from django_dbqueue import InvalidMessage, LeaseLost
from django_dbqueue.models import ArchivedMessage, Message
from tests.factories import QUEUE, dead, done, held, row, rows, stuck, waiting
from tests.lifecycle.rollback import rolled_back

pytestmark = pytest.mark.django_db


def test_get_by_key_gives_the_live_message_and_not_those_that_are_over() -> None:
    assert Message.objects.get_by_key(QUEUE, "k") is None
    for end in (done, dead):
        over = end(key="k")
        assert Message.objects.get_by_key(QUEUE, "k") is None
        assert over in Message.objects.with_key(QUEUE, "k")
    for make, options in ((waiting, {}), (waiting, {"delay": 60}), (held, {}), (stuck, {})):
        message = make(key="k", payload=make.__name__, **options)
        found = Message.objects.get_by_key(QUEUE, "k")
        assert (found, found.payload) == (message, make.__name__)
        assert Message.objects.get_by_key(QUEUE, "K") is None
        assert Message.objects.get_by_key("other", "k") is None
        assert Message.objects.drop(QUEUE, "k") is True


@pytest.mark.parametrize("make", [waiting, held, stuck])
def test_drop_marks_the_live_message_done_stores_why_and_frees_the_key(make: Any) -> None:
    message, other = make(key="k"), waiting(key="other", queue="elsewhere")
    others = [row(end(key="k", queue="ended")) for end in (done, dead)] + [row(other)]
    assert Message.objects.drop(QUEUE, "k", reason="the order was cancelled") is True
    stored = row(message)
    assert (stored["status"], stored["live"], stored["error"]) == ("y", None, "the order was cancelled")
    assert (stored["conn_id"], stored["worker_id"]) == (None, None)
    assert stored["available_at"] == stored["finished_at"]
    assert [each for each in rows() if each["id"] != message.pk] == sorted(others, key=lambda r: r["id"])
    assert waiting(key="k").outcome == "created"


def test_who_held_a_message_that_was_dropped_by_key_has_lost_it() -> None:
    holder = held(key="k")
    assert Message.objects.drop(QUEUE, "k") is True
    after = row(holder)
    assert after["error"] == "dropped by its key"
    for verb in ("ack", "nack", "reject", "release", "extend"):
        with pytest.raises(LeaseLost):
            getattr(holder, verb)(*([5] if verb == "extend" else []))
    assert row(holder) == after
    Message.objects.archive(QUEUE, older_than=0)
    assert ArchivedMessage.objects.get().outcome == "dropped"


@pytest.mark.parametrize("make", [None, done, dead])
def test_drop_of_a_key_that_no_live_message_has_returns_false_and_changes_nothing(make: Any) -> None:
    if make is not None:
        make(key="k")
    before = rows()
    assert Message.objects.drop(QUEUE, "k") is False
    assert rows() == before


def test_a_drop_that_is_rolled_back_leaves_the_message_to_its_holder() -> None:
    holder = held(key="k")
    with rolled_back():
        assert Message.objects.drop(QUEUE, "k") is True
    holder.ack()


@pytest.mark.parametrize("verb", ["get_by_key", "drop", "with_key"])
@pytest.mark.parametrize(
    ("queue", "key", "complaint"),
    [
        ("no queue", "k", "'no queue' is not a queue name"),
        (None, "k", "None is not a queue name"),
        (QUEUE, None, "give the key that it was enqueued with"),
        (QUEUE, 7, "The key must be a string or None, not int: 7"),
        (QUEUE, "", "The key has 0 characters"),
        (QUEUE, "k" * 201, "The key has 201 characters"),
        (QUEUE, "\0", "NUL"),
        (QUEUE, "\ud800", "key"),
    ],
)
def test_what_can_be_no_key_is_refused_with_a_sentence(verb: str, queue: Any, key: Any, complaint: str) -> None:
    with pytest.raises(InvalidMessage, match=re.escape(complaint)):
        getattr(Message.objects, verb)(queue, key)
