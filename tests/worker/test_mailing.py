"""Errors are mailed beside the work: who mails may be slow, hang or fail."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator
from multiprocessing import get_context

import pytest

from django_dbqueue.worker import mailing
from django_dbqueue.worker.mailing import MailingHandler
from tests.patience import patience


class Mailer(logging.Handler):
    """Keeps what it is to mail, once it may."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.may = threading.Event()
        self.begins = threading.Event()
        self.mailed: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.begins.set()
        assert self.may.wait(patience(60))
        if record.msg == "broken":
            raise RuntimeError("no mail server")
        self.mailed.append(record.getMessage())


def threads() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name == "dbqueue-mails"]


@pytest.fixture
def mailer() -> Iterator[Mailer]:
    mailer = Mailer()
    yield mailer
    mailer.may.set()


@pytest.fixture
def log(mailer: Mailer) -> Iterator[logging.Logger]:
    log, handler = logging.getLogger("tests.mailing"), MailingHandler([mailer])
    log.addHandler(handler)
    yield log
    mailer.may.set()
    log.removeHandler(handler)
    handler.flush()
    handler.close()
    for thread in threads():
        thread.join(patience(60))


def test_a_mail_that_takes_long_holds_up_no_message_and_is_sent_before_the_end(
    log: logging.Logger, mailer: Mailer
) -> None:
    for text in ("one", "broken", "two"):
        log.error(text)
    log.warning("three")
    assert mailer.begins.wait(patience(60))
    assert mailer.mailed == []
    mailer.may.set()
    log.handlers[0].flush()
    assert mailer.mailed == ["one", "two"]
    assert threads() == []
    log.error("four")
    log.handlers[0].flush()
    assert mailer.mailed == ["one", "two", "four"]


def test_mails_that_hang_hold_up_the_end_for_a_moment_only(
    log: logging.Logger, mailer: Mailer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mailing, "WITHIN", 0.05)
    log.error("one")
    log.handlers[0].flush()
    assert mailer.mailed == []


def test_where_no_thread_can_start_the_next_record_tries_again(
    log: logging.Logger, mailer: Mailer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    mailer.may.set()
    with monkeypatch.context() as full:
        full.setattr(threading.Thread, "start", refuse)
        log.error("one")
        log.handlers[0].flush()
    assert mailer.mailed == []
    log.handlers[0].flush()
    assert mailer.mailed == ["one"], "the end is no record, and mails what waits"
    with monkeypatch.context() as full:
        full.setattr(threading.Thread, "start", refuse)
        log.error("two")
    log.error("three")
    log.handlers[0].flush()
    assert mailer.mailed == ["one", "two", "three"]


def test_what_comes_while_too_many_wait_is_not_mailed_and_that_is_logged_once(
    log: logging.Logger, mailer: Mailer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    log.error("first")
    assert mailer.begins.wait(patience(60))
    for number in range(mailing.MOST + 5):
        log.error("%s", number)
    assert caplog.text.count("mails to ADMINS wait") == 1
    mailer.may.set()
    log.handlers[0].flush()
    assert mailer.mailed == ["first", *map(str, range(mailing.MOST))]


def test_a_fork_mails_what_it_logs_and_not_what_waits_in_its_parent(log: logging.Logger, mailer: Mailer) -> None:
    log.error("parent's")
    assert mailer.begins.wait(patience(60))
    context = get_context("fork")
    receiver, sender = context.Pipe(duplex=False)

    def run() -> None:
        mailer.may = threading.Event()
        mailer.may.set()
        log.handlers[0].flush()
        log.error("child's")
        log.handlers[0].flush()
        sender.send(mailer.mailed)
        os._exit(0)

    pid = os.fork()
    if pid == 0:
        run()
    assert receiver.poll(patience(60))
    assert receiver.recv() == ["child's"]
    os.waitpid(pid, 0)
