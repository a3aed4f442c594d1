"""Groups of which a worker takes several along (``group_batch``), in real workers that fail and are killed (P18)."""

from __future__ import annotations

import json
import signal
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from django_dbqueue import Envelope
from django_dbqueue.models import Message
from tests.groups.rows import followers, nothing_is_left
from tests.process.conftest import wait_until

if TYPE_CHECKING:
    from pytest_django.fixtures import SettingsWrapper

pytestmark = pytest.mark.django_db(transaction=True)

QUEUES = ("test", "short-lease", "async", "batches", "batches-transactional", "transactional")


@pytest.fixture(autouse=True)
def _in_a_row(settings: SettingsWrapper, worker_env: dict[str, str]) -> None:
    settings.DBQUEUE = {"QUEUES": {queue: {"group_batch": 20} for queue in QUEUES}}
    worker_env["DBQUEUE_TEST_SETTINGS"] = json.dumps(settings.DBQUEUE)


def send(queue: str, *payloads: dict[str, Any], group: str = "a", **options: Any) -> list[int]:
    before = set(Message.objects.values_list("pk", flat=True))
    Message.objects.enqueue_many([Envelope(each, group=group, **options) for each in payloads], queue=queue)
    return sorted(set(Message.objects.values_list("pk", flat=True)) - before)


def assert_in_order(notes: list[dict[str, Any]], ids: list[int]) -> None:
    """Each began, for the first time, after the one before it had ended well, and none ran beside another."""
    steps = [(note["step"], note["id"]) for note in notes if note["step"] in ("begin", "end") and note["id"] in ids]
    for one, other in pairwise(ids):
        assert steps.index(("end", one)) < steps.index(("begin", other)), (one, other, steps)


def all_are_done(queue: str, number: int) -> bool:
    return Message.objects.done(queue).count() == number


@pytest.mark.parametrize("queue", ["test", "transactional"])
def test_a_group_runs_in_order_alongside_others_whatever_takes_it_along(queue: str, drain: Callable[..., Any]) -> None:
    ids = {group: send(queue, *[{"do": "ok"}] * 50, group=group) for group in "abc"}
    worker = drain("--queues", queue, "--threads", "3", "--processes", "2", "--batch", "60")
    assert all_are_done(queue, 150), worker.output
    assert nothing_is_left()
    for group in "abc":
        assert_in_order(worker.notes(), ids[group])
        ran = Counter(note["id"] for note in worker.notes("begin") if note["id"] in ids[group])
        assert set(ran.values()) == {1}


def test_a_failure_stops_those_behind_it_and_they_are_not_charged(drain: Callable[..., Any]) -> None:
    deeds = [{"do": "ok"}] * 20
    deeds[3] = {"do": "fail", "times": 2}
    deeds[9] = {"do": "retry", "after": 0.2}
    deeds[14] = {"do": "reject"}
    ids = send("test", *deeds)
    worker = drain("--queues", "test", "--threads", "4")
    assert all_are_done("test", 19)
    good = [one for one in ids if one != ids[14]]
    assert_in_order(worker.notes(), good)
    reads = dict(Message.objects.values_list("pk", "read_count"))
    assert [reads[one] for one in ids] == [3 if n == 3 else 2 if n == 9 else 1 for n in range(20)]
    assert nothing_is_left()


def test_a_coroutine_follows_the_one_before_it(drain: Callable[..., Any]) -> None:
    ids = {group: send("async", *[{"seconds": 0.01}] * 20, group=group) for group in "ab"}
    worker = drain("--queues", "async", "--concurrency", "10")
    assert all_are_done("async", 40), worker.output
    for group in "ab":
        assert_in_order(worker.notes(), ids[group])
    assert nothing_is_left()


@pytest.mark.parametrize("queue", ["batches", "batches-transactional"])
def test_a_list_holds_several_of_a_group_in_order_and_no_two_lists_at_once(
    queue: str, drain: Callable[..., Any]
) -> None:
    ids = {group: send(queue, *[{"do": "ok"}] * 70, group=group) for group in "ab"}
    worker = drain("--queues", queue, "--threads", "3")
    assert all_are_done(queue, 140), worker.output
    calls = [note["ids"] for note in worker.notes("call")]
    assert max(len(set(call) & set(ids["a"])) for call in calls) > 10
    for group in "ab":
        assert [one for call in calls for one in call if one in ids[group]] == ids[group]
    assert nothing_is_left()


def test_in_a_list_those_behind_one_that_fails_wait_for_it(drain: Callable[..., Any]) -> None:
    deeds = [{"do": "ok"}] * 15
    deeds[5] = {"do": "fail"}
    ids = send("batches-transactional", *deeds)
    others = send("batches-transactional", *[{"do": "ok"}] * 5, group="b")
    drain("--queues", "batches-transactional", "--threads", "2")
    assert Message.objects.dead().values_list("pk", flat=True).get() == ids[5]
    assert all_are_done("batches-transactional", 19)
    ended = list(Message.objects.done().order_by("finished_at", "pk").values_list("pk", flat=True))
    assert [one for one in ended if one in ids] == [one for one in ids if one != ids[5]]
    dead_at = Message.objects.get(pk=ids[5]).finished_at
    assert Message.objects.filter(pk__in=ids[:5], finished_at__lt=dead_at).count() == 5
    assert Message.objects.filter(pk__in=ids[6:], finished_at__gte=dead_at).count() == 9
    assert set(others) <= set(ended)
    assert nothing_is_left()


def test_a_child_that_dies_in_the_middle_charges_one_and_keeps_the_order(drain: Callable[..., Any]) -> None:
    deeds = [{"do": "ok"}] * 12
    deeds[4] = {"do": "die"}
    ids = send("test", *deeds)
    worker = drain("--queues", "test", "--threads", "2")
    assert Message.objects.dead().values_list("pk", flat=True).get() == ids[4]
    assert all_are_done("test", 11)
    assert_in_order(worker.notes(), [one for one in ids if one != ids[4]])
    assert set(Message.objects.done().values_list("read_count", flat=True)) == {1}
    assert nothing_is_left()


@pytest.mark.parametrize("queue", ["short-lease"])
def test_a_worker_that_is_killed_in_the_middle_of_a_row_leaves_the_order_and_nothing_behind(
    queue: str, start_worker: Callable[..., Any], tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    deeds: list[dict[str, Any]] = [{"do": "ok"}] * 15
    deeds[6] = {"do": "until", "file": str(gate)}
    ids = send(queue, *deeds)
    worker = start_worker("--queues", queue, "--threads", "4")
    worker.wait_for("begin", ids[6])
    assert followers() != []
    worker.signal_all(signal.SIGKILL)
    gate.touch()
    other = start_worker("--queues", queue, "--threads", "4")
    wait_until(lambda: all_are_done(queue, 15), lambda: other.output)
    wait_until(nothing_is_left, "the end of the group's places")
    assert_in_order(other.notes(), ids)
    assert {note["id"] for note in other.notes("begin")} == set(ids)


def test_a_worker_that_stops_releases_those_behind_the_one_that_runs(
    start_worker: Callable[..., Any], tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    ids = send("test", {"do": "until", "file": str(gate)}, *[{"do": "ok"}] * 9)
    worker = start_worker("--queues", "test", "--threads", "4")
    worker.wait_for("begin", ids[0])
    assert followers() == ids[1:]
    worker.signal(signal.SIGTERM)
    wait_until(lambda: followers() == [], "the release of those behind it")
    gate.touch()
    assert worker.ended() == 0
    assert Message.objects.done().values_list("pk", flat=True).get() == ids[0]
    assert set(Message.objects.filter(pk__in=ids[1:]).values_list("status", "read_count")) == {("n", 0)}
    assert [note["id"] for note in worker.notes("begin")] == ids[:1]
