"""What the benchmarks say of other queues' rates follows from what their handlers reported, and from nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from benchmarks.queue.peers import environments, probe
from benchmarks.queue.peers.probe import RECORD, Hit, delays, drained, hits_so_far, read_hits
from benchmarks.queue.peers.processes import Child, PeerFailed
from benchmarks.queue.peers.roster import PEERS

if TYPE_CHECKING:
    from collections.abc import Iterator

_TALKER = """
import json, sys
print(json.dumps({"ready": True}), flush=True)
print(json.dumps({"heard": sys.stdin.readline()}), flush=True)
"""
_PARENT = """
import subprocess, sys, time
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print('{"ready": true}', flush=True)
time.sleep(600)
"""


@pytest.fixture
def child(tmp_path: Path) -> Iterator[object]:
    started: list[Child] = []

    def start(script: str) -> Child:
        started.append(Child([sys.executable, "-c", script], {}, tmp_path / "log"))
        return started[-1]

    yield start
    for each in started:
        each.end()


def test_a_handlers_calls_are_read_as_they_were_reported(tmp_path: Path) -> None:
    place = tmp_path / "probe"
    script = "from benchmarks.queue.peers.probe import hit; hit(12.5); hit()"
    before = time.time()
    subprocess.run([sys.executable, "-c", script], env={**os.environ, probe.VARIABLE: str(place)}, check=True)
    first, second = read_hits(place)
    assert hits_so_far(place) == 2
    assert (first.sent, second.sent) == (12.5, 0.0)
    assert before <= first.came <= second.came <= time.time()
    assert first.process == second.process != os.getpid()


def test_a_record_that_is_half_written_is_not_a_call(tmp_path: Path) -> None:
    place = tmp_path / "probe"
    place.write_bytes(RECORD.pack(0, 2.0, 7) + RECORD.pack(0, 1.0, 8) + RECORD.pack(0, 3.0, 9)[:-1])
    assert [each.process for each in read_hits(place)] == [8, 7]
    assert hits_so_far(place) == 2


def test_a_file_that_no_handler_has_opened_holds_no_call(tmp_path: Path) -> None:
    assert hits_so_far(tmp_path / "probe") == 0


def test_the_rate_counts_once_every_process_has_had_a_message_until_the_last_one_is_acknowledged() -> None:
    early = [Hit(0, 10.0 + n, 1) for n in range(10)]
    both = [Hit(0, 20.0 + n / 10, 1 + n % 2) for n in range(1, 91)]
    found = drained([*early, *both], 100, done=30.0)
    # Process 2 came first at 20.1, and 89 calls came after that.
    assert found.rate == pytest.approx(89 / 9.9)
    assert (found.processes, found.duplicates, found.steady) == (2, 0, True)


def test_the_rate_counts_from_the_first_message_if_a_process_comes_when_the_work_is_nearly_done() -> None:
    hits = [Hit(0, 10.0 + n / 10, 2 if n == 95 else 1) for n in range(100)]
    found = drained(hits, 100, done=20.0)
    assert not found.steady
    assert found.rate == pytest.approx(99 / 10)


def test_more_calls_than_messages_are_duplicates_and_no_work() -> None:
    hits = [Hit(0, 10.0 + n / 10, 1) for n in range(101)]
    found = drained(hits, 96, done=20.0)
    assert found.duplicates == 5
    assert found.rate == pytest.approx(95 / 10)


def test_an_acknowledgement_before_the_last_call_does_not_shorten_the_work() -> None:
    hits = [Hit(0, 10.0 + n, 1) for n in range(11)]
    assert drained(hits, 11, done=15.0).rate == pytest.approx(10 / 10)


def test_a_message_that_was_never_handled_is_an_error() -> None:
    with pytest.raises(ValueError, match="3 of 10 messages were never handled"):
        drained([Hit(0, float(n), 1) for n in range(7)], 10, done=8.0)


def test_only_messages_that_say_when_they_were_sent_tell_a_delay() -> None:
    assert delays([Hit(0, 5.0, 1), Hit(6.0, 6.25, 1)]) == [250.0]


def test_a_child_says_that_it_is_ready_and_waits_to_be_told(child) -> None:
    talker = child(_TALKER)
    assert talker.heard() == {"ready": True}
    talker.go()
    assert talker.heard() == {"heard": "\n"}


def test_a_child_that_breaks_is_an_error_with_its_last_words(child) -> None:
    with pytest.raises(PeerFailed, match="no such table: parrots"):
        child("raise SystemExit('no such table: parrots')").heard()


def test_the_end_of_a_child_is_the_end_of_all_that_it_started(child) -> None:
    parent = child(_PARENT)
    parent.heard()
    members = parent.members()
    assert len(members) == 2
    parent.end()
    assert not [each for each in members if Path(f"/proc/{each}").exists() and _is_alive(each)]


def _is_alive(process: int) -> bool:
    """Its starter is gone, and whoever adopted it may not have waited for it yet."""
    return "\nState:\tZ" not in Path(f"/proc/{process}/status").read_text()


def test_each_peer_has_an_adapter_and_pins_of_every_package() -> None:
    home = Path(environments.__file__).parent
    adapters = {path.stem for path in (home / "adapters").glob("*.py")} - {"__init__", "adapter", "django_site"}
    pinned = {path.stem: path.read_text().splitlines() for path in (home / "requirements").glob("*.txt")}
    assert adapters == set(pinned) == set(PEERS)
    assert [line for lines in pinned.values() for line in lines if "==" not in line] == []
