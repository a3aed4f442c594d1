"""Rates of groups, over all workers and through their deaths (P19), and what idle workers give to groups."""

from __future__ import annotations

import json
import signal
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from operator import sub
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from django_dbqueue import Envelope
from django_dbqueue.models import Group, Message
from tests.groups.rows import nothing_is_left
from tests.process.conftest import wait_until

if TYPE_CHECKING:
    from pytest_django.fixtures import SettingsWrapper

pytestmark = pytest.mark.django_db(transaction=True)
Reserved = Callable[[], list[list[tuple[int, int]]]]
SLACK = 2_000
"""Microseconds by which the clocks of a server and of a process, as they read them, may differ."""


@pytest.fixture
def configure(settings: SettingsWrapper, worker_env: dict[str, str]) -> Callable[..., None]:
    def to(queue: str, **options: Any) -> None:
        settings.DBQUEUE = {"QUEUES": {queue: options}}
        worker_env["DBQUEUE_TEST_SETTINGS"] = json.dumps(settings.DBQUEUE)

    return to


def send(queue: str, number: int, group: str = "a", **payload: Any) -> list[int]:
    before = set(Message.objects.values_list("pk", flat=True))
    Message.objects.enqueue_many([Envelope(payload, group=group)] * number, queue=queue)
    return sorted(set(Message.objects.values_list("pk", flat=True)) - before)


def all_are_done(queue: str, number: int) -> bool:
    return Message.objects.done(queue).count() == number


@pytest.fixture
def reserved(worker_env: dict[str, str], tmp_path: Path) -> Reserved:
    """Read all starts that workers have reserved: of each group the moments, and when each was asked for."""
    notes = tmp_path / "starts"
    worker_env |= {"DJANGO_SETTINGS_MODULE": "tests.process.rated_settings", "DBQUEUE_TEST_STARTS": str(notes)}

    def read() -> list[list[tuple[int, int]]]:
        found: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for line in notes.read_text().splitlines():
            lane, moment, requested = line.split()
            found[lane].append((int(moment), int(requested)))
        return [sorted(starts) for starts in found.values()]

    return read


def assert_rate(reserved: Reserved, interval: float, begun: Sequence[float]) -> None:
    """No two starts of a group are closer than an interval, so the rate holds in any window, and none begins early.

    The moments are the database's, in microseconds; what is made up for lost time would lie before it was asked for.
    """
    groups = reserved()
    assert groups
    moments = [[moment for moment, _ in starts] for starts in groups]
    assert not [gap for one in moments for gap in map(sub, one[1:], one) if gap < interval * 1_000_000]
    assert not [start for starts in groups for start in starts if start[0] < start[1] - SLACK]
    ordered = sorted(moment for one in moments for moment in one)
    assert len(ordered) >= len(begun), "some began without a reserved start"
    pairs = zip(sorted(begun), ordered, strict=False)
    assert not [begin for begin, moment in pairs if begin * 1_000_000 < moment - SLACK]


def begun(notes: Iterable[dict[str, Any]]) -> list[float]:
    return [note["at"] for note in notes if note["step"] == "begin"]


@pytest.mark.parametrize(("queue", "payload"), [("test", {"do": "ok"}), ("async", {"seconds": 0})])
def test_workers_together_start_no_more_than_the_rate_allows_through_their_deaths(
    queue: str,
    payload: dict[str, Any],
    configure: Callable[..., None],
    start_worker: Callable[..., Any],
    reserved: Reserved,
) -> None:
    configure(queue, group_limit=20, group_rate="20/s")
    ids = send(queue, 50, **payload)
    arguments = ("--queues", queue, "--threads", "4", "--processes", "2", "--lease", "3")
    first = start_worker(*arguments)
    first.wait_for("begin", times=8)
    first.signal_all(signal.SIGKILL)
    workers = [start_worker(*arguments) for _ in range(2)]
    wait_until(lambda: all_are_done(queue, 50), lambda: workers[0].output)
    notes = first.notes()
    assert {note["id"] for note in notes if note["step"] == "begin"} == set(ids)
    assert_rate(reserved, 0.05, begun(notes))
    wait_until(nothing_is_left, "the end of the group's places")


def test_a_list_starts_one_of_each_group(
    configure: Callable[..., None], start_worker: Callable[..., Any], reserved: Reserved
) -> None:
    configure("batches", group_limit=10, group_rate="10/s", group_batch=10)
    ids = send("batches", 12, do="ok") + send("batches", 4, "b", do="ok")
    worker = start_worker("--queues", "batches", "--threads", "2")
    wait_until(lambda: all_are_done("batches", 16), lambda: worker.output)
    calls = worker.notes("call")
    assert sorted(one for call in calls for one in call["ids"]) == ids
    assert all(len(set(call["ids"]) & set(ids[:12])) <= 1 for call in calls)
    assert_rate(reserved, 0.1, [call["at"] for call in calls for _ in call["ids"]])
    assert set(Message.objects.values_list("read_count", flat=True)) == {1}


def test_a_rate_of_one_group_holds_from_the_next_start_and_no_other_group_waits(
    configure: Callable[..., None], start_worker: Callable[..., Any], reserved: Reserved
) -> None:
    configure("test", group_limit=5)
    Group.objects.rate("test", "slow", "1/s")
    worker = start_worker("--queues", "test", "--threads", "4")
    slow, quick = send("test", 6, "slow", do="ok"), send("test", 40, "quick", do="ok")
    wait_until(lambda: all_are_done("test", 46), lambda: worker.output)
    order = [note["id"] for note in worker.notes("begin")]
    assert order.index(slow[-1]) > order.index(quick[-1])
    assert_rate(reserved, 1.0, begun(note for note in worker.notes() if note["id"] in slow))
    assert set(Message.objects.values_list("read_count", flat=True)) == {1}


def test_a_row_keeps_its_order_and_its_rate(
    configure: Callable[..., None], start_worker: Callable[..., Any], reserved: Reserved
) -> None:
    configure("test", group_rate="20/s", group_batch=10)
    ids = send("test", 30, do="ok")
    worker = start_worker("--queues", "test", "--threads", "3")
    wait_until(lambda: all_are_done("test", 30), lambda: worker.output)
    assert [note["id"] for note in worker.notes("begin")] == ids
    assert_rate(reserved, 0.05, begun(worker.notes()))
    wait_until(nothing_is_left, "the end of the group's places")


def test_a_wait_for_the_start_counts_against_no_timeout(
    configure: Callable[..., None], start_worker: Callable[..., Any]
) -> None:
    queue = "generously-timed"
    configure(queue, group_limit=5, group_rate="24/m")  # half a second more than the timeout between two starts
    send(queue, 3, do="ok")
    Message.objects.filter(status="n", available_at__lt="9999-01-01T00:00:00+00:00").update(
        available_at="2000-01-01T00:00:00+00:00"
    )
    worker = start_worker("--queues", queue, "--threads", "3")
    wait_until(lambda: all_are_done(queue, 3), lambda: worker.output)
    assert set(Message.objects.values_list("read_count", flat=True)) == {1}


def test_idle_threads_work_on_a_group_that_is_at_its_limit(
    configure: Callable[..., None], start_worker: Callable[..., Any], tmp_path: Path
) -> None:
    configure("test", group_limit=2, group_burst=5)
    gate = tmp_path / "gate"
    send("test", 12, do="until", file=str(gate))
    worker = start_worker("--queues", "test", "--threads", "8")
    worker.wait_for("begin", times=5)
    quiet = send("test", 1, "b", do="ok")
    worker.wait_for("end", quiet[0])
    assert len(worker.notes("begin")) == 6, "more than the burst ran at once"
    gate.touch()
    wait_until(lambda: all_are_done("test", 13), lambda: worker.output)
    wait_until(nothing_is_left, "the end of the groups' places")


def test_a_noisy_group_delays_a_quiet_one_by_no_more_than_its_burst(
    configure: Callable[..., None], start_worker: Callable[..., Any]
) -> None:
    width, threads = 8, 2
    configure("test", group_limit=1, group_burst=width)
    send("test", 400, "noisy", do="sleep", seconds=0.005)
    worker = start_worker("--queues", "test", "--threads", str(threads))
    worker.wait_for("begin", times=30)
    for quiet in range(3):
        [one] = send("test", 1, f"quiet-{quiet}", do="ok")
        before = len(worker.notes("begin"))
        worker.wait_for("begin", one)
        order = [note["id"] for note in worker.notes("begin")]
        assert order.index(one) - before <= 2 * (width / threads) * threads
    assert len(worker.notes("begin")) < 400, "there was nobody left to wait for"
