"""What a peer must be able to do."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from typing import Any
from urllib.parse import SplitResult, urlsplit

_PADDING = "x" * 60


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

    @abstractmethod
    def work(self) -> None:
        """Runs one worker, as its documentation says that one is run, until a signal ends it."""
