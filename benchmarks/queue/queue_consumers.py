"""What the benchmarks' workers do with a message: next to nothing, or nothing for five milliseconds."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from benchmarks.queue.probe import hit
from benchmarks.queue.statements import trace_if_told
from django_dbqueue import consumer

if TYPE_CHECKING:
    from django_dbqueue.models import Message

trace_if_told()


@consumer("bench")
def count(message: Message) -> None:
    hit(message.payload["n"])


@consumer("bench-slow")
def wait(message: Message) -> None:
    time.sleep(0.005)
    hit(message.payload["n"])
