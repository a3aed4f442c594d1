"""An asker asks for all, in turn with those of other supervisors. By a simulated clock."""

from __future__ import annotations

import math
from datetime import timedelta
from itertools import pairwise

import pytest

from django_dbqueue.liveness.late_workers import BEAT_HOLDING, BEAT_RESTING
from django_dbqueue.models import Message, Queue, Worker
from django_dbqueue.models.fields import DbNow
from django_dbqueue.worker import rest, sleepers
from django_dbqueue.worker.idle_poll import Fleet
from django_dbqueue.worker.maintenance import CHECK_EVERY, KEEP_EVERY
from django_dbqueue.worker.rest import AT_MOST, EVERY, STIRRED
from django_dbqueue.worker.sleepers import SIBLINGS, Seat, Sleepers
from tests.factories import QUEUE, held, stuck, waiting
from tests.worker.clock import Turns, statements
from tests.worker.resting import RestingTurns, rest_of

pytestmark = pytest.mark.django_db(transaction=True)
SOON = EVERY + 0.01
FIVE_MINUTES = 300.0


@pytest.fixture
def resting(idle: Turns, monkeypatch: pytest.MonkeyPatch) -> RestingTurns:
    return RestingTurns(idle, monkeypatch)


def others(number: int, *, queues: str = QUEUE, every: int = BEAT_RESTING, base: int = 2**40) -> None:
    """Rows of children of so many other supervisors, two of each."""
    late_at = DbNow() + timedelta(seconds=3_600)
    fields = {"host": "h", "pid": 1, "threads": 1, "queues": queues, "beat_every": every, "late_at": late_at}
    ids = [base + SIBLINGS * each + child for each in range(number) for child in (0, 1)]
    Worker.objects.bulk_create(Worker(id=each, **fields) for each in ids)


def polls(resting: RestingTurns, seconds: float) -> list[float]:
    """When it asked, in so many seconds."""
    turns, moments = resting.turns, list[float]()

    def note() -> bool:
        if turns.maintenance._check_at > turns.clock.now and turns.maintenance._check_at not in moments:
            moments.append(turns.maintenance._check_at)
        return False

    turns.go_on(seconds, note)
    return moments


@pytest.fixture(autouse=True)
def one_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of workers whose session is not proven count with one another, as on SQLite."""
    monkeypatch.setattr("django_dbqueue.liveness.dead_workers.Guardian.server", lambda _: "")


def test_what_comes_is_claimed_half_a_second_later_at_most_and_another_child_asks_then(resting: RestingTurns) -> None:
    for _ in range(5):
        resting.turns.go_on(12.345)
        assert resting.seat.asks
        waiting()
        assert resting.turns.go_on(60, lambda: len(resting.turns.holding)) <= SOON
        assert not resting.seat.asks
        [delivery] = resting.turns.holding.take_back()
        resting.turns.holding.drop(delivery)
        delivery.message.ack()


def test_an_expired_lease_is_rescued_as_soon(resting: RestingTurns) -> None:
    message = stuck(max_reads=1)
    assert resting.turns.go_on(60, lambda: not Message.objects.stuck().exists()) <= SOON
    assert Message.objects.dead().filter(pk=message.pk).exists()


def test_what_is_done_for_all_at_every_poll_keeps_nothing_from_being_claimed(resting: RestingTurns) -> None:
    checked, check = list[float](), resting.turns.maintenance._check

    def check_and_find_somebody_late(now: float) -> float:
        resting.turns.maintenance._to_do.append(lambda: checked.append(now))
        return check(now)

    resting.turns.maintenance._check = check_and_find_somebody_late  # type: ignore[method-assign]
    resting.turns.go_on(10 * EVERY)
    waiting()
    assert resting.turns.go_on(60, lambda: len(resting.turns.holding)) <= SOON
    assert len(checked) > 10


def test_eight_supervisors_send_three_statements_a_second_in_all(resting: RestingTurns) -> None:
    others(7)
    resting.turns.go_on(120)
    with statements() as found:
        resting.turns.go_on(480)
    assert len(found) <= 3 / 8 * 480
    assert not [sql for sql in found if any(verb in sql for verb in ("UPDATE", "INSERT INTO", "DELETE FROM"))]


def test_a_child_that_is_alone_sends_as_few_as_ever(idle: Turns, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = RestingTurns(idle, monkeypatch, children=1)
    with statements() as found:
        alone.turns.go_on(600)
    assert len(found) <= 1.5 * 600


@pytest.mark.parametrize("number", [0, 1, 7])
def test_the_more_there_are_the_less_often_each_asks(resting: RestingTurns, number: int) -> None:
    others(number)
    resting.turns.go_on(2 * AT_MOST * EVERY)
    found = polls(resting, 60)
    gaps = [after - before for before, after in pairwise(found)]
    assert gaps
    assert all(gap == pytest.approx(EVERY * (1 + number), abs=0.01) for gap in gaps)
    assert resting.seat.spread == 1 + number


def test_however_many_there_are_each_asks_within_seconds(resting: RestingTurns) -> None:
    others(100)
    resting.turns.go_on(2 * AT_MOST * EVERY)
    assert len(polls(resting, 60)) >= 60 / AT_MOST * EVERY - 1


def test_they_ask_in_turn(turns: Turns) -> None:
    moments = []
    for place in range(4):
        turns.maintenance.idle_poll.fleet = Fleet(before=place, after=3 - place, works=False)
        wait = rest_of(turns, Sleepers(1).seat(0))._until_turn()
        moments.append((rest.time.time() + wait) % (4 * EVERY))
    gaps = sorted((after - before) % (4 * EVERY) for before, after in pairwise(moments))
    assert gaps == pytest.approx([EVERY] * 3, abs=0.05)


@pytest.mark.parametrize("strangers", [{"queues": "others"}, {"every": 10}])
def test_those_of_other_queues_and_those_that_do_not_rest_do_not_count(
    resting: RestingTurns, strangers: dict[str, object]
) -> None:
    others(7, **strangers)  # type: ignore[arg-type]
    resting.turns.go_on(2 * AT_MOST * EVERY)
    assert resting.seat.spread == 1


def test_while_anybody_works_each_asks_as_often_as_ever(resting: RestingTurns) -> None:
    others(100)
    others(1, every=BEAT_HOLDING, base=2**50)
    resting.turns.go_on(2 * AT_MOST * EVERY)
    assert len(polls(resting, 60)) >= 60 / CHECK_EVERY - 1


def test_whoever_wakes_asks_before_it_claims_and_lets_what_is_done_for_all_wait(
    resting: RestingTurns, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns, (asker, sleeper) = resting.turns, _seats_of_two()
    asker.rest()
    asker.take_watch()
    own = rest_of(turns, sleeper)
    own.begin(is_calm=True)
    assert own.sleeps
    assert sleeper.rests
    turns.clock.now += 3_600
    asker.take_watch()
    own.sleep(0.0)
    assert own.sleeps, "nobody called"
    asker.wake_all()
    own.sleep(0.0)
    assert not own.sleeps
    assert not sleeper.asks
    done: list[str] = []
    for what in ("_tidy", "_keepers", "_counter"):
        monkeypatch.setattr(turns.maintenance, what, lambda: done.append("too early"))
    assert turns.maintenance.until_next(turns.clock.now) == 0.0
    turns.maintenance.run(turns.clock.now)
    assert done == []


def test_whoever_finds_no_asker_asks(resting: RestingTurns) -> None:
    turns, (asker, sleeper) = resting.turns, _seats_of_two()
    asker.rest()
    asker.take_watch()
    own = rest_of(turns, sleeper)
    own.begin(is_calm=True)
    turns.clock.now += sleepers.STUCK + 0.1
    own.sleep(0.0)
    assert sleeper.asks


@pytest.mark.parametrize(
    ("children", "number", "interval", "gap"),
    [(1, 0, None, CHECK_EVERY), (2, 0, None, EVERY), (1, 1, None, 2 * EVERY), (1, 0, 0.5, 0.5), (1, 0, 5.0, 5.0)],
)
def test_a_child_that_is_alone_in_the_world_asks_as_often_as_ever_or_as_the_operator_wants(
    turns: Turns, children: int, number: int, interval: float | None, gap: float
) -> None:
    turns.maintenance.idle_poll.fleet = Fleet(before=0, after=number, works=False)
    own = rest_of(turns, Sleepers(children).seat(0), idle_interval=interval)
    waits = [own._until_turn() for _ in range(20)]
    assert all(gap / 4 <= wait <= 5 * gap / 4 + 0.01 for wait in waits)
    moments = [(rest.time.time() + wait) % gap for wait in waits]
    assert min(moments) == pytest.approx(max(moments), abs=0.05)


@pytest.fixture
def for_long(idle: Turns, monkeypatch: pytest.MonkeyPatch) -> RestingTurns:
    """An asker that is to ask every five minutes, and has had nothing to do for a while."""
    resting = RestingTurns(idle, monkeypatch, idle_interval=FIVE_MINUTES)
    idle.go_on(2 * FIVE_MINUTES)
    return resting


def test_an_asker_that_is_to_ask_seldom_does_all_that_is_done_for_all_as_seldom(for_long: RestingTurns) -> None:
    hours = 4
    with statements() as found:
        for_long.turns.go_on(hours * 3_600)
    assert len(found) <= 33 * hours
    assert for_long.seat.beat_every == 1.5 * FIVE_MINUTES


@pytest.mark.parametrize("what", ["delayed", "held", "paused"])
def test_it_asks_when_something_is_due(for_long: RestingTurns, what: str) -> None:
    {
        "delayed": lambda: waiting(delay=60, priority=3),
        "held": lambda: held(lease=60, priority=-3),
        "paused": lambda: (waiting(), Queue.objects.pause(QUEUE, for_=60)),
    }[what]()
    turns = for_long.turns
    turns.go_on(2 * FIVE_MINUTES, lambda: turns.maintenance.idle_poll.next_due < math.inf)
    turns.go_on(STIRRED)  # it was a priority that it had never met
    assert turns.maintenance.idle_poll.next_due == pytest.approx(60, abs=30)
    assert turns.maintenance.until_next(turns.clock.now) <= turns.maintenance.idle_poll.next_due
    assert not len(turns.holding)


def test_after_a_notice_it_asks_at_once_and_then_often_for_a_while(for_long: RestingTurns) -> None:
    turns = for_long.turns
    turns.go_on(FIVE_MINUTES / 2)
    for_long.rest.stir()
    assert turns.maintenance.until_next(turns.clock.now) == 0.0
    assert len(polls(for_long, 0.9 * STIRRED)) >= 0.8 * STIRRED / EVERY
    turns.go_on(STIRRED)
    assert len(polls(for_long, 0.9 * FIVE_MINUTES)) <= 1


def test_those_that_ask_seldom_ask_at_the_same_moment_and_their_rows_promise_no_less_for_being_many(
    for_long: RestingTurns,
) -> None:
    others(7)
    for_long.turns.go_on(FIVE_MINUTES + 60)
    found = polls(for_long, 10 * FIVE_MINUTES)
    assert [after - before for before, after in pairwise(found)] == pytest.approx([FIVE_MINUTES] * (len(found) - 1))
    assert for_long.seat.beat_every == 1.5 * FIVE_MINUTES


def test_its_own_row_that_promises_quick_beats_is_no_work_of_others(for_long: RestingTurns) -> None:
    others(1, every=BEAT_HOLDING, base=for_long.seat.worker_id)  # and of a sibling, which is gone
    Worker.objects.exclude(pk=for_long.seat.worker_id).delete()
    assert len(polls(for_long, 2 * FIVE_MINUTES)) <= 3


def test_while_somebody_works_it_asks_often(for_long: RestingTurns) -> None:
    others(1, every=BEAT_HOLDING)
    for_long.turns.go_on(2 * FIVE_MINUTES)
    assert len(polls(for_long, 60)) >= 60 / CHECK_EVERY - 1


def test_an_asker_that_is_to_ask_seldom_counts_what_ended_before_an_alert_takes_it_for_a_fault(
    for_long: RestingTurns, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = for_long.turns
    counted: list[float] = []
    monkeypatch.setattr(turns.maintenance._counter, "turn", lambda: bool(counted.append(turns.clock.now)))
    turns.go_on(3_600)
    assert max(later - earlier for earlier, later in pairwise(counted)) < 2.1 * FIVE_MINUTES


def test_whoever_has_something_to_do_again_checks_as_often_as_ever(for_long: RestingTurns) -> None:
    turns = for_long.turns
    for_long.rest.begin(is_calm=False)
    assert turns.maintenance.until_next(turns.clock.now) <= CHECK_EVERY + 0.001
    assert turns.maintenance.idle_poll.asker is None
    turns.after_each = lambda: None
    with statements() as found:
        turns.go_on(KEEP_EVERY + 1)
    assert [each for each in found if "django_dbqueue_line" in each], "groups are looked after, too"


def _seats_of_two() -> list[Seat]:
    shared = Sleepers(2)
    return [shared.seat(0), shared.seat(1)]
