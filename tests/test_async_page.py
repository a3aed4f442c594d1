"""docs/async.md does what it says: its consumer delivers to a local HTTP server through one shared client."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from django.conf import settings

from tests.patience import patience

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent
EXAMPLE = (ROOT / "docs" / "async.md").read_text().partition("```python\n")[2].partition("```")[0]

pytestmark = [
    pytest.mark.once,
    pytest.mark.skipif(settings.TEST_DATABASE != "sqlite", reason="its project is on SQLite"),
]

SETTINGS = """
SECRET_KEY = "of a test"
USE_TZ = True
INSTALLED_APPS = ["django_dbqueue", "webhooks"]
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": "db.sqlite3",
        "OPTIONS": {"init_command": "PRAGMA journal_mode=WAL", "transaction_mode": "IMMEDIATE", "timeout": 20},
    },
}
"""

HTTPX = '''
"""As much of httpx as the page uses; the tests don't install it."""

import asyncio
import json
from urllib.parse import urlsplit


class Response:
    def __init__(self, status_code):
        self.status_code = status_code

    def raise_for_status(self):
        if self.status_code >= 400:
            raise RuntimeError(f"status {self.status_code}")


class AsyncClient:
    def __init__(self, *, timeout):
        self.timeout = timeout

    async def __aenter__(self):
        print("client opened", flush=True)
        return self

    async def __aexit__(self, *_):
        print("client closed", flush=True)

    async def post(self, url, **said):
        async with asyncio.timeout(self.timeout):
            return await self._post(urlsplit(url), said["json"])

    async def _post(self, url, event):
        reader, writer = await asyncio.open_connection(url.hostname, url.port)
        body = json.dumps(event).encode()
        head = f"POST {url.path} HTTP/1.0\\r\\nContent-Length: {len(body)}\\r\\n\\r\\n"
        writer.write(head.encode() + body)
        status = (await reader.readline()).split()[1]
        writer.close()
        return Response(int(status))
'''


class _Server(ThreadingHTTPServer):
    """It answers no request before so many have come, so that only a client that sends them at once gets on."""

    def __init__(self, together: int) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.all_here = threading.Barrier(together, timeout=patience(60))
        self.got: list[tuple[str, Any]] = []


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_POST(self) -> None:
        event = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.got.append((self.path, event))
        if self.path == "/hook":
            self.server.all_here.wait()
        self.send_response(200 if self.path == "/hook" else 500)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture
def server() -> Iterator[_Server]:
    with _Server(together=20) as serving:
        thread = threading.Thread(target=serving.serve_forever)
        thread.start()
        yield serving
        serving.shutdown()
        thread.join()


def test_the_example_delivers_many_webhooks_at_once_through_one_client(server: _Server, tmp_path: Path) -> None:
    (tmp_path / "webhooks").mkdir()
    (tmp_path / "webhooks" / "__init__.py").touch()
    (tmp_path / "webhooks" / "queue_consumers.py").write_text(EXAMPLE)
    (tmp_path / "httpx.py").write_text(HTTPX)
    (tmp_path / "of_page.py").write_text(SETTINGS)
    run_there(tmp_path, "migrate", "-v", "0")
    places = ["hook"] * 20 + ["broken"]
    url = f"http://127.0.0.1:{server.server_address[1]}"
    sent = [{"url": f"{url}/{place}", "event": {"number": number}} for number, place in enumerate(places)]
    run_there(
        tmp_path,
        "shell",
        "-c",
        f"from django_dbqueue.models import Message as M\nM.objects.enqueue_many({sent!r}, queue='webhooks')",
    )
    output = run_there(tmp_path, "run_queue_worker", "--max-messages", "21", "--concurrency", "21")
    assert sorted(event["number"] for path, event in server.got) == list(range(21))
    assert "20 done, 1 failed and retried" in output
    assert re.findall(r"^client (\w+)$", output, re.MULTILINE) == ["opened", "closed"]


def run_there(directory: Path, *arguments: str) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("DBQUEUE_")}
    environment |= {"PYTHONPATH": f"{directory}:{ROOT}", "DJANGO_SETTINGS_MODULE": "of_page"}
    done = subprocess.run(
        [sys.executable, "-m", "django", *arguments],
        cwd=directory,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=patience(120),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr
