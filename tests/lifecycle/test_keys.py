"""At most one live message for each (queue, key), compared byte by byte on every database (P11).

A second one: ``test_on_conflict.py``; looks and drops: ``test_by_key.py``.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

import pytest

from django_dbqueue import DuplicateKey, Envelope
from django_dbqueue.models import Message
from tests.factories import QUEUE, claim_one, dead, done, held, let_pass, row, stuck, waiting

pytestmark = pytest.mark.django_db


class Name(str, Enum):  # noqa: UP042 - it is what is tested
    """Text whose str() is 'Name.K'."""

    K = "k"


def test_a_member_of_an_enum_is_the_key_and_the_queue_that_its_text_is() -> None:
    message = waiting(key=Name.K, queue=Name.K)
    assert waiting(key="k", queue="k") == message
    assert Message.objects.enqueue_many([Envelope(1, key=Name.K)], queue=Name.K).ignored == 1
    assert Message.objects.get_by_key(Name.K, Name.K) == message


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


def test_enqueue_many_distinguishes_the_same_keys() -> None:
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


def test_the_key_is_in_use_while_its_message_waits_is_delayed_runs_or_is_stuck() -> None:
    for make in (waiting, held, stuck):
        message = make(payload=0, key=make.__name__, queue=make.__name__)
        again = waiting(payload=1, key=make.__name__, queue=make.__name__)
        assert (again.outcome, again.pk, again.payload) == ("ignored", message.pk, 0)
    assert waiting(key="later", delay=60).pk == waiting(key="later").pk


def test_the_key_is_in_use_after_a_nack_a_release_and_a_rescue() -> None:
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


def test_requeue_reports_the_message_whose_key_was_in_use_and_goes_on_with_the_others() -> None:
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
