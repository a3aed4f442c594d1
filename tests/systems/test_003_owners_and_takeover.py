"""Article 003's system: owners, batches of ten, takeover by the living, and at least once under kill -9.

Its story is told with processes that are really killed, and with no guardian or worker anywhere. Its last question, how
to process a message only once, is answered for effects in the same database.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from django_dbqueue.models import Message, Worker
from tests.bank_app.models import Transfer
from tests.patience import patience
from tests.process.conftest import start_worker, wait_until  # noqa: F401 - start_worker is a fixture
from tests.systems.owner import BATCH, FIFTH

pytestmark = pytest.mark.django_db(transaction=True)

QUEUE = "test"
BRIEF, LONG = 2.0, 600.0
"""Leases in seconds: one that the test waits for, and one that it doesn't."""


class Owner:
    """A consumer in a process of its own, which can be told to stop at a step."""

    def __init__(self, environment: dict[str, str], lease: float, *how: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.systems.owner", QUEUE, str(lease), *how],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.pid = self.process.pid
        self.heard: list[str] = []
        self.wait_for("ready")

    def wait_for(self, line: str) -> None:
        """Read until it says that."""
        assert self.process.stdout is not None
        for printed in self.process.stdout:
            self.heard.append(printed.strip())
            if self.heard[-1] == line:
                return
        pytest.fail(f"it ended before it said {line!r}: {self.heard}")

    def go_on(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("go on\n")
        self.process.stdin.flush()

    def go_to(self, step: str) -> None:
        """Let it begin, and wait until it stands at the step that it was told to stop at."""
        self.go_on()
        self.wait_for(step)

    def kill(self) -> None:
        self.process.kill()
        assert self.process.wait(patience(60)) == -signal.SIGKILL

    def end(self) -> None:
        """Wait until it has found nothing left."""
        assert self.process.stdout is not None
        self.heard += [line.strip() for line in self.process.stdout]
        assert self.process.wait(patience(60)) == 0


@pytest.fixture
def start(worker_env: dict[str, str]) -> Iterator[Callable[..., Owner]]:
    owners: list[Owner] = []

    def start(lease: float, *how: str) -> Owner:
        owners.append(Owner(worker_env, lease, *how))
        return owners[-1]

    yield start
    for owner in owners:
        owner.process.kill()
        owner.process.communicate()


def send(count: int) -> list[int]:
    Message.objects.enqueue_many([{"do": "ok"}] * count, queue=QUEUE)
    return list(Message.objects.order_by("pk").values_list("pk", flat=True))


def processed() -> Counter[int]:
    """How often each message was processed."""
    return Counter(Transfer.objects.values_list("number", flat=True))


def processed_by(owner: Owner) -> int:
    return Transfer.objects.filter(source=owner.pid).count()


def assert_all_done_and_no_guardian_was_there(sent: list[int]) -> None:
    assert list(Message.objects.done(QUEUE).order_by("pk").values_list("pk", flat=True)) == sent
    assert not Worker.objects.exists()


# Batches


def test_ten_are_claimed_in_one_go_the_oldest_first_and_the_next_ten_go_to_the_next() -> None:
    sent = send(25)
    batches = [Message.objects.claim(BATCH, queue=QUEUE) for _ in range(4)]
    assert [[message.pk for message in batch] for batch in batches] == [sent[:10], sent[10:20], sent[20:], []]
    owners = [{message.claim_token for message in batch} for batch in batches[:3]]
    assert [len(tokens) for tokens in owners] == [1, 1, 1], "a batch has one owner"
    assert len(set.union(*owners)) == 3, "and no two have the same"


def test_ten_cost_no_more_statements_than_one() -> None:
    send(11)
    with CaptureQueriesContext(connection) as of_one:
        [one] = Message.objects.claim(1, queue=QUEUE)
        one.ack()
    with CaptureQueriesContext(connection) as of_ten:
        ten = Message.objects.claim(BATCH, queue=QUEUE)
        assert len(ten) == BATCH
        assert Message.objects.ack(ten) == []
    extra = 2  # the ack of several is a transaction where UPDATE doesn't say which rows it found
    assert len(of_ten) <= len(of_one) + extra


def test_consumers_that_run_together_share_the_messages_and_none_is_processed_twice(
    start: Callable[..., Owner],
) -> None:
    sent = send(300)
    owners = [start(LONG, "--stop-at", "claimed") for _ in range(3)]
    for owner in owners:
        owner.go_to("claimed")
    for owner in owners:
        owner.go_on()
    for owner in owners:
        owner.end()
    assert processed() == Counter(sent)
    assert all("claimed 10" in owner.heard for owner in owners), "each had some before anyone went on"
    assert {line for owner in owners for line in owner.heard if line.startswith("lost")} == {"lost 0"}
    assert_all_done_and_no_guardian_was_there(sent)


# At least once


@pytest.mark.parametrize(
    ("step", "by_the_dead"),
    [("claimed", 0), ("processing", FIFTH), ("processed", BATCH)],
)
def test_a_consumer_killed_at_any_step_is_replaced_by_the_living_and_nothing_is_lost(
    start: Callable[..., Owner], step: str, by_the_dead: int
) -> None:
    """Killed after step 2, what it had processed is processed twice, as the article says of itself."""
    sent = send(25)
    dying = start(BRIEF, "--stop-at", step)
    dying.go_to(step)
    living = start(BRIEF)
    living.go_on()
    dying.kill()
    living.end()
    assert_all_done_and_no_guardian_was_there(sent)
    assert processed_by(dying) == by_the_dead
    assert processed() == Counter(sent) + Counter(sent[:by_the_dead])
    again = Message.objects.filter(read_count=2, crashes=0)
    assert list(again.order_by("pk").values_list("pk", flat=True)) == sent[:BATCH], "the dead one's ten came again"
    assert Message.objects.filter(read_count=1).count() == 15


def test_consumers_watch_each_other_until_the_last_one(start: Callable[..., Owner]) -> None:
    sent = send(40)
    first, second = start(BRIEF, "--stop-at", "processing"), start(BRIEF, "--stop-at", "processed")
    first.go_to("processing")
    second.go_to("processed")
    last = start(BRIEF)
    last.go_on()
    first.kill()
    second.kill()
    last.end()
    assert_all_done_and_no_guardian_was_there(sent)
    assert set(processed()) == set(sent)
    assert processed().total() == 40 + FIFTH + BATCH
    assert Message.objects.filter(read_count=2).count() == 2 * BATCH


def test_no_other_takes_over_from_one_who_lives_within_his_lease(start: Callable[..., Owner]) -> None:
    sent = send(20)
    slow = start(LONG, "--stop-at", "processing")
    slow.go_to("processing")
    other = start(BRIEF)
    other.go_on()
    wait_until(lambda: Message.objects.done(QUEUE).count() == 10, "the other one to have done the rest")
    assert Message.objects.rescue(QUEUE) == 0
    assert Message.objects.claim(BATCH, queue=QUEUE) == []
    slow.go_on()
    slow.end()
    other.end()
    assert processed() == Counter(sent)
    assert Message.objects.filter(read_count=1).count() == 20


def test_one_who_was_replaced_and_wakes_is_refused_and_changes_nothing(start: Callable[..., Owner]) -> None:
    """The article's `delete ... where owner='me'` would be right only if no name is ever used twice."""
    sent = send(BATCH)
    frozen = start(BRIEF, "--stop-at", "processed")
    frozen.go_to("processed")
    frozen.process.send_signal(signal.SIGSTOP)
    living = start(BRIEF)
    living.go_on()
    living.end()
    before = list(Message.objects.order_by("pk").values())
    frozen.go_on()
    frozen.process.send_signal(signal.SIGCONT)
    frozen.end()
    assert "lost 10" in frozen.heard
    assert list(Message.objects.order_by("pk").values()) == before
    assert_all_done_and_no_guardian_was_there(sent)


def test_a_worker_takes_over_from_a_consumer_of_another_kind(
    start: Callable[..., Owner],
    start_worker: Callable[..., Any],  # noqa: F811
) -> None:
    sent = send(BATCH)
    dying = start(BRIEF, "--stop-at", "processing")
    dying.go_to("processing")
    dying.kill()
    worker = start_worker("--queues", QUEUE)
    wait_until(lambda: Message.objects.done(QUEUE).count() == BATCH, "the worker to have done them")
    assert {note["id"] for note in worker.notes("end")} == set(sent)
    assert "10 messages of test rescued (lease over)" in worker.output


# Exactly once: its last question


@pytest.mark.parametrize(
    ("step", "by_the_dead"),
    [("claimed", 0), ("processing", FIFTH), ("processed", BATCH)],
)
def test_where_effect_and_ack_are_one_commit_a_kill_at_any_step_doubles_nothing(
    start: Callable[..., Owner], step: str, by_the_dead: int
) -> None:
    """In the same database one resource manager has both, so that no protocol between two is needed."""
    sent = send(25)
    dying = start(BRIEF, "--exactly-once", "--stop-at", step)
    dying.go_to(step)
    living = start(BRIEF, "--exactly-once")
    living.go_on()
    dying.kill()
    living.end()
    assert_all_done_and_no_guardian_was_there(sent)
    assert processed() == Counter(sent)
    assert processed_by(dying) == by_the_dead
    again = Message.objects.filter(read_count=2)
    assert list(again.order_by("pk").values_list("pk", flat=True)) == sent[by_the_dead:BATCH]
