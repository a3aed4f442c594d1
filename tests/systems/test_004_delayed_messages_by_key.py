"""Article 004: key and kind, no duplicates, delivery at a time, the lock and its loop; and its page.

Its acknowledge race is in ``test_004_acknowledge_race.py``.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from django.db import connections

from django_dbqueue.lifecycle.claimer import Claimer
from django_dbqueue.models import Message
from django_dbqueue.models.fields import clock
from django_dbqueue.sessions.django_session import DjangoSession
from tests.concurrency.steps import aside, meet
from tests.factories import let_pass, row, rows
from tests.process.conftest import wait_until
from tests.systems.contacts import ALEX, FIVE_MINUTES, KEY, KIND, acquire, must_acquire, poll, push
from tests.systems.told import assert_page_prints_what_it_shows

pytestmark = pytest.mark.django_db(transaction=True)
PAGE = Path(__file__).resolve().parents[2] / "docs" / "systems" / "004-delayed-messages-by-key.md"
AT_TEN = datetime(2022, 10, 22, 10, 0, tzinfo=UTC)


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
    let_pass(message, 3500)
    assert (poll(), acquire()) == ([], None)
    let_pass(message, 101)
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


def test_what_was_pushed_can_be_read_by_its_key_and_withdrawn() -> None:
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
        return Claimer(Message, DjangoSession("default"), KIND).claim(1, lease=FIVE_MINUTES, max_reads=5)

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


def test_the_page_prints_what_it_shows() -> None:
    assert_page_prints_what_it_shows(PAGE)
