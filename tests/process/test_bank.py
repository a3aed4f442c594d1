"""A bank whose processes die at every statement: the balances are exact (P15, and P7: what is done is no crash)."""

from __future__ import annotations

import json
import random
import re
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from django_dbqueue import Envelope
from django_dbqueue.models import Message
from tests.bank_app.boundaries import CUT, KILL, KILL_ALL
from tests.bank_app.models import Account, Transfer
from tests.process.conftest import wait_until, whole_lines

pytestmark = pytest.mark.django_db(transaction=True)

CUTS = 60
ACCOUNTS = 50
OPENING = 1_000
SEED = 20_150_003

Deaths = dict[int, list[tuple[str, str]]]
"""What is to happen to a transfer, by its number: what, and at which point, in this order."""


class Bank:
    """Accounts, transfers to come, and what must stand there when each was booked exactly once."""

    def __init__(self, directory: Path, dice: random.Random) -> None:
        self.directory = directory
        self._dice = dice
        directory.mkdir()
        self.accounts = [account.pk for account in self._open()]
        self.expected = dict.fromkeys(self.accounts, OPENING)
        self.sent = 0

    def _open(self) -> list[Account]:
        for _ in range(ACCOUNTS):
            Account.objects.create(balance=OPENING)
        return list(Account.objects.all())

    def send(self, count: int, *, lease: float | None = None) -> None:
        transfers = []
        for number in range(self.sent, self.sent + count):
            source, target = self._dice.sample(self.accounts, 2)
            amount = self._dice.randint(1, 500)
            self.expected[source] -= amount
            self.expected[target] += amount
            transfers.append({"number": number, "source": source, "target": target, "amount": amount})
        self.sent += count
        self.enqueue(transfers, lease)

    def enqueue(self, transfers: list[dict[str, int]], lease: float | None) -> None:
        Message.objects.enqueue_many([Envelope(each, lease=lease) for each in transfers], queue="bank")

    def plan(self, deaths: Deaths, *, watched: list[int]) -> None:
        (self.directory / "plan.json").write_text(json.dumps({"deaths": deaths, "watched": watched}))

    def log(self, name: str) -> list[str]:
        """The points in a log of the plan, in order."""
        file = self.directory / name
        return [json.loads(line)[1] for line in whole_lines(file)]

    def left(self) -> int:
        """What is not done yet: these consumers write no log, so that this says whether a worker moves."""
        return Message.objects.exclude(status="y").count()

    def assert_each_was_booked_once(self) -> None:
        assert self.left() == 0
        assert sorted(Transfer.objects.values_list("number", flat=True)) == list(range(self.sent))
        assert dict(Account.objects.values_list("pk", "balance")) == self.expected
        assert sum(self.expected.values()) == ACCOUNTS * OPENING


@pytest.fixture
def bank(transactional_db: None, worker_env: dict[str, str], tmp_path: Path) -> Bank:
    """A bank whose workers follow its plan."""
    worker_env["DBQUEUE_TEST_PLAN"] = str(tmp_path / "plan")
    return Bank(tmp_path / "plan", random.Random(SEED))


def points_of_a_transfer(bank: Bank, drain: Callable[..., Any]) -> list[str]:
    """Book one transfer, and return the points that it passed."""
    bank.plan({}, watched=[bank.sent])
    bank.send(1)
    drain("--queues", "bank")
    points = bank.log("passed.log")
    assert len(points) == len(set(points)), points
    return points


def deaths(what: str, points: list[str], count: int, numbers: range, dice: random.Random) -> Deaths:
    """Spread deaths over transfers, each point as often as any other; some transfers meet with two."""
    places = points * (count // len(points)) + dice.sample(points, count % len(points))
    dice.shuffle(places)
    commit = _commit_of(points)
    early = [place for place in places if points.index(place) < commit][: count // 10]
    for place in early:
        places.remove(place)
    chosen = dice.sample(numbers, len(places))
    plan = {number: [(what, place)] for number, place in zip(chosen, places, strict=True)}
    for number, place in zip(chosen, early, strict=False):
        plan[number].insert(0, (what, place))
    return plan


def children_killed(worker: Any) -> int:
    """As its supervisor saw it."""
    return len(re.findall(r"child \d+ ended by signal 9", worker.output))


def test_forty_kills_at_every_statement_leave_each_transfer_booked_exactly_once(
    bank: Bank, drain: Callable[..., Any], start_worker: Callable[..., Any]
) -> None:
    _kill_at_every_statement(bank, drain, start_worker, transfers=400, kills=40)


@pytest.mark.slow
def test_a_hundred_kills_at_every_statement_leave_each_transfer_booked_exactly_once(
    bank: Bank, drain: Callable[..., Any], start_worker: Callable[..., Any]
) -> None:
    _kill_at_every_statement(bank, drain, start_worker, transfers=2_000, kills=100)


def _kill_at_every_statement(
    bank: Bank, drain: Callable[..., Any], start_worker: Callable[..., Any], *, transfers: int, kills: int
) -> None:
    points = points_of_a_transfer(bank, drain)
    _assert_the_whole_way_is_covered(points)
    crowd = transfers - kills
    plan = deaths(KILL, points, kills, range(1, crowd), random.Random(SEED))
    bank.plan(plan, watched=[])
    bank.send(crowd - 1)
    workers = [start_worker("--queues", "bank", "--drain", *how) for how in (("--processes", "2"), ("--threads", "2"))]
    assert [worker.ended(bank.left) for worker in workers] == [0, 0], [worker.output for worker in workers]

    # Who was committed when a neighbour's death ended its process came past no late point: others die there instead
    planned = Counter(point for of_one in plan.values() for _, point in of_one)
    missed = list((planned - Counter(bank.log("hit.log"))).elements())
    assert len(missed) < kills / 4
    bank.plan({number: [(KILL, point)] for number, point in enumerate(missed, start=crowd)}, watched=[])
    bank.send(kills)
    workers.append(drain("--queues", "bank", "--batch", "1", moved=bank.left))

    bank.assert_each_was_booked_once()
    assert Message.objects.done("bank").count() == transfers
    assert Counter(bank.log("hit.log")) == planned
    assert planned.total() == kills
    assert set(planned) == set(points)
    assert sum(map(children_killed, workers)) == kills


@pytest.mark.slow
def test_when_whole_workers_die_at_every_statement_each_transfer_is_booked_exactly_once(
    bank: Bank, drain: Callable[..., Any], start_worker: Callable[..., Any]
) -> None:
    """Nobody is left who could tell what they held: the next worker takes it over when its lease is over."""
    points = points_of_a_transfer(bank, drain)
    plan = deaths(KILL_ALL, points, len(points), range(1, 200), random.Random(SEED))
    bank.plan(plan, watched=[])
    bank.send(199, lease=2)
    ends: list[int] = []
    while Message.objects.exclude(status="y").exists():
        worker = start_worker("--queues", "bank")
        wait_until(
            lambda worker=worker: worker.process.poll() is not None or not Message.objects.exclude(status="y").exists(),
            "the worker's death, or the end of its work",
        )
        worker.signal(signal.SIGTERM)
        ends.append(worker.ended())
    bank.assert_each_was_booked_once()
    assert ends.count(-signal.SIGKILL) == len(bank.log("hit.log"))
    assert set(bank.log("hit.log")) >= set(points[: _commit_of(points) + 1])


@pytest.mark.slow
def test_where_an_ack_removes_the_message_each_transfer_is_booked_exactly_once_too(
    bank: Bank, drain: Callable[..., Any], worker_env: dict[str, str]
) -> None:
    worker_env["DBQUEUE_TEST_SETTINGS"] = json.dumps({"QUEUES": {"bank": {"on_ack": "delete"}}})
    points = points_of_a_transfer(bank, drain)
    assert "DELETE" in points[_commit_of(points) - 1]
    plan = deaths(KILL, points, len(points), range(1, 200), random.Random(SEED))
    bank.plan(plan, watched=[])
    bank.send(199)
    worker = drain("--queues", "bank", "--batch", "1")
    bank.assert_each_was_booked_once()
    assert set(bank.log("hit.log")) == set(points)
    assert children_killed(worker) == len(points)
    assert not Message.objects.exists()


def test_a_death_after_the_commit_is_no_crash_of_the_message(bank: Bank, drain: Callable[..., Any]) -> None:
    points = points_of_a_transfer(bank, drain)
    late = points[_commit_of(points) + 1 :]
    assert "before letting go" in late
    plan: Deaths = {number: [(KILL, point)] for number, point in enumerate(late, start=1)}
    bank.plan(plan, watched=[])
    bank.send(len(late))
    worker = drain("--queues", "bank", "--batch", "1")
    bank.assert_each_was_booked_once()
    assert bank.log("hit.log") == late
    assert children_killed(worker) == len(late)
    assert "rescued" not in worker.output
    assert "done, 0 failed and retried, 0 dead, 0 released" in worker.output
    assert Message.objects.done("bank").filter(read_count=1, crashes=0).count() == bank.sent


def _commit_of(points: list[str]) -> int:
    """Where the point right before COMMIT stands."""
    return next(number for number, point in enumerate(points) if point.endswith("COMMIT"))


def _assert_the_whole_way_is_covered(points: list[str]) -> None:
    """From BEGIN to COMMIT, with the ack as the last statement between, and on until the message is let go."""
    words = " | ".join(points)
    for part in ("INSERT INTO", "UPDATE django_dbqueue_message", "COMMIT", "after letting go"):
        assert part in words, words
    first, *_ = points
    assert "autocommit False" in first or "BEGIN" in first
    assert "UPDATE django_dbqueue_message" in points[_commit_of(points) - 1]
    assert len(points) >= 18


if settings.TEST_DATABASE != "sqlite":  # which has no sessions

    @pytest.mark.slow
    def test_sessions_that_are_killed_at_every_statement_leave_each_transfer_booked_exactly_once(
        bank: Bank, drain: Callable[..., Any]
    ) -> None:
        points = points_of_a_transfer(bank, drain)
        plan = deaths(CUT, points[:-2], CUTS, range(1, 400), random.Random(SEED))
        bank.plan(plan, watched=[])
        bank.send(399)
        worker = drain("--queues", "bank", "--threads", "2", moved=bank.left)
        bank.assert_each_was_booked_once()
        assert set(bank.log("hit.log")) == set(points[:-2])
        assert "ended by signal" not in worker.output
        assert "its claim was lost" not in worker.output, "what was committed counts as done, whatever the reply"
        assert "worker ended: 399 done" in worker.output
        assert Message.objects.filter(crashes__gt=0).count() == 0
