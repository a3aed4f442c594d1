"""Where a claimer begins: behind what it claimed last, or, as often as that is cheap enough, at the beginning."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.db import connection

from django_dbqueue.claims import claim as claims
from django_dbqueue.lifecycle.claimer import Claimer
from django_dbqueue.models import Message
from django_dbqueue.sessions.django_session import DjangoSession
from tests.factories import let_end, let_pass

pytestmark = pytest.mark.django_db
SHARE = claims.RESCAN_SHARE


class Clock:
    """Stands still, but for the seconds that each reading of it takes."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.step = 0.0

    def monotonic(self) -> float:
        self.now += self.step
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(claims, "time", clock)
    return clock


@pytest.fixture
def claimer() -> Claimer:
    return Claimer(Message, DjangoSession("default"), "default")


def claim(claimer: Claimer, limit: int = 10) -> list[object]:
    return [message.payload for message in claimer.claim(limit, lease=60.0, max_reads=5)]


def release_one(claimer: Claimer, clock: Clock) -> None:
    """Claim two, in a rescan that takes a second and comes back short, and release the first."""
    clock.step = 0.5
    Message.objects.enqueue_many(["first", "second"])
    first, _second = claimer.claim(10, lease=60.0, max_reads=5)
    clock.step = 0.0
    first.release()


def assert_all_is_seen_after_a_short_claim(claimer: Claimer) -> None:
    Message.objects.enqueue_many(["first", "second"])
    first, _second = claimer.claim(10, lease=60.0, max_reads=5)
    first.release()
    assert claim(claimer) == ["first"]
    assert claimer.low_water.saw_all


@pytest.mark.usefixtures("clock")
def test_after_a_short_claim_the_next_one_sees_all_where_rescans_are_cheap(claimer: Claimer) -> None:
    assert_all_is_seen_after_a_short_claim(claimer)


def test_a_rescan_that_was_dear_is_not_repeated_at_once(claimer: Claimer, clock: Clock) -> None:
    release_one(claimer, clock)
    # SQLite takes no mark: nothing lies before one but what is ready
    assert claim(claimer) == (["first"] if connection.vendor == "sqlite" else [])
    assert not claimer.low_water.saw_all


@pytest.mark.parametrize(("rows", "is_dear"), [(2, True), (40, False)])
def test_a_rescan_is_not_dear_for_the_rows_that_it_claims(
    claimer: Claimer, clock: Clock, rows: int, is_dear: bool
) -> None:
    Message.objects.enqueue_many(range(rows))
    clock.step = 0.6 * claims.EXPENSIVE  # twice in a rescan
    assert len(claim(claimer, 50)) == rows
    clock.step = 0.0
    claim(claimer)
    assert claimer.low_water.saw_all != is_dear


def test_a_rescan_that_was_very_dear_is_not_put_off_for_long(claimer: Claimer, clock: Clock) -> None:
    clock.step = 60.0
    Message.objects.enqueue("first")
    assert claim(claimer) == ["first"]
    clock.step = 0.0
    clock.now += claims.PUT_OFF_MOST
    claim(claimer)
    assert claimer.low_water.saw_all


def test_a_rescan_is_not_dear_because_its_transaction_had_to_wait(
    claimer: Claimer, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = DjangoSession.transaction

    @contextmanager
    def late(session: DjangoSession, *, saves_a_journey: bool = False) -> Iterator[None]:
        clock.now += 20.0  # SQLite's write lock is another's
        with real(session, saves_a_journey=saves_a_journey):
            yield
            clock.now += 20.0  # and a disk is slow

    monkeypatch.setattr(DjangoSession, "transaction", late)
    assert_all_is_seen_after_a_short_claim(claimer)


def test_what_lies_before_the_mark_comes_with_the_next_rescan(claimer: Claimer, clock: Clock) -> None:
    release_one(claimer, clock)
    clock.now += SHARE + 1
    assert claim(claimer) == ["first"]
    assert claimer.low_water.saw_all


def test_what_comes_in_between_is_found_at_once(claimer: Claimer, clock: Clock) -> None:
    release_one(claimer, clock)
    Message.objects.enqueue("third")
    assert "third" in claim(claimer)
    assert not claimer.low_water.saw_all


def test_a_priority_that_has_run_empty_is_still_read_after_a_dear_rescan_that_found_nothing(
    claimer: Claimer, clock: Clock
) -> None:
    clock.step = 0.5
    Message.objects.enqueue("first", priority=5)
    assert claim(claimer) == ["first"]
    clock.now += SHARE + 1
    assert claim(claimer) == []
    assert claimer.low_water.saw_all
    clock.step = 0.0
    Message.objects.enqueue("second", priority=5)
    assert claim(claimer) == ["second"]
    assert not claimer.low_water.saw_all


def test_a_priority_that_was_never_seen_comes_with_the_next_rescan(claimer: Claimer, clock: Clock) -> None:
    release_one(claimer, clock)
    Message.objects.enqueue("urgent", priority=9)
    assert "urgent" not in claim(claimer)
    clock.now += SHARE + 1
    assert "urgent" in claim(claimer)


def test_who_knows_no_priority_rescans_each_time(claimer: Claimer, clock: Clock) -> None:
    clock.step = 0.5
    assert claim(claimer) == []
    Message.objects.enqueue("first")
    assert claim(claimer) == ["first"]
    assert claimer.low_water.saw_all


def test_a_mark_never_goes_back_when_a_rescan_saw_all(claimer: Claimer, clock: Clock) -> None:
    release_one(claimer, clock)
    clock.now += SHARE + 1
    clock.step = 0.5
    furthest = dict(claimer.low_water.marks)
    assert claim(claimer) == ["first"]
    assert claimer.low_water.marks == furthest


def test_no_more_marks_are_kept_than_that(claimer: Claimer, clock: Clock) -> None:
    clock.step = 0.5
    for priority in range(claims.MARKS_KEPT + 3):
        Message.objects.enqueue(priority, priority=priority)
        clock.now += SHARE + 1
        assert claim(claimer) == [priority]
    clock.now += SHARE + 1
    assert claim(claimer) == []
    assert sorted(claimer.low_water.marks) == list(range(3, claims.MARKS_KEPT + 3))


def test_a_claim_that_rescues_sees_what_it_has_rescued_however_dear_its_rescan_was(clock: Clock) -> None:
    Message.objects.enqueue_many(["first", "second"])
    let_end(*Message.objects.claim(1))
    clock.step = 0.5
    assert [message.payload for message in Message.objects.claim(2)] == ["second", "first"]


def test_while_claims_come_back_full_they_rescan_once_a_second(claimer: Claimer, clock: Clock) -> None:
    Message.objects.enqueue_many(range(40))
    first, *_others = claimer.claim(10, lease=60.0, max_reads=5)
    first.release()
    let_pass(first, 60)
    Message.objects.enqueue("urgent", priority=9)
    clock.now += 0.9 * claims.RESCAN_SECONDS
    assert len(claim(claimer)) == 10
    assert not claimer.low_water.saw_all
    clock.now += 0.1 * claims.RESCAN_SECONDS
    # SQLite takes no mark: what was released came with the claim before
    assert claim(claimer, 2) == ["urgent", 19 if connection.vendor == "sqlite" else 0]
