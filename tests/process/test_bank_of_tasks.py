"""The bank, with tasks for its transfers: rows, result and ack are there together or not at all (P15, P17)."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.test import override_settings

from django_dbqueue.models import Message, Result
from tests.bank_app.boundaries import CUT, KILL
from tests.process.test_bank import SEED, Bank, children_killed, deaths

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]

TASKS = {"default": {"BACKEND": "django_dbqueue.tasks.DBQueueBackend", "QUEUES": ["bookings"]}}
TRANSFERS = 199


class BankOfTasks(Bank):
    def enqueue(self, transfers: list[dict[str, int]], _lease: float | None) -> None:
        with override_settings(TASKS=TASKS):
            from tests.bank_app.bookings import transfer

            transfer.get_backend().enqueue_many([(transfer, (), each) for each in transfers])

    def assert_each_has_its_result(self) -> None:
        numbers = {message.pk: message.payload["kwargs"]["number"] for message in Message.objects.all()}
        assert {row.pk: row.value for row in Result.objects.all()} == numbers


@pytest.fixture
def bank(transactional_db: None, worker_env: dict[str, str], tmp_path: Path) -> BankOfTasks:
    """A bank whose workers follow its plan."""
    worker_env |= {"DBQUEUE_TEST_PLAN": str(tmp_path / "plan"), "DBQUEUE_TEST_TASKS": json.dumps(TASKS)}
    return BankOfTasks(tmp_path / "plan", random.Random(SEED))


def points_of_a_transfer(bank: Bank, drain: Callable[..., Any]) -> list[str]:
    """Book one transfer, and return the points that it passed: the result is written before the ack."""
    bank.plan({}, watched=[0])
    bank.send(1)
    drain("--queues", "bookings")
    points = bank.log("passed.log")
    kept, acked, done = (
        next(number for number, point in enumerate(points) if words in point)
        for words in ("INSERT INTO django_dbqueue_result", "UPDATE django_dbqueue_message", "COMMIT")
    )
    assert kept < acked < done
    return points


def test_processes_killed_at_every_statement_leave_rows_result_and_ack_together(
    bank: BankOfTasks, drain: Callable[..., Any]
) -> None:
    points = points_of_a_transfer(bank, drain)
    plan = deaths(KILL, points, len(points), range(1, TRANSFERS), random.Random(SEED))
    bank.plan(plan, watched=[])
    bank.send(TRANSFERS - 1)
    worker = drain("--queues", "bookings", "--batch", "1", moved=bank.left)
    bank.assert_each_was_booked_once()
    bank.assert_each_has_its_result()
    assert set(bank.log("hit.log")) == set(points)
    assert children_killed(worker) == len(points)


if settings.TEST_DATABASE != "sqlite":  # which has no sessions

    def test_sessions_killed_at_every_statement_leave_rows_result_and_ack_together(
        bank: BankOfTasks, drain: Callable[..., Any]
    ) -> None:
        points = points_of_a_transfer(bank, drain)
        plan = deaths(CUT, points[:-2], len(points) - 2, range(1, TRANSFERS), random.Random(SEED))
        bank.plan(plan, watched=[])
        bank.send(TRANSFERS - 1)
        worker = drain("--queues", "bookings", "--threads", "2", moved=bank.left)
        bank.assert_each_was_booked_once()
        bank.assert_each_has_its_result()
        assert set(bank.log("hit.log")) == set(points[:-2])
        assert f"worker ended: {TRANSFERS - 1} done" in worker.output
