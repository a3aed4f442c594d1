"""python -m benchmarks.queue.peers.child PEER OPERATION [NUMBER ...]: one operation, under the peer's own interpreter.

It prints `{"ready": true}` when it is connected and warm, waits for a line on its input, works, and answers in one line
of JSON. `set_up`, `preload`, `remaining` and `unfinished` don't wait; `send` prints a line for each message until a
signal ends it; `work` runs one worker until then, and prints nothing. Where the server is and where handlers
report stand in the environment.
"""

from __future__ import annotations

import json
import os
import sys
import time
from importlib import import_module
from itertools import count
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.queue.peers.adapters.adapter import Adapter


class Operations:
    def __init__(self, adapter: Adapter, report: Callable[..., None]) -> None:
        self._adapter = adapter
        self._report = report

    def set_up(self) -> None:
        self._adapter.set_up()
        self._report(done=True)

    def preload(self, messages: str) -> None:
        self._adapter.preload(int(messages))
        self._report(done=True)

    def remaining(self) -> None:
        self._report(remaining=self._adapter.remaining())

    def enqueue_one(self, messages: str) -> None:
        """So many beside the one, of number 0, that warms it up."""
        self._get_warm()
        began = time.perf_counter()
        for number in range(1, int(messages) + 1):
            self._adapter.enqueue_one(number)
        self._report(seconds=time.perf_counter() - began)

    def enqueue_bulk(self, messages: str) -> None:
        self._get_warm()
        began = time.perf_counter()
        self._adapter.enqueue_bulk(int(messages))
        self._report(seconds=time.perf_counter() - began)

    def pace(self, messages: str, gap: str) -> None:
        """Messages from 1 on, so many seconds apart; it answers with when it sent each (seconds since the epoch)."""
        self._get_warm()
        sent = []
        for number in range(1, int(messages) + 1):
            sent.append(time.time())
            self._adapter.enqueue_one(number)
            time.sleep(float(gap))
        self._report(sent=sent)

    def watch(self) -> None:
        """Told to go when the last handler has been called, it answers when all is acknowledged too."""
        self._adapter.remaining()
        self._wait_for_go()
        while self._adapter.remaining():
            time.sleep(0.02)
        self._report(empty=time.time())

    def work(self) -> None:
        self._adapter.work()

    def send(self, first: str, gap: str) -> None:
        """Send messages numbered from there on, ``gap`` seconds apart, until killed; report each that is stored."""
        for number in count(int(first)):
            self._adapter.enqueue_one(number)
            self._report(stored=number)
            time.sleep(float(gap))

    def unfinished(self) -> None:
        self._report(left=self._adapter.left(), failed=self._adapter.failed())

    def _get_warm(self) -> None:
        self._adapter.enqueue_one(0)
        self._wait_for_go()

    def _wait_for_go(self) -> None:
        self._report(ready=True)
        sys.stdin.readline()


def main() -> None:
    peer, operation, *numbers = sys.argv[1:]
    # What the peer prints must not be taken for an answer.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())

    def report(**words: Any) -> None:
        print(json.dumps(words), file=answers, flush=True)

    adapter: Adapter = import_module(f"benchmarks.queue.peers.adapters.{peer}").Adapter()
    getattr(Operations(adapter, report), operation)(*numbers)


if __name__ == "__main__":
    main()
