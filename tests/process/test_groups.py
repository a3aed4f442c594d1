"""Groups while senders, workers and sessions die: order and limits hold, and nobody is left behind (P18, P19)."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.db import DatabaseError

from django_dbqueue.models import Group, Line, Message, Ticket
from tests.process.conftest import PATIENCE, wait_until, whole_lines
from tests.process.sessions import end_sessions, sessions

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]

QUEUES = ("groups", "groups-in-a-transaction")
GROUPS = 12
FEWEST = 50
"""Messages that must have run, so that something was tried."""


class Rack:
    """Senders and workers, what befalls them, and what must hold at the end."""

    def __init__(self, env: dict[str, str], start_worker: Callable[..., Any], directory: Path, width: int) -> None:
        self._env = env | {
            "DBQUEUE_TEST_SETTINGS": json.dumps({"QUEUES": {queue: {"group_limit": width} for queue in QUEUES}})
        }
        self._start = start_worker
        self._log = directory / "consumers.log"
        self._dice = random.Random(17)
        self._width = width
        self._senders: list[subprocess.Popen[bytes]] = []
        self._number = 0

    def run(self, seconds: float) -> None:
        """Let senders send, workers work and things go wrong, on a slow machine for longer; wait until all is done."""
        began = time.monotonic()
        workers = [self._worker(), self._worker()]
        while (now := time.monotonic()) < began + seconds or (len(self._begun()) <= FEWEST and now < began + PATIENCE):
            self._keep_sending(max(began + seconds - now, 2.0))
            time.sleep(self._dice.uniform(0.2, 0.6))
            fault = self._dice.choice(
                [self._kill_worker, self._kill_child, self._cut_sessions, self._drop, self._pause]
            )
            fault(workers)
        for sender in self._senders:
            sender.wait(2 * PATIENCE)  # on a busy machine, to begin takes it most of the time
        for queue in QUEUES:
            for number in range(GROUPS):
                Group.objects.resume(queue, f"g{number}")
        wait_until(lambda: not Message.objects.exclude(status="y").exclude(available_at=None).exists(), self._left)

    def _worker(self) -> Any:
        return self._start("--threads", "4", "--processes", "2", **self._env)

    def _keep_sending(self, seconds: float) -> None:
        self._senders = [each for each in self._senders if each.poll() is None] or []
        while len(self._senders) < 3:
            self._number += 1
            command = [sys.executable, "-m", "tests.process.group_sender", str(self._number), str(seconds), str(GROUPS)]
            self._senders.append(subprocess.Popen([*command, "0.02"], env=self._env, stdout=subprocess.DEVNULL))

    def _kill_worker(self, workers: list[Any]) -> None:
        at = self._dice.randrange(len(workers))
        workers[at].signal_all(signal.SIGKILL)
        workers[at] = self._worker()

    def _kill_child(self, workers: list[Any]) -> None:
        pids = {note["pid"] for note in self.notes()[-20:]} - {worker.process.pid for worker in workers}
        if pids:
            subprocess.run(["/bin/kill", "-9", str(self._dice.choice(sorted(pids)))], check=False, capture_output=True)

    def _cut_sessions(self, _workers: list[Any]) -> None:
        if settings.TEST_DATABASE != "sqlite":
            there = sorted(sessions())
            end_sessions(set(self._dice.sample(there, min(3, len(there)))))

    def _drop(self, _workers: list[Any]) -> None:
        """Drop some of what waits, and reject some, as an operator would."""
        ids = list(Message.objects.filter(status="n").order_by("?").values_list("pk", flat=True)[:4])
        try:
            Message.objects.filter(pk__in=ids[:2]).drop_all("by an operator")
            Message.objects.filter(pk__in=ids[2:]).reject_waiting("by an operator")
        except DatabaseError:
            pass  # its session was cut

    def _pause(self, _workers: list[Any]) -> None:
        queue, group = self._dice.choice(QUEUES), f"g{self._dice.randrange(GROUPS)}"
        Group.objects.pause(queue, group)
        if self._dice.random() < 0.8:
            Group.objects.resume(queue, group)

    def notes(self) -> list[dict[str, Any]]:
        return [each for each in map(json.loads, whole_lines(self._log)) if each["step"] in ("begin", "end")]

    def _begun(self) -> set[int]:
        return {note["id"] for note in self.notes()}

    def _left(self) -> str:
        rows = Message.objects.exclude(status="y").exclude(available_at=None).values_list("id", "status", "group_name")
        return (
            f"all to be done; left: {list(rows[:20])}, lines {Line.objects.count()}, tickets {Ticket.objects.count()}"
        )

    def assert_all_is_well(self) -> None:
        notes = self.notes()
        assert len(self._begun()) > FEWEST
        by_lane: dict[tuple[int, str], list[dict[str, Any]]] = {}
        for note in sorted(notes, key=lambda note: note["at"]):
            by_lane.setdefault((note["lane"], note["group"]), []).append(note)
        for lane in by_lane.values():
            self._assert_lane(lane)
        wait_until(lambda: not Line.objects.exists() and not Ticket.objects.exists(), self._left)

    def _assert_lane(self, notes: list[dict[str, Any]]) -> None:
        """Each message begins after its sender's earlier ones; no more are open at once than there are tickets."""
        begun: dict[int, int] = {}
        latest: dict[int, int] = {}
        open_ones: set[int] = set()
        gone = set(Message.objects.filter(error="by an operator").values_list("pk", flat=True))
        for note in notes:
            if note["reads"] < latest.get(note["id"], 0):
                continue  # by a worker that doesn't know yet that its session was cut: the claim is another's now (P4)
            latest[note["id"]] = note["reads"]
            if note["step"] == "end":
                open_ones.discard(note["id"])
                continue
            if note["id"] not in begun:
                earlier = max((other for other, sender in begun.items() if sender == note["sender"]), default=0)
                assert self._width > 1 or note["id"] > earlier, f"{note['id']} began after {earlier}"
            begun[note["id"]] = note["sender"]
            open_ones.add(note["id"])
            open_ones -= gone
            assert len(open_ones) <= self._width, self._listed(open_ones, notes)

    @staticmethod
    def _listed(ids: set[int], notes: list[dict[str, Any]]) -> str:
        """What happened to messages that ran at once."""
        columns = ("id", "status", "read_count", "crashes", "claimed_at", "finished_at", "error")
        rows = [*Message.objects.filter(pk__in=ids).values(*columns)]
        return f"{ids} at once: {rows}, {[note for note in notes if note['id'] in ids]}"


@pytest.mark.parametrize(
    "seconds", [pytest.param(10, id="seconds"), pytest.param(300, id="minutes", marks=pytest.mark.nightly)]
)
@pytest.mark.parametrize("width", [1, 3])
def test_groups_keep_their_order_and_their_limits_whatever_dies(
    worker_env: dict[str, str], start_worker: Callable[..., Any], tmp_path: Path, width: int, seconds: int
) -> None:
    rack = Rack(worker_env, start_worker, tmp_path, width)
    rack.run(seconds)
    rack.assert_all_is_well()
