"""In which order a child's handlers begin (P10), and who runs beside whom (P8), as the consumers themselves saw it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from django_dbqueue import Envelope
from django_dbqueue.models import Message

pytestmark = pytest.mark.django_db(transaction=True)


def test_one_thread_begins_by_priority_then_due_time_then_id_also_within_a_batch(drain: Callable[..., Any]) -> None:
    """Handlers are quick, so that the later ones are fetched many at a time."""
    priorities = [0, 5, -3] * 40
    Message.objects.enqueue_many([Envelope({"do": "ok"}, priority=each) for each in priorities], queue="test")
    worker = drain("--threads", "1", "--batch", "50")
    begun = [note["id"] for note in worker.notes("begin")]
    assert begun == list(Message.objects.order_by("-priority", "due_at", "pk").values_list("pk", flat=True))


def test_who_was_there_at_a_crash_runs_alone_in_its_child(drain: Callable[..., Any]) -> None:
    Message.objects.enqueue_many([{"do": "sleep", "seconds": 0.2}] * 12, queue="test")
    suspects = list(Message.objects.order_by("pk").values_list("pk", flat=True))[1:4]
    Message.objects.filter(pk__in=suspects).update(crashes=1)
    worker = drain("--threads", "4", "--batch", "12")
    assert Message.objects.done("test").count() == 12
    steps = [(note["step"], note["id"]) for note in worker.notes() if note["step"] in ("begin", "end")]
    for suspect in suspects:
        began = steps.index(("begin", suspect))
        assert steps[began + 1] == ("end", suspect), "somebody began or ended beside it"
        before = [step for step, _ in steps[:began]]
        assert before.count("begin") == before.count("end"), "somebody had not ended when it began"
