"""python -m benchmarks.queue.peers.child PEER OPERATION [NUMBER ...]: one operation, under the peer's own interpreter.

It says `{"ready": true}` when it is connected and warm, waits for a line on its input, works, and answers in one line
of JSON. `set_up` and `preload` don't wait; `work` runs one worker until a signal ends it, and says nothing. Where the
server is and where handlers report stand in the environment.
"""

from __future__ import annotations

import json
import os
import sys
import time
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.queue.peers.adapters.adapter import Adapter


class Operations:
    def __init__(self, adapter: Adapter, say: Callable[..., None]) -> None:
        self._adapter = adapter
        self._say = say

    def set_up(self) -> None:
        self._adapter.set_up()
        self._say(done=True)

    def preload(self, messages: str) -> None:
        self._adapter.preload(int(messages))
        self._say(done=True)

    def enqueue_one(self, messages: str) -> None:
        self._adapter.enqueue_one(0.0)
        self._wait_for_go()
        began = time.time()
        for _ in range(int(messages)):
            self._adapter.enqueue_one(0.0)
        self._say(began=began, ended=time.time())

    def enqueue_bulk(self, messages: str) -> None:
        self._adapter.enqueue_one(0.0)
        self._wait_for_go()
        began = time.time()
        self._adapter.enqueue_bulk(int(messages))
        self._say(began=began, ended=time.time())

    def pace(self, messages: str, gap: str) -> None:
        """Sends the messages so many seconds apart. What it sends to get warm says no time, and counts for nothing."""
        self._adapter.enqueue_one(0.0)
        self._wait_for_go()
        for _ in range(int(messages)):
            self._adapter.enqueue_one(time.time())
            time.sleep(float(gap))
        self._say(done=True)

    def watch(self) -> None:
        """Told to go when the last handler has been called, it answers when all is acknowledged too."""
        self._adapter.remaining()
        self._wait_for_go()
        while self._adapter.remaining():
            time.sleep(0.01)
        self._say(empty=time.time())

    def work(self) -> None:
        self._adapter.work()

    def _wait_for_go(self) -> None:
        self._say(ready=True)
        sys.stdin.readline()


def main() -> None:
    peer, operation, *numbers = sys.argv[1:]
    # What the peer prints must not be taken for an answer.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())

    def say(**words: Any) -> None:
        print(json.dumps(words), file=answers, flush=True)

    adapter: Adapter = import_module(f"benchmarks.queue.peers.adapters.{peer}").Adapter()
    getattr(Operations(adapter, say), operation)(*numbers)


if __name__ == "__main__":
    main()
