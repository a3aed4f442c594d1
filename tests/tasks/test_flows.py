"""Tasks in flows: a task's signature is put into one, its results are handed on, and it spawns (P22)."""

from __future__ import annotations

from typing import Any

import pytest

from django_dbqueue import flow
from django_dbqueue.models import Flow, Message, Result
from django_dbqueue.testing import run_consumers

pytestmark = pytest.mark.django_db(transaction=True)


def test_tasks_hand_their_results_on_and_spawn_children(jobs: Any) -> None:
    with flow("tasks") as f:
        f.chord([jobs.double_and_spawn.signature(number) for number in (1, 5)], jobs.sum_of_flow.signature())
    run_consumers("default")
    last = Message.objects.latest("pk")
    assert Flow.objects.get(pk=f.id).progress().all_finished
    total = Message.objects.get(headers_text__contains="sum_of_flow")
    assert Result.objects.get(message_id=total.pk).value == 2 + 10 + 20
    assert last.payload == {"args": [10], "kwargs": {}}
    assert jobs.sum_of_flow.get_result(str(total.pk)).return_value == 32


def test_arguments_that_can_not_be_sent_are_refused_and_nothing_is_written(jobs: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        jobs.double_and_spawn.signature(object())
    assert not Message.objects.exists()
