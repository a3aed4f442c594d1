"""Handlers are flushed before a process ends, and one that hangs holds nothing up for long."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator

import pytest

from django_dbqueue.worker import last_words


class Held(logging.Handler):
    """Flushes when it is let, and says so; or raises."""

    def __init__(self, *, raises: bool = False) -> None:
        super().__init__()
        self.raises = raises
        self.may_flush = threading.Event()
        self.flushed = threading.Event()

    def flush(self) -> None:
        if self.raises:
            raise RuntimeError("no log server")
        self.may_flush.wait(60)
        self.flushed.set()


@pytest.fixture
def held() -> Iterator[Held]:
    handler = Held()
    yield handler
    handler.may_flush.set()
    handler.close()


def test_one_that_raises_keeps_no_other_from_being_flushed(held: Held) -> None:
    raising = Held(raises=True)  # created later, so flushed first
    held.may_flush.set()
    last_words.flush()
    assert held.flushed.is_set()
    raising.raises = False
    raising.may_flush.set()
    raising.close()


def test_one_that_hangs_holds_the_end_up_for_two_seconds(held: Held, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(last_words, "WITHIN", 0.1)
    began = time.monotonic()
    last_words.flush()
    assert not held.flushed.is_set()
    assert time.monotonic() - began < 30
