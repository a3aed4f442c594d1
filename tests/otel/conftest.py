from __future__ import annotations

import json
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import metrics, trace

from django_dbqueue import hooks
from django_dbqueue.contrib.otel.otel_instrument import OTelInstrument
from tests.otel.memory import Memory
from tests.otel.span_file import read
from tests.patience import patience
from tests.process.conftest import start_worker as start_worker
from tests.process.conftest import wait_until
from tests.servers.private import free_port
from tests.tasks.conftest import TASKS


@pytest.fixture
def worker_env(worker_env: dict[str, str], tmp_path: Path) -> dict[str, str]:
    """Every process of these tests is traced, into the same files."""
    return worker_env | {
        "DJANGO_SETTINGS_MODULE": "tests.otel.traced_settings",
        "DBQUEUE_TEST_TASKS": json.dumps(TASKS),
        "DBQUEUE_TEST_SPANS": str(tmp_path / "spans.jsonl"),
        "DBQUEUE_TEST_METRICS": str(tmp_path / "metrics.jsonl"),
    }


@pytest.fixture
def spans(tmp_path: Path) -> Callable[[], list[dict[str, Any]]]:
    """Read the spans of all processes so far."""
    return lambda: read(tmp_path / "spans.jsonl")


@pytest.fixture
def request_site(worker_env: dict[str, str], tmp_path: Path) -> Iterator[Callable[[str], Any]]:
    """Start a web server in a process of its own; ask it for a path, and get its JSON."""
    port = free_port()
    output = tmp_path / "web.log"
    with output.open("wb") as file:
        server = subprocess.Popen(
            [sys.executable, "-m", "django", "runserver", "--noreload", "--skip-checks", f"127.0.0.1:{port}"],
            env=worker_env,
            stdout=file,
            stderr=subprocess.STDOUT,
        )

    def listens() -> bool:
        assert server.poll() is None, output.read_text()
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    def ask(path: str) -> Any:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=patience(30)) as response:
            return json.load(response)

    wait_until(listens, lambda: f"the web server:\n{output.read_text()}")
    yield ask
    server.terminate()
    server.wait()


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> Iterator[Memory]:
    """OpenTelemetry watches, with providers of this test's own."""
    memory = Memory()
    monkeypatch.setattr(trace, "get_tracer", memory.tracing.get_tracer)
    monkeypatch.setattr(metrics, "get_meter", memory.metering.get_meter)
    instrument = OTelInstrument()
    hooks.add(instrument)
    yield memory
    hooks.remove(instrument)
