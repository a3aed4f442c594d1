"""The bank, with transfers in three steps and a sleep: each step's rows are there once, whatever died where (P21)."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from django_dbqueue import Envelope
from django_dbqueue.models import Message, Step
from tests.bank_app.boundaries import CUT, KILL
from tests.process.test_bank import SEED, Bank, Deaths, children_killed

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]

QUEUE = "bank-in-steps"
ALL = {"withdraw", "clear", "receipt", "deposit"}


class BankInSteps(Bank):
    def enqueue(self, transfers: list[dict[str, int]], lease: float | None) -> None:
        Message.objects.enqueue_many([Envelope(each, lease=lease) for each in transfers], queue=QUEUE)

    def plan(self, deaths: Deaths, *, watched: list[int]) -> None:
        plan = {"deaths": deaths, "watched": watched, "in_steps": True}
        (self.directory / "plan.json").write_text(json.dumps(plan))

    def assert_each_has_all_steps(self) -> None:
        found: dict[int, set[str]] = {}
        for message_id, name in Step.objects.values_list("message_id", "name"):
            found.setdefault(message_id, set()).add(name)
        assert found == {message.pk: ALL for message in Message.objects.all()}


@pytest.fixture
def bank(transactional_db: None, worker_env: dict[str, str], tmp_path: Path) -> BankInSteps:
    """A bank whose workers follow its plan."""
    worker_env["DBQUEUE_TEST_PLAN"] = str(tmp_path / "plan")
    return BankInSteps(tmp_path / "plan", random.Random(SEED))


def points_of_a_transfer(bank: Bank, drain: Callable[..., Any]) -> list[str]:
    """Book one transfer, and return the points that it passed, in two deliveries."""
    bank.plan({}, watched=[bank.sent])
    bank.send(1)
    drain("--queues", QUEUE)
    points = [point for point in bank.log("passed.log") if "letting go" not in point]
    assert len(points) == len(set(points)), points
    words = " | ".join(points)
    for part in (
        "new 1.2",  # the first block: after BEGIN, the row under lock
        "INSERT INTO django_dbqueue_step",
        "COMMIT",
        "UPDATE django_dbqueue_message",
        "slept",
    ):
        assert part in words, words
    assert sum(point.endswith("COMMIT") for point in points) == 6, "before and after each: two blocks, and the sleep"
    return points


def one_each(what: str, points: list[str]) -> Deaths:
    """Spread the deaths, so that each child has done something before it dies."""
    return {number: [(what, point)] for number, point in zip(range(3, 10_000, 3), points, strict=False)}


def until_all_are_done(bank: BankInSteps, drain: Callable[..., Any], *arguments: str) -> list[Any]:
    """Drain until nothing sleeps either."""
    workers = [drain("--queues", QUEUE, *arguments, moved=bank.left)]
    while bank.left():
        workers.append(drain("--queues", QUEUE, *arguments, moved=bank.left))
    return workers


def test_processes_killed_at_every_statement_leave_the_rows_of_each_step_once(
    bank: BankInSteps, drain: Callable[..., Any]
) -> None:
    points = points_of_a_transfer(bank, drain)
    bank.plan(one_each(KILL, points), watched=[])
    bank.send(3 * len(points) + 20)
    workers = until_all_are_done(bank, drain, "--batch", "1")
    bank.assert_each_was_booked_once()
    bank.assert_each_has_all_steps()
    assert Counter(bank.log("hit.log")) == Counter(points)
    assert sum(map(children_killed, workers)) == len(points)


def test_workers_with_two_threads_and_processes_killed_twice_do_as_well(
    bank: BankInSteps, drain: Callable[..., Any]
) -> None:
    points = points_of_a_transfer(bank, drain)
    dice = random.Random(SEED)
    early = [point for point in points if point.split(" ", 1)[1].startswith("new")]
    plan = {number: [(KILL, dice.choice(early)), *then] for number, then in one_each(KILL, points).items()}
    bank.plan(plan, watched=[])
    bank.send(3 * len(points) + 20)
    until_all_are_done(bank, drain, "--threads", "2")
    bank.assert_each_was_booked_once()
    bank.assert_each_has_all_steps()
    assert len(bank.log("hit.log")) > len(points) / 2


def test_a_transfer_that_slept_was_charged_once_and_no_crash(bank: BankInSteps, drain: Callable[..., Any]) -> None:
    bank.plan({}, watched=[])
    bank.send(20)
    worker = drain("--queues", QUEUE)
    bank.assert_each_was_booked_once()
    assert Message.objects.filter(read_count=1, crashes=0).count() == 20, worker.output
    assert "worker ended: 20 done, 0 failed and retried, 0 dead, 0 released" in worker.output


if settings.TEST_DATABASE != "sqlite":  # which has no sessions

    def test_sessions_killed_at_every_statement_leave_the_rows_of_each_step_once(
        bank: BankInSteps, drain: Callable[..., Any]
    ) -> None:
        points = points_of_a_transfer(bank, drain)
        bank.plan(one_each(CUT, points), watched=[])
        bank.send(3 * len(points) + 20)
        until_all_are_done(bank, drain, "--threads", "2")
        bank.assert_each_was_booked_once()
        bank.assert_each_has_all_steps()
        assert set(bank.log("hit.log")) == set(points)
