"""Of a supervisor's children that rest, one has the watch. By a simulated clock."""

from __future__ import annotations

from typing import Any

import pytest

from django_dbqueue.worker import sleepers
from django_dbqueue.worker.sleepers import ALIVE, SIBLINGS, STUCK, Seat, Sleepers
from tests.worker.clock import Clock


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock(monkeypatch)
    monkeypatch.setattr(sleepers, "time", clock)
    return clock


def resting(number: int) -> tuple[Sleepers, list[Seat]]:
    shared = Sleepers(number)
    seats = [shared.seat(index) for index in range(number)]
    for seat in seats:
        seat.rest()
    return shared, seats


def called(seats: list[Seat]) -> list[bool]:
    return [seat.is_called() for seat in seats]


def test_one_has_the_watch_and_keeps_it_while_it_renews_it(clock: Clock) -> None:
    _, [first, second] = resting(2)
    assert first.take_watch()
    for _ in range(10):
        clock.now += 0.9 * STUCK
        assert first.take_watch()
        assert not second.take_watch()
    assert (first.asks, second.asks) == (True, False)


def test_a_watch_that_is_not_renewed_passes_on_and_whoever_lost_it_does_not_ask_any_more(clock: Clock) -> None:
    _, [frozen, second] = resting(2)
    frozen.take_watch()
    clock.now += STUCK + 0.1
    assert not second.is_watched
    assert second.take_watch()
    assert not frozen.take_watch()


@pytest.mark.parametrize("ends", [True, False])
def test_whoever_leaves_the_watch_wakes_one_sleeper_who_may_take_it(clock: Clock, *, ends: bool) -> None:
    shared, [first, second, third] = resting(3)
    first.take_watch()
    if ends:
        shared.end(first.worker_id)
    else:
        first.rise()
        first.leave_watch()
    assert called([second, third]) == [True, False]
    assert second.take_watch()


def test_whoever_has_ended_is_not_woken_any_more(clock: Clock) -> None:
    shared, [first, second, third] = resting(3)
    first.take_watch()
    shared.end(second.worker_id)
    first.wake_all()
    assert called([third, third]) == [True, False]


def test_what_a_server_refused_one_child_all_others_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    _, [first, second] = resting(2)
    of_first, of_second = {"default": 1_234.567_890_1}, dict[str, float]()
    for _ in range(2):
        for seat, refused in ((first, of_first), (second, of_second)):
            monkeypatch.setattr(sleepers, "REFUSED_AT", refused)
            seat.share_refusal("default")
    assert of_second["default"] == pytest.approx(of_first["default"], abs=1e-6)
    assert of_first["default"] == 1_234.567_890_1, "its own session, opened since, is none of those"


def test_whoever_does_not_ask_wakes_none(clock: Clock) -> None:
    shared, [first, second] = resting(2)
    first.take_watch()
    second.rise()
    for _ in range(3):
        second.leave_watch()
    shared.end(second.worker_id)
    assert first.is_watched
    assert not first.is_called()


def test_where_none_sleeps_a_ring_leaves_nothing_behind(clock: Clock) -> None:
    _, [alone] = resting(1)
    alone.take_watch()
    alone.rise()
    alone.leave_watch()
    alone.rest()
    assert not alone.is_called()


def test_all_are_woken_but_the_one_who_wakes_them(clock: Clock) -> None:
    _, seats = resting(4)
    seats[0].take_watch()
    seats[0].wake_all()
    assert called([*seats[1:], seats[1]]) == [True, True, True, False]


def test_the_asker_vouches_for_those_that_rest_and_whose_heartbeat_ran_lately(clock: Clock) -> None:
    _, [asker, frozen, quick, sleeper] = resting(4)
    asker.take_watch()
    frozen.note_beat(is_slow=True)
    clock.now += ALIVE + 0.1
    quick.note_beat(is_slow=False)
    for seat in (asker, sleeper):
        seat.note_beat(is_slow=True)
    assert asker.vouched() == [asker.worker_id, sleeper.worker_id]
    assert sleeper.vouched() == []
    asker.note_vouched([sleeper.worker_id], clock.now, 20)
    assert (sleeper.vouched_at, frozen.vouched_at) == (clock.now, 0.0)


def test_none_vouches_for_one_that_has_risen(clock: Clock) -> None:
    _, [asker, sleeper] = resting(2)
    asker.take_watch()
    for seat in (asker, sleeper):
        seat.note_beat(is_slow=True)
    asker.note_vouched(asker.vouched(), clock.now, 20)
    sleeper.rise()
    sleeper.note_beat(is_slow=True)
    assert asker.vouched() == [asker.worker_id]
    assert sleeper.vouched_at == 0.0


def test_a_successor_in_a_place_does_not_rest_because_its_predecessor_did(clock: Clock) -> None:
    shared, [ended] = resting(1)
    ended.note_beat(is_slow=True)
    successor = shared.seat(0)
    assert not successor.rests
    ended.rise()
    successor.rest()
    ended.rise()
    assert successor.rests


def test_the_ids_of_children_show_whose_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Any] = [1, 2**63 - 1]
    monkeypatch.setattr(sleepers, "new_token", lambda: drawn.pop())
    shared = Sleepers(1)
    ids = [shared.seat(0).worker_id for _ in range(SIBLINGS + 1)]
    assert len(set(ids)) == len(ids)
    assert len({each // SIBLINGS for each in ids}) == 2
    assert min(ids) > 0
    assert max(ids) < 2**63
