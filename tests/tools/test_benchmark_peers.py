"""What the benchmarks say of other queues' rates follows from what their handlers reported, and from nothing else."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.queue.peers import environments
from benchmarks.queue.peers.conditions import BODY
from benchmarks.queue.peers.environments import ROOT
from benchmarks.queue.peers.peer import _drain
from benchmarks.queue.peers.processes import Child
from benchmarks.queue.peers.roster import PEERS
from benchmarks.queue.probe import PATH, Hit, Probe
from benchmarks.queue.processes import ChildFailed
from tests.servers.lifeline import lives
from tests.servers.private import ServerError
from tests.servers.version import server_version

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
        started.append(Child([sys.executable, "-c", script], os.environ, tmp_path / "log"))
        return started[-1]

    yield start
    for each in started:
        each.end()


def test_a_second_call_for_a_message_is_a_duplicate_and_no_work() -> None:
    hits = [Hit(n, 10.0 + n / 10, 1) for n in range(101)]
    doubled = sorted([*hits, Hit(5, 18.0, 1), Hit(7, 19.0, 1)], key=lambda each: each.at)
    found = _drain(doubled, 101, end=20.0)
    assert found.duplicates == 2
    assert found.rate == pytest.approx(100 / 10)


def test_a_message_that_was_never_handled_is_an_error() -> None:
    with pytest.raises(AssertionError, match="3 of 10 messages were never handled"):
        _drain([Hit(n, float(n), 1) for n in range(7)], 10, end=8.0)


def test_a_child_reports_that_it_is_ready_and_waits_for_orders(child) -> None:
    talker = child(_TALKER)
    assert talker.heard() == {"ready": True}
    talker.go()
    assert talker.heard() == {"heard": "\n"}


def test_a_child_that_breaks_is_an_error_with_its_last_words(child) -> None:
    with pytest.raises(ChildFailed, match="no such table: parrots"):
        child("raise SystemExit('no such table: parrots')").heard()


def test_the_end_of_a_child_is_the_end_of_all_that_it_started(child) -> None:
    parent = child(_PARENT)
    parent.heard()
    members = parent.members()
    assert len(members) == 2
    parent.end()
    assert not [each for each in members if lives(each)]


def test_a_redis_reports_its_version() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        answer = threading.Thread(
            target=_answer_once, args=(listener, b"$31\r\n# Server\r\nredis_version:7.0.15\r\n\r\n")
        )
        answer.start()
        assert server_version(f"redis://127.0.0.1:{listener.getsockname()[1]}/0") == "7.0.15"
        answer.join()


def _answer_once(listener: socket.socket, words: bytes) -> None:
    session, _ = listener.accept()
    with session:
        assert session.recv(100) == b"INFO server\r\n"
        session.sendall(words)


def test_a_peer_that_needs_a_newer_python_gets_it_or_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def program(name: str, version: str) -> str:
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\necho {version}\n" if version else "#!/bin/sh\nexit 127\n")
        path.chmod(0o755)
        return str(path)

    this, newer = sys.version_info[:2], (sys.version_info[0], sys.version_info[1] + 1)
    minor = newer[1]
    monkeypatch.setattr(environments, "_NEWEST", minor + 1)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    assert environments._interpreter("parrot", this) == sys.executable
    program(f"python3.{minor}", "")  # as one of pyenv is that is not switched on
    with pytest.raises(ServerError, match=rf"parrot needs Python 3\.{minor}, .* DBQUEUE_BENCH_PYTHON"):
        environments._interpreter("parrot", newer)
    found = program(f"python3.{minor + 1}", f"3 {minor + 1} 0")
    assert environments._interpreter("parrot", newer) == found
    monkeypatch.setenv("DBQUEUE_BENCH_PYTHON", program("older", "3 4 0"))
    assert environments._interpreter("parrot", newer) == found
    older = program("older", "3 4 0")
    monkeypatch.setenv("DBQUEUE_BENCH_PYTHON", f"{older}:{(named := program('named', f'3 {minor} 5'))}")
    assert environments._interpreter("parrot", newer) == named
    monkeypatch.delenv("DBQUEUE_BENCH_PYTHON")
    Path(found).unlink()
    (tmp_path / f"pyenv/versions/3.{minor}.7/bin").mkdir(parents=True)
    unswitched = program(f"pyenv/versions/3.{minor}.7/bin/python3.{minor}", f"3 {minor} 7")
    assert environments._interpreter("parrot", newer) == unswitched


def test_each_peer_has_an_adapter_and_pins_of_every_package() -> None:
    home = Path(environments.__file__).parent
    no_peers = {"__init__", "adapter", "django_site", "dbqueue", "dbqueue_plain", "threadmill_settings"}
    adapters = {path.stem for path in (home / "adapters").iterdir() if path.suffix in {".py", ".mjs"}}
    python = {path.stem: path.read_text().split() for path in (home / "requirements").glob("*.txt")}
    node = {path.stem: json.loads(path.read_text()) for path in (home / "requirements").glob("*.json")}
    assert adapters - no_peers == set(python) | set(node) == set(PEERS)
    assert [line for lines in python.values() for line in lines if "==" not in line] == []
    versions = [version for pins in node.values() for version in pins["dependencies"].values()]
    assert [each for each in versions if not each.replace(".", "").isdigit()] == []


def test_a_peer_s_version_is_that_of_its_own_package() -> None:
    found = {name: environments.pinned(name) for name in PEERS}
    assert found["huey"] == found["huey_tasks"] == found["huey_tasks_redis"]
    assert found["bullmq"] != found["bullmq_python"]
    pins = Path(environments.__file__).parent / "requirements"
    assert f"django-ox=={found['django_ox']}\n" in (pins / "django_ox.txt").read_text()
    assert f"celery[redis]=={found['celery']}\n" in (pins / "celery.txt").read_text()


@pytest.mark.parametrize(("body", "at_once"), [(None, 20), ("0.05", 8)])
def test_a_body_takes_its_time_and_is_run_by_as_many_at_once_for_everybody(
    tmp_path: Path, body: str | None, at_once: int
) -> None:
    script = """
import asyncio, time
from benchmarks.queue.peers.adapters import adapter
began = time.perf_counter()
adapter.handled(1)
asyncio.run(adapter.handled_in_a_coroutine(2))
print(adapter.at_once(20), time.perf_counter() - began)
"""
    probe = Probe(tmp_path / "probe")
    environment = os.environ | {PATH: str(probe.path)} | ({BODY: body} if body else {})
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    number, seconds = done.stdout.split()
    assert int(number) == at_once
    assert float(seconds) >= 2 * float(body or 0)
    assert [hit.number for hit in probe.hits()] == [1, 2]
