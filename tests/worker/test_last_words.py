"""Handlers are flushed before a process ends, and one that hangs holds nothing up for long."""

from __future__ import annotations

import logging
import multiprocessing
import os
import queue
import threading
import time
from collections.abc import Iterator
from logging.handlers import MemoryHandler, QueueHandler, QueueListener
from typing import Any

import pytest

from django_dbqueue.worker import last_words, mailing
from django_dbqueue.worker.fork import ChildProcess
from django_dbqueue.worker.mailing import MailingHandler
from tests.patience import patience


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


class Hanging(logging.Handler):
    """Mails when it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.begins, self.may = threading.Event(), threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        self.begins.set()
        self.may.wait(patience(60))


class Kept(logging.Handler):
    """Keeps what it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.kept.append(record.getMessage())


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


class Mails(MailingHandler):
    """Notes what it had to mail when it was flushed."""

    def flush(self) -> None:
        self.at_flush = [record.getMessage() for record in self._waiting]
        super().flush()


def test_mails_that_hang_hold_up_no_other_handler_and_are_waited_for_when_all_others_have_brought_theirs(
    held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = MemoryHandler(100, flushLevel=logging.CRITICAL)
    hanging = Hanging()
    mails = Mails([hanging])  # as in a worker: created last, so it would be flushed first
    memory.setTarget(mails)
    monkeypatch.setattr(mailing, "WITHIN", 60.0)
    held.may_flush.set()
    for handler, text in ((mails, "first"), (memory, "second")):
        handler.handle(logging.makeLogRecord({"msg": text, "levelno": logging.ERROR}))
    assert hanging.begins.wait(patience(60))
    last_words.flush()
    assert held.flushed.is_set()
    assert mails.at_flush == ["second"]
    hanging.may.set()
    mails.flush()
    for each in (memory, mails):
        each.close()


@pytest.mark.parametrize("is_here", [True, False])
def test_what_a_listener_has_to_write_is_written_by_its_process_or_by_this_copy_of_its_queue(*, is_here: bool) -> None:
    """A listener's thread doesn't survive a fork."""
    waiting: queue.Queue[Any] = queue.Queue()
    target, handler = Kept(), QueueHandler(waiting)
    listener = handler.listener = QueueListener(waiting, target)  # as dictConfig does from Python 3.12 on
    if is_here:
        listener.start()
    handler.emit(logging.makeLogRecord({"msg": "last"}))
    last_words.flush()
    assert target.kept == ["last"]
    handler.close()


def test_the_listener_of_another_process_goes_on_and_gets_what_this_one_has() -> None:
    context = multiprocessing.get_context("fork")
    waiting: Any = context.Queue()

    def end() -> None:
        handler = QueueHandler(waiting)
        handler.listener = QueueListener(waiting, Kept())
        handler.emit(logging.makeLogRecord({"msg": "last"}))
        last_words.flush()
        os._exit(0)

    child = context.Process(target=end)
    child.start()
    assert waiting.get(timeout=patience(60)).msg == "last"
    child.join()
    assert waiting.empty()


def test_what_was_kept_before_a_fork_is_written_once(capfd: pytest.CaptureFixture[str]) -> None:
    with os.fdopen(os.dup(2), "w") as stream:
        handler = MemoryHandler(100, target=logging.StreamHandler(stream))
        handler.emit(logging.makeLogRecord({"msg": "before", "levelno": logging.INFO}))
        child = ChildProcess(target=print, args=("child",))
        child.start()
        child.join()
        handler.flush()
        handler.close()
    assert capfd.readouterr().err.count("before") == 1
