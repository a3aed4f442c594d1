"""Children that are recycled because their memory has grown, and limits that leave them none."""

from __future__ import annotations

import re
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from django_dbqueue.models import Message
from tests.process.conftest import WorkerProcess, wait_until

pytestmark = pytest.mark.django_db(transaction=True)

MEBIBYTE = 1024 * 1024
BEFORE_ITS_FIRST = re.compile(r"before its first message a child has ([0-9.]+) MiB")


def figure(worker: WorkerProcess) -> float:
    """What a refused worker says that a child has, in MiB."""
    [found] = set(BEFORE_ITS_FIRST.findall(worker.output))
    return float(found)


@pytest.fixture
def a_little_more(start_worker: Callable[..., Any]) -> Callable[[int], str]:
    """Tell how much an empty child has, and that many MiB more."""

    def more(mebibytes: int) -> str:
        worker = start_worker("--queues", "test", "--child-max-rss", "1M")
        assert worker.ended() == 2, worker.output
        return f"{round(figure(worker) / 0.9) + mebibytes}M"

    return more


def test_handlers_that_leak_have_their_child_replaced_and_nothing_is_charged_or_doubled(
    start_worker: Callable[..., Any], a_little_more: Callable[[int], str]
) -> None:
    Message.objects.enqueue_many([{"do": "leak", "bytes": 16 * MEBIBYTE, "seconds": 0.1}] * 40, queue="test")
    worker = start_worker("--drain", "--queues", "test", "--child-max-rss", a_little_more(64))
    assert worker.ended() == 0, worker.output
    assert Counter(Message.objects.values_list("status", "read_count", "crashes")) == {("y", 1, 0): 40}
    assert len(worker.notes("end")) == 40
    begun = Counter(note["pid"] for note in worker.notes("begin"))
    assert len(begun) >= 2, worker.output
    assert worker.output.count("retires by --child-max-rss") >= len(begun) - 1
    assert "a higher limit would let it work longer" in worker.output


def test_what_has_not_begun_is_released_at_once(
    start_worker: Callable[..., Any], a_little_more: Callable[[int], str], tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    leak = {"do": "leak", "bytes": 100 * MEBIBYTE, "seconds": 0}
    slow = Message.objects.enqueue(
        {"do": "all of", "deeds": [leak, {"do": "until", "file": str(gate)}]}, queue="test", priority=1
    )
    behind = Message.objects.enqueue({"do": "ok"}, queue="test")
    worker = start_worker("--queues", "test", "--child-max-rss", a_little_more(64))
    worker.wait_for_output("retires by --child-max-rss")
    wait_until(lambda: Message.objects.ready("test").filter(read_count=0).count() == 1, "the one behind it")
    assert Message.objects.get(pk=slow.pk).status == "run"
    gate.touch()
    [first], [second] = worker.wait_for("end", slow.pk), worker.wait_for("end", behind.pk)
    assert first["pid"] != second["pid"]
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0, worker.output


def test_of_two_children_that_can_not_end_neither_has_one_more(
    start_worker: Callable[..., Any], a_little_more: Callable[[int], str], tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    leak = {"do": "leak", "bytes": 100 * MEBIBYTE, "seconds": 0}
    hanging = {"do": "all of", "deeds": [leak, {"do": "until", "file": str(gate)}]}
    worker = start_worker("--queues", "test", "--threads", "2", "--grace", "1", "--child-max-rss", a_little_more(64))
    for times in (1, 2):
        Message.objects.enqueue(hanging, queue="test")
        wait_until(lambda times=times: worker.output.count("retires by") == times, "one more that retires")
    waiting = Message.objects.enqueue({"do": "ok"}, queue="test")
    reports = worker.output.count("still runs 1 message")
    wait_until(lambda: worker.output.count("still runs 1 message") > reports, "another report of the first")
    assert not worker.notes("begin", waiting.pk), "there is nobody who could"
    gate.touch()
    [begun] = worker.wait_for("end", waiting.pk)
    assert begun["pid"] not in {note["pid"] for note in worker.notes("begin") if note["id"] != waiting.pk}
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0, worker.output
    assert Counter(Message.objects.values_list("status", "read_count", "crashes")) == {("y", 1, 0): 3}


def test_a_limit_below_what_the_worker_has_before_it_forks_is_refused_with_the_figure(
    start_worker: Callable[..., Any],
) -> None:
    Message.objects.enqueue({"do": "ok"}, queue="test")
    worker = start_worker("--queues", "test", "--child-max-rss", "5M")
    assert worker.ended() == 2, worker.output
    assert "--child-max-rss 5.0 MiB leaves no memory for messages" in worker.output
    assert figure(worker) > 10
    assert "worker started" not in worker.output


def test_a_limit_below_what_an_empty_child_has_ends_the_worker_with_the_figure_and_charges_nothing(
    start_worker: Callable[..., Any], a_little_more: Callable[[int], str]
) -> None:
    Message.objects.enqueue({"do": "ok"}, queue="test")
    limit = a_little_more(64)
    worker = start_worker(
        "--queues", "test", "--processes", "2", "--child-max-rss", limit,
        DBQUEUE_TEST_BALLAST=str(200 * MEBIBYTE),
    )  # fmt: skip
    assert worker.ended() == 1, worker.output
    assert 1 <= len(BEFORE_ITS_FIRST.findall(worker.output)) <= 2, "each child is started once"
    assert all(float(each) > 200 for each in BEFORE_ITS_FIRST.findall(worker.output))
    assert not worker.notes()
    assert Message.objects.ready("test").filter(read_count=0).count() == 1


@pytest.mark.parametrize(
    ("option", "value", "text"),
    [
        ("--child-max-rss", "512", "'512' is not a size: write a number above 0 and its unit, as in 512M or 1.5G"),
        ("--child-max-rss", "0M", "'0M' is not a size"),
        ("--child-max-rss", "a lot", "'a lot' is not a size"),
        ("--child-max-messages", "0", "'0' is not a whole number from 1 to"),
    ],
)
def test_what_is_no_limit_is_refused(start_worker: Callable[..., Any], option: str, value: str, text: str) -> None:
    worker = start_worker(option, value)
    assert worker.ended() == 2
    assert text in worker.output
