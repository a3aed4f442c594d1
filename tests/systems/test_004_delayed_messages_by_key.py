"""Article 004: key and kind, no duplicates, delivery at a time, the lock, its acknowledge race, its loop; and its page.

Its kind is our queue, its scheduledAt our due time, and its lock and createdAt together are our token.
"""

from __future__ import annotations

import doctest
import re
import threading
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connections

from django_dbqueue import LeaseLost
from django_dbqueue.lifecycle.claim import Claimer
from django_dbqueue.models import Message
from django_dbqueue.models.fields import clock
from tests.concurrency.steps import aside, meet
from tests.factories import let_pass, row, rows
from tests.process.conftest import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.django_db(transaction=True)
PAGE = Path(__file__).resolve().parents[2] / "docs" / "systems" / "004-delayed-messages-by-key.md"
KEY = "c71de6b4-510f-11ed-9d4d-0242ac120002"
KIND = "Contact"
ALEX = {"name": "Alex", "emailAddress": "alex@example.com"}
FIVE_MINUTES = 60 * 5
AT_TEN = datetime(2022, 10, 22, 10, 0, tzinfo=UTC)


def push(payload: Any = ALEX, *, key: str = KEY, kind: str = KIND, **options: Any) -> Message:
    return Message.objects.enqueue(payload, queue=kind, key=key, **options)


def poll(kind: str = KIND) -> list[Message]:
    """The article's SELECT: what is next, and nobody is asked to let go of it."""
    return Message.objects.peek(kind, limit=1)


def acquire(kind: str = KIND, *, timeout: float = FIVE_MINUTES) -> Message | None:
    """The article's SELECT and UPDATE in one."""
    return next(iter(Message.objects.claim(1, queue=kind, lease=timeout)), None)


def must_acquire(kind: str = KIND) -> Message:
    message = acquire(kind)
    assert message is not None
    return message


# Pushing new messages


def test_a_message_for_a_moment_that_is_past_is_delivered_at_once() -> None:
    """Its example is for ten o'clock of a day in 2022."""
    assert push(at=AT_TEN).outcome == "created"
    message = must_acquire()
    assert (message.key, message.queue, message.payload) == (KEY, KIND, ALEX)
    message.ack()
    assert acquire() is None


def test_a_message_for_later_is_not_there_until_its_moment_has_come() -> None:
    moment = clock("default") + timedelta(hours=1)
    message = push(at=moment)
    assert (poll(), acquire()) == ([], None)
    assert row(message)["due_at"] == moment
    let_pass(message, 3599)
    assert (poll(), acquire()) == ([], None)
    let_pass(message, 2)
    assert poll() == [message]
    assert acquire() == message


def test_a_message_is_delivered_at_its_moment_by_the_databases_clock_and_not_before() -> None:
    moment = clock("default") + timedelta(seconds=1.5)
    push(at=moment)
    message = wait_until(acquire, "the message of that moment")
    assert row(message)["claimed_at"] >= moment


def test_the_same_key_pushed_again_is_no_second_message() -> None:
    first = push(delay=60)
    again = push({"name": "Somebody else"})
    assert (again.outcome, again.pk, again.payload) == ("ignored", first.pk, ALEX)
    assert len(rows()) == 1


def test_the_same_key_of_another_kind_is_another_message() -> None:
    assert push().outcome == "created"
    assert push(kind="Invoice").outcome == "created"
    assert must_acquire("Invoice").pk != must_acquire(KIND).pk


def test_an_offer_can_update_what_is_there_and_bring_it_forward_or_put_it_off() -> None:
    first = push(at=clock("default") + timedelta(hours=1))
    updated = push({"name": "Alexandra"}, on_conflict="update")
    assert (updated.outcome, updated.pk) == ("updated", first.pk)
    assert poll() == [first]
    assert push({"name": "Alexandra"}, on_conflict="update", delay=60).outcome == "updated"
    assert poll() == []
    found = Message.objects.get_by_key(KIND, KEY)
    assert found is not None
    assert found.payload == {"name": "Alexandra"}


def test_what_was_pushed_can_be_looked_at_by_its_key_and_taken_back() -> None:
    message = push(delay=60)
    assert Message.objects.get_by_key(KIND, KEY) == message
    assert Message.objects.drop(KIND, KEY) is True
    assert Message.objects.get_by_key(KIND, KEY) is None
    assert Message.objects.drop(KIND, KEY) is False
    let_pass(message, 61)
    assert acquire() is None


# Acquiring the lock


def test_of_two_who_polled_the_same_message_one_acquires_it() -> None:
    push()
    with aside() as other:
        assert poll() == other.do(poll) != []

    def acquire_and_not_commit_yet() -> list[Message]:
        return Claimer(Message, "default", KIND).claim(1, lease=FIVE_MINUTES, max_reads=5)

    met = meet(acquire_and_not_commit_yet, acquire, waits=False)
    assert len(met.first) == 1
    assert met.second is None
    assert acquire() is None


def test_what_is_acquired_is_invisible_until_its_timeout_and_then_comes_again() -> None:
    push()
    first = must_acquire()
    assert (poll(), acquire()) == ([], None)
    let_pass(first, FIVE_MINUTES - 5)
    assert acquire() is None
    let_pass(first, 10)
    second = must_acquire()
    assert (second.pk, second.read_count) == (first.pk, 2)
    assert second.claim_token != first.claim_token


# Acknowledging: its race


def refused(message: Message) -> bool:
    """Whether an acknowledgement changes nothing, and says so."""
    before = rows()
    with pytest.raises(LeaseLost):
        message.ack()
    assert rows() == before
    return True


def test_race_1_the_timeout_passed_and_another_has_it() -> None:
    push()
    slow = must_acquire()
    let_pass(slow, FIVE_MINUTES + 1)
    other = must_acquire()
    assert other.pk == slow.pk
    assert refused(slow)
    other.ack()
    assert row(other)["status"] == "y"
    assert refused(slow)


def test_race_1_the_timeout_passed_and_nobody_came() -> None:
    push()
    slow = must_acquire()
    let_pass(slow, FIVE_MINUTES + 1)
    slow.ack()
    assert acquire() is None


def test_race_1_the_other_failed_too_and_it_waits_again() -> None:
    push()
    slow = must_acquire()
    let_pass(slow, FIVE_MINUTES + 1)
    must_acquire().nack(error="failed, too")
    assert refused(slow)
    must_acquire().ack()


@pytest.mark.parametrize("is_taken", [False, True])
@pytest.mark.parametrize("end", ["acked by another", "dropped", "rejected"])
def test_race_2_the_key_was_used_again(end: str, *, is_taken: bool) -> None:
    push()
    slow = must_acquire()
    if end == "dropped":
        Message.objects.drop(KIND, KEY)
    else:
        let_pass(slow, FIVE_MINUTES + 1)
        other = must_acquire()
        other.ack() if end == "acked by another" else other.reject("no such contact")
    new = push({"name": "Another Alex"})
    assert (new.outcome, new.pk != slow.pk) == ("created", True)
    if is_taken:
        new = must_acquire()
    assert refused(slow)
    if not is_taken:
        new = must_acquire()
    assert new.payload == {"name": "Another Alex"}
    new.ack()


def test_race_2_the_content_was_updated_while_it_was_processed() -> None:
    push()
    slow = must_acquire()
    assert push({"name": "Alexandra"}, on_conflict="update").outcome == "updated"
    assert refused(slow)
    new = must_acquire()
    assert (new.pk, new.payload) == (slow.pk, {"name": "Alexandra"})
    assert refused(slow)
    new.ack()


@pytest.mark.parametrize("first_is_ack", [True, False])
def test_an_acknowledgement_and_an_update_at_the_same_moment_have_one_winner(*, first_is_ack: bool) -> None:
    push()
    holder = must_acquire()

    def update() -> Message:
        return push({"name": "Alexandra"}, on_conflict="update")

    if first_is_ack:
        met = meet(holder.ack, update, waits=True)
        assert (met.first, met.second.outcome) == (None, "created")
        assert row(holder)["status"] == "y"
    else:
        met = meet(update, holder.ack, waits=True)
        assert met.first.outcome == "updated"
        assert isinstance(met.second, LeaseLost)
    assert must_acquire().payload == {"name": "Alexandra"}


def test_an_acknowledgement_that_is_sent_twice_is_refused_and_spares_the_next_message_of_the_key() -> None:
    push()
    message = must_acquire()
    message.ack()
    new = push()
    assert refused(message)
    assert acquire() == new


# Its run loop


class Loop(threading.Thread):
    """The article's pseudocode, on a connection of its own."""

    def __init__(self, process: Callable[[Message], None], over: threading.Event) -> None:
        super().__init__()
        self._process = process
        self._over = over
        self.acknowledged: list[str | None] = []
        self.errors: list[Exception] = []

    def run(self) -> None:
        while not self._over.is_set():
            message = acquire(timeout=2)
            if message is None:
                self._over.wait(0.05)
                continue  # next please
            try:
                self._process(message)
                message.ack()  # if everything went well, mark it as processed
            except Exception as error:
                self.errors.append(error)
            else:
                self.acknowledged.append(message.key)
        connections.close_all()


def test_loops_that_share_a_kind_process_each_key_once_and_what_failed_again_after_its_timeout() -> None:
    keys = [f"contact {number}" for number in range(40)]
    fails_once = set(keys[::8])
    failed: list[str | None] = []

    def process(message: Message) -> None:
        assert message.payload == {"for": message.key}
        if message.key in fails_once and message.read_count == 1:
            failed.append(message.key)
            raise RuntimeError("no answer")

    for key in keys:
        assert push({"for": key}, key=key).outcome == "created"
        assert push({"for": "nobody"}, key=key).outcome == "ignored"
    over = threading.Event()
    loops = [Loop(process, over) for _ in range(4)]
    for loop in loops:
        loop.start()
    try:
        wait_until(lambda: Message.objects.done(KIND).count() == len(keys), "all to be processed")
    finally:
        over.set()
        for loop in loops:
            loop.join()
    acknowledged = Counter(key for loop in loops for key in loop.acknowledged)
    assert acknowledged == Counter(keys)
    assert set(failed) == fails_once
    assert sum(isinstance(error, RuntimeError) for loop in loops for error in loop.errors) == len(fails_once)
    assert {message.read_count >= 2 for message in Message.objects.filter(key__in=fails_once)} == {True}


def test_the_page_prints_what_it_says() -> None:
    session = "".join(re.findall(r"^```pycon\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL))
    examples = doctest.DocTestParser().get_doctest(session, {}, PAGE.name, str(PAGE), 0)
    assert len(examples.examples) > 20
    said: list[str] = []
    assert doctest.DocTestRunner().run(examples, out=said.append).failed == 0, "".join(said)
