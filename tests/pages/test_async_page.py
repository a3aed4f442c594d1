"""docs/async.md does what it says: its consumer delivers to a local HTTP server through one shared client."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.pages.page_project import ON_SQLITE, ROOT, make_project, run_there, shell
from tests.patience import patience

EXAMPLE = (ROOT / "docs" / "async.md").read_text().partition("```python\n")[2].partition("```")[0]

pytestmark = ON_SQLITE

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
        self.received: list[tuple[str, Any]] = []


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_POST(self) -> None:
        event = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.received.append((self.path, event))
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
    (tmp_path / "httpx.py").write_text(HTTPX)
    make_project(tmp_path, "webhooks", {"queue_consumers": EXAMPLE})
    places = ["hook"] * 20 + ["broken"]
    url = f"http://127.0.0.1:{server.server_address[1]}"
    sent = [{"url": f"{url}/{place}", "event": {"number": number}} for number, place in enumerate(places)]
    enqueue = f"M.objects.enqueue_many({sent!r}, queue='webhooks')"
    shell(tmp_path, "from django_dbqueue.models import Message as M", enqueue)
    output = run_there(tmp_path, "run_queue_worker", "--max-messages", "21", "--concurrency", "21")
    assert sorted(event["number"] for path, event in server.received) == list(range(21))
    assert "20 done, 1 failed and retried" in output
    assert re.findall(r"^client (\w+)$", output, re.MULTILINE) == ["opened", "closed"]
