"""What a peer must be able to do."""

from __future__ import annotations

import asyncio
import os
import time
from abc import ABC, abstractmethod
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

from benchmarks.queue.peers.conditions import AT_ONCE, BODY
from benchmarks.queue.probe import hit

IN_FAULTS = "DBQUEUE_BENCH_FAULTS" in os.environ
"""Whether this is no race, but the scoreboard of faults: then settings are those by which a queue recovers soon."""
_SECONDS: Final = float(os.environ.get(BODY, 0))

_PADDING = "x" * 60


if IN_FAULTS:
    from benchmarks.faults.handler import handle as handled
elif _SECONDS:

    def handled(number: int) -> None:
        """What every handler in a thread or a process does."""
        time.sleep(_SECONDS)
        hit(number)
else:
    handled = hit


async def handled_in_a_coroutine(number: int) -> None:
    """The same, for handlers that are coroutines."""
    if IN_FAULTS:
        await asyncio.to_thread(handled, number)
        return
    if _SECONDS:
        await asyncio.sleep(_SECONDS)
    hit(number)


def at_once(best: int) -> int:
    """How many handlers run at once: as suits the peer best where they do nothing, else as many as everybody's."""
    return AT_ONCE if _SECONDS else best


def payload(number: int) -> dict[str, Any]:
    """What is enqueued everywhere; the number is what handlers report."""
    return {"n": number, "padding": _PADDING}


def server() -> SplitResult:
    """The peer's own database on the server of the contest."""
    return urlsplit(os.environ["DBQUEUE_BENCH_URL"])


class Adapter(ABC):
    """Made in each of the peer's processes, once. Its database is there, and empty before `set_up`."""

    @abstractmethod
    def set_up(self) -> None: ...

    @abstractmethod
    def enqueue_one(self, number: int) -> None:
        """As a web request would: one message, committed when this returns."""

    def enqueue_bulk(self, messages: int) -> None:
        """By the peer's documented interface for many messages."""
        raise NotImplementedError(f"{type(self).__module__} documents no bulk enqueue")

    @abstractmethod
    def preload(self, messages: int) -> None:
        """The numbers below that, by whatever is fastest; the rows are as if `enqueue_one` had made them."""

    @abstractmethod
    def remaining(self) -> int:
        """Messages not yet acknowledged."""

    def left(self) -> list[int]:
        """The numbers of messages that are not finished; for the scoreboard of faults."""
        raise NotImplementedError(f"{type(self).__module__} takes no part in the scoreboard")

    def failed(self) -> list[int]:
        """The numbers of messages that the queue has recorded as failed for good."""
        return []

    @abstractmethod
    def work(self) -> None:
        """Runs one worker, as its documentation says that one is run, until a signal ends it."""
