"""At most one live message for each (queue, key), compared byte by byte on every database (P11)."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from django_dbqueue import DuplicateKey, Envelope, InvalidMessage, LeaseLost
from django_dbqueue.models import ArchivedMessage, Message
from tests.factories import (
    QUEUE,
    claim_one,
    dead,
    done,
    held,
    let_pass,
    row,
    rows,
    stuck,
    waiting,
)
from tests.lifecycle.rollback import rolled_back

pytestmark = pytest.mark.django_db

ALIKE = [
    "a",
    "A",
    "a ",
    " a",
    "a\t",
    "a\n",
    "\N{LATIN SMALL LETTER A WITH DIAERESIS}",
    "a\N{COMBINING DIAERESIS}",
    "\N{LATIN SMALL LETTER A WITH ACUTE}",
    "\N{LATIN SMALL LETTER SHARP S}",
    "ss",
    "SS",
    "\N{LATIN SMALL LETTER LONG S}",
    "i",
    "I",
    "\N{LATIN SMALL LETTER DOTLESS I}",
    "\N{LATIN CAPITAL LETTER I WITH DOT ABOVE}",
    "\N{LATIN CAPITAL LETTER A WITH RING ABOVE}",
    "\N{ANGSTROM SIGN}",
    "\N{LATIN SMALL LIGATURE FI}",
    "fi",
    "\N{FULLWIDTH DIGIT ONE}",
    "1",
    "\N{GRINNING FACE}",
    "\N{GRINNING FACE WITH SMILING EYES}",
    "\N{ZERO WIDTH SPACE}",
    "a\N{ZERO WIDTH SPACE}",
    "a\N{VARIATION SELECTOR-16}",
    "\U0010ffff",
    "\U0010fffe",
    "\N{HALFWIDTH KATAKANA LETTER A}",
    "\N{KATAKANA LETTER A}",
    "\N{HIRAGANA LETTER A}",
    "%",
    "_",
    "\\",
    "\\\\",
    "'",
    "''",
    '"',
    "0",
    "00",
    "0.0",
    "false",
]


def test_keys_that_collations_take_for_alike_are_all_different() -> None:
    assert len(set(ALIKE)) == len(ALIKE)
    assert [waiting(payload=key, key=key).outcome for key in ALIKE] == ["created"] * len(ALIKE)
    for key in ALIKE:
        again = waiting(payload="again", key=key)
        assert (again.outcome, again.payload, row(again)["key"]) == ("ignored", key, key)


def test_enqueue_many_tells_the_same_keys_apart() -> None:
    report = Message.objects.enqueue_many([Envelope(key, key=key) for key in ALIKE * 2], queue=QUEUE)
    assert (report.created, report.ignored) == (len(ALIKE), len(ALIKE))


def test_keys_are_found_byte_by_byte_too() -> None:
    for key in ALIKE:
        waiting(payload=key, key=key)
    for key in ALIKE:
        assert [message.payload for message in Message.objects.with_key(QUEUE, key)] == [key]


def test_the_same_key_in_another_queue_is_another_key() -> None:
    assert waiting(queue="a", key="bc").outcome == "created"
    assert waiting(queue="ab", key="c").outcome == "created"
    assert waiting(queue="A", key="bc").outcome == "created"
    assert waiting(queue="a", key="bc").outcome == "ignored"


def test_messages_without_a_key_never_collide() -> None:
    assert {waiting(payload=1).outcome for _ in range(3)} == {"created"}
    assert Message.objects.count() == 3


# Live: from enqueue to done or dead


def test_the_key_is_taken_while_its_message_waits_is_delayed_runs_or_is_stuck() -> None:
    for make in (waiting, held, stuck):
        message = make(payload=0, key=make.__name__, queue=make.__name__)
        again = waiting(payload=1, key=make.__name__, queue=make.__name__)
        assert (again.outcome, again.pk, again.payload) == ("ignored", message.pk, 0)
    assert waiting(key="later", delay=60).pk == waiting(key="later").pk


def test_the_key_is_taken_after_a_nack_a_release_and_a_rescue() -> None:
    message = held(key="k")
    message.nack()
    assert waiting(key="k").outcome == "ignored"
    claim_one().release()
    assert waiting(key="k").outcome == "ignored"
    let_pass(claim_one(), 61)
    assert Message.objects.rescue(QUEUE) == 1
    assert waiting(key="k").outcome == "ignored"


@pytest.mark.parametrize("end", [done, dead])
def test_the_key_is_free_once_its_message_is_done_or_dead(end: Any) -> None:
    first = end(key="k")
    assert row(first)["live"] is None
    second = waiting(key="k")
    assert (second.outcome, second.pk != first.pk) == ("created", True)
    assert [m.pk for m in Message.objects.with_key(QUEUE, "k").order_by("pk")] == [first.pk, second.pk]


def test_the_key_is_free_once_the_reads_are_spent() -> None:
    held(key="k", max_reads=1).nack()
    assert waiting(key="k").outcome == "created"


def test_the_key_is_free_once_a_rescue_found_the_reads_spent() -> None:
    stuck(key="k", max_reads=1)
    Message.objects.rescue()
    assert waiting(key="k").outcome == "created"


@pytest.mark.parametrize("verb", ["drop_all", "reject_waiting"])
def test_the_key_is_free_once_an_operator_ended_its_message(verb: str) -> None:
    waiting(key="k")
    assert getattr(Message.objects.all(), verb)("by me") == 1
    assert waiting(key="k").outcome == "created"


def test_many_finished_messages_share_a_key() -> None:
    for _ in range(3):
        done(key="k")
        dead(key="k")
    assert Message.objects.with_key(QUEUE, "k").count() == 6


# By key: look, and take back what was sent


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
def test_drop_marks_the_live_message_done_says_why_and_frees_the_key(make: Any) -> None:
    message, other = make(key="k"), waiting(key="other", queue="elsewhere")
    others = [row(end(key="k", queue="ended")) for end in (done, dead)] + [row(other)]
    assert Message.objects.drop(QUEUE, "k", reason="the order was cancelled") is True
    stored = row(message)
    assert (stored["status"], stored["live"], stored["error"]) == ("y", None, "the order was cancelled")
    assert (stored["conn_id"], stored["worker_id"]) == (None, None)
    assert stored["available_at"] == stored["finished_at"]
    assert [standing for standing in rows() if standing["id"] != message.pk] == sorted(others, key=lambda r: r["id"])
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
def test_drop_of_a_key_that_no_live_message_has_says_so_and_changes_nothing(make: Any) -> None:
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
        ("no queue", "k", "'no queue' is no queue name"),
        (None, "k", "None is no queue name"),
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


# on_conflict


def test_ignore_returns_the_message_that_stands_there_as_it_stands() -> None:
    message = held(payload="old", key="k")
    before = row(message)
    standing = waiting(payload="new", key="k", priority=50, delay=60)
    assert (standing.outcome, standing.status, standing.payload) == ("ignored", "run", "old")
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
    beside = claim_one()
    assert (beside.payload, beside.read_count) == ("new", 1)
    with pytest.raises(LeaseLost):
        holder.ack()
    beside.ack()


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


def test_an_identical_update_for_the_same_moment_changes_nothing() -> None:
    same = {"payload": 1, "key": "k", "at": datetime(2998, 1, 1, 0, 0, 0, 123457, tzinfo=UTC)}
    message = waiting(**same)
    before = row(message)
    assert waiting(**same, on_conflict="update").outcome == "ignored"
    assert row(message) == before


@pytest.mark.parametrize("make", [waiting, held])
def test_an_identical_update_for_a_moment_that_is_past_changes_nothing_of_what_is_due(make: Any) -> None:
    same = {"payload": 1, "key": "k", "at": datetime(2022, 10, 22, 10, tzinfo=UTC)}
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


def test_update_says_anew_when_the_message_is_due() -> None:
    message = waiting(payload=1, key="k", delay=1000)
    let_pass(message, 600)
    assert waiting(payload=2, key="k", delay=1000, on_conflict="update").outcome == "updated"
    stored = row(message)
    assert stored["due_at"] == stored["available_at"]
    assert abs(stored["due_at"] - stored["created_at"] - timedelta(seconds=1600)) < timedelta(seconds=60)


def test_update_of_a_message_that_is_over_creates_a_new_one() -> None:
    done(payload="old", key="k")
    assert waiting(payload="new", key="k", on_conflict="update").outcome == "created"


# A requeue takes the key back


def test_requeue_takes_the_key_back() -> None:
    message = dead(key="k")
    assert Message.objects.dead(QUEUE).requeue() == 1
    assert row(message)["live"] == 1
    assert waiting(key="k").pk == message.pk


def test_requeue_without_a_key_takes_none() -> None:
    message = dead()
    assert Message.objects.dead(QUEUE).requeue() == 1
    assert row(message)["live"] is None


def test_requeue_reports_the_message_whose_key_was_taken_and_goes_on_with_the_others() -> None:
    first, loser, last = dead(key="a"), dead(key="k"), dead(key="b")
    winner = waiting(key="k")
    before = row(loser)
    changed = Message.objects.dead(QUEUE).requeue()
    assert changed == 2
    [conflict] = changed.conflicts
    assert isinstance(conflict, DuplicateKey)
    assert (conflict.message_id, conflict.queue, conflict.key) == (loser.pk, QUEUE, "k")
    assert str(conflict).startswith(f"message {loser.pk}: ")
    assert row(loser) == before
    assert {row(first)["live"], row(last)["live"], row(winner)["live"]} == {1}


def test_of_two_dead_ones_with_one_key_requeue_revives_one_and_reports_the_other() -> None:
    dead(key="k")
    second = dead(key="k")
    changed = Message.objects.dead(QUEUE).requeue()
    assert (changed, [conflict.message_id for conflict in changed.conflicts]) == (1, [second.pk])
    assert Message.objects.dead(QUEUE).get() == second
