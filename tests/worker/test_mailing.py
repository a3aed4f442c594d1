"""Errors are mailed beside the work: who mails may be slow, hang or fail."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator
from multiprocessing import get_context

import pytest
from django.utils.log import AdminEmailHandler

from django_dbqueue.worker import logs, mailing
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


class Mails(AdminEmailHandler):
    """Notes what it is to mail, and in which thread."""

    def __init__(self, mailed: list[tuple[str, str]]) -> None:
        super().__init__()
        self.mailed = mailed

    def emit(self, record: logging.LogRecord) -> None:
        self.mailed.append((record.getMessage(), threading.current_thread().name))


def test_what_other_loggers_mail_holds_up_no_message_either_and_a_death_is_mailed_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Django 6 logs each task that failed, in the thread that settles it, below the logger that mails."""
    mailed: list[tuple[str, str]] = []
    for name in ("django", "shop"):
        monkeypatch.setattr(logging.getLogger(name), "handlers", [Mails(mailed)])
    package = logging.getLogger("django_dbqueue")
    for name in ("handlers", "propagate", "level"):
        monkeypatch.setattr(package, name, getattr(package, name))
    for _ in range(2):  # some commands set it up again
        package.handlers = []
        logs.set_up("text", 1)
    tasks = logging.getLogger("django.tasks")
    tasks.error("Task id=%s path=%s state=%s", "17", "shop.tasks.pay", "FAILED")
    tasks.error("Task id=%s path=%s state=%s", "gEw2", "shop.tasks.at_once", "FAILED")
    for name in ("django_dbqueue", "django.request", "shop"):
        logging.getLogger(name).error(name)
    for handler in (*package.handlers, *(logging.getLogger(name).handlers[0] for name in ("django", "shop"))):
        handler.flush()
    assert {thread for _, thread in mailed} == {"dbqueue-mails"}
    texts = ["Task id=gEw2 path=shop.tasks.at_once state=FAILED", "django.request", "django_dbqueue", "shop"]
    assert sorted(text for text, _ in mailed) == texts
