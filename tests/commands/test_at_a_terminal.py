"""Commands at a terminal: a person who is asked, Ctrl-C, a watch that draws over itself."""

from __future__ import annotations

import codecs
import json
import os
import pty
import select
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from django_dbqueue.models import Message
from tests.commands.running import hidden, run, run_alone, start
from tests.factories import QUEUE, dead, rows, waiting
from tests.patience import patience

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.once]

PATIENCE = patience(60)


# -- a person at a terminal -------------------------------------------------------------------------------


class Terminal:
    """What a command draws, as a person sees it."""

    def __init__(self) -> None:
        self.ours, self.theirs = pty.openpty()
        self.seen = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")()  # a read may end within a character

    def wait_for(
        self, words: str, process: subprocess.Popen[str], *, times: int = 1, otherwise: Callable[[], object] = bool
    ) -> None:
        deadline = time.monotonic() + PATIENCE
        while self.seen.count(words) < times:
            if time.monotonic() > deadline:
                process.kill()
                pytest.fail(f"waited {PATIENCE:g} s in vain for {times} × {words!r} in {self.seen!r}")
            readable, _, _ = select.select([self.ours], [], [], 1)
            if readable:
                self.seen += self._decoder.decode(os.read(self.ours, 10_000))
            else:
                otherwise()


class Question:
    """A command whose standard input and error are a terminal, where a person sits."""

    def __init__(self, env: dict[str, str], *arguments: str) -> None:
        self.terminal = Terminal()
        theirs = self.terminal.theirs
        self.process = start(env, *arguments, stdin=theirs, stdout=subprocess.PIPE, stderr=theirs)
        os.close(theirs)
        self.is_interrupted = False

    @property
    def seen(self) -> str:
        return self.terminal.seen

    def answer(self, words: str) -> None:
        os.write(self.terminal.ours, f"{words}\n".encode())

    def wait_for(self, words: str) -> None:
        self.terminal.wait_for(words, self.process, otherwise=self._interrupt_again)

    def interrupt(self) -> None:
        """Press Ctrl-C; again, as people do, where it came just before the wait for an answer, which hides it."""
        self.is_interrupted = True
        self.process.send_signal(signal.SIGINT)

    def _interrupt_again(self) -> None:
        if self.is_interrupted:
            self.interrupt()

    def ended(self) -> tuple[int, str]:
        out, _ = self.process.communicate(timeout=PATIENCE)
        os.close(self.terminal.ours)
        return self.process.returncode, out


def ask_to_drop(env: dict[str, str]) -> Question:
    question = Question(env, "queue_drop", "--queue", QUEUE, "--state", "dead", "--all", "--reason", "why")
    question.wait_for("[y/N] ")
    assert f"Drop 2 messages that are dead in queue {QUEUE}? This can't be undone." in question.seen
    return question


@pytest.mark.parametrize(("answer", "code", "left"), [("y", 0, 0), ("YES", 0, 0), ("n", 1, 2), ("", 1, 2), ("?", 1, 2)])
def test_a_person_answers_and_only_a_yes_is_one(answer: str, code: int, left: int, worker_env: dict[str, str]) -> None:
    dead()
    dead()
    question = ask_to_drop(worker_env)
    question.answer(answer)
    assert question.ended() == (code, "" if code else "2 messages dropped.\n")
    assert Message.objects.dead().count() == left


def test_the_question_about_one_message_is_in_the_singular(worker_env: dict[str, str]) -> None:
    dead()
    question = Question(
        worker_env, "queue_drop", "--queue", QUEUE, "--state", "dead", "--limit", "5", "--reason", "why"
    )
    question.wait_for("[y/N] ")
    assert f"Drop 1 message that is dead in queue {QUEUE}? This can't be undone." in question.seen
    question.answer("y")
    assert question.ended() == (0, "1 message dropped.\n")


def test_an_interrupt_at_the_question_changes_nothing(worker_env: dict[str, str]) -> None:
    dead()
    dead()
    before = rows()
    question = ask_to_drop(worker_env)
    question.interrupt()
    question.wait_for("Interrupted.")
    assert question.ended() == (130, "")
    assert "Traceback" not in question.seen
    assert rows() == before


# -- watching ---------------------------------------------------------------------------------------------


def wait_for(watch: subprocess.Popen[str], what: str, is_it: Callable[[Any], bool]) -> Any:
    """Read document after document until one is it; a watch that never says so is killed, and has no more lines."""
    assert watch.stdout is not None
    alarm = threading.Timer(PATIENCE, watch.kill)
    alarm.start()
    try:
        for line in watch.stdout:
            if line.endswith("\n") and is_it(document := json.loads(line)):
                return document
    finally:
        alarm.cancel()
    pytest.fail(f"waited {PATIENCE:g} s in vain for {what}, or the watch has ended")


def test_a_watch_checks_again_until_it_is_stopped(worker_env: dict[str, str]) -> None:
    waiting()
    watch = start(worker_env, "queue_status", "--watch", "--interval", "0.1", "--json", stdout=subprocess.PIPE)
    assert wait_for(watch, "its first look", bool)["queues"][0]["ready"] == 1
    waiting()
    wait_for(watch, "both messages", lambda document: document["queues"][0]["ready"] == 2)
    watch.send_signal(signal.SIGTERM)
    watch.communicate(timeout=PATIENCE)
    assert watch.returncode == 0


def test_a_watch_waits_for_a_database_that_is_away(worker_env: dict[str, str]) -> None:
    waiting()
    watch = start(worker_env, "queue_status", "--watch", "--interval", "0.1", "--json", stdout=subprocess.PIPE)
    assert "queues" in wait_for(watch, "its first look", bool)
    with hidden("django_dbqueue_message"):
        wait_for(watch, "an error", lambda document: "error" in document)
    wait_for(watch, "the queues again", lambda document: "queues" in document)
    watch.send_signal(signal.SIGINT)
    watch.communicate(timeout=PATIENCE)
    assert watch.returncode == 0


def test_a_watch_on_a_terminal_draws_over_what_it_drew(worker_env: dict[str, str]) -> None:
    for number in range(60):
        waiting(queue=f"q{number:02}")
    terminal = Terminal()
    watch = start(
        worker_env | {"LINES": "20", "COLUMNS": "60"},
        *("queue_status", "--watch", "--interval", "0.1"),
        stdout=terminal.theirs,
    )
    os.close(terminal.theirs)
    terminal.wait_for("\x1b[H", watch, times=3)
    watch.send_signal(signal.SIGINT)
    watch.wait(PATIENCE)
    os.close(terminal.ours)
    screen = terminal.seen.split("\x1b[H")[1].replace("\x1b[K", "").replace("\x1b[J", "").splitlines()
    assert len(screen) == 19
    assert screen[1].startswith("QUEUE")
    assert screen[-1].startswith("… and ")
    assert max(map(len, screen)) <= 60
    assert watch.returncode == 0


def test_a_closed_pipe_ends_a_watch(worker_env: dict[str, str]) -> None:
    waiting()
    watch = start(
        worker_env, "queue_status", "--watch", "--interval", "0.1", stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert watch.stdout is not None
    assert watch.stdout.readline()
    watch.stdout.close()
    assert watch.stderr is not None
    with watch.stderr as complaint:
        assert complaint.read() == ""
    assert watch.wait(PATIENCE) == 141


def test_a_terminal_that_knows_ascii_only_is_written_to_in_escapes(worker_env: dict[str, str]) -> None:
    waiting()
    run("queue_pause", QUEUE, "--reason", "Störung ☎", "--by", "ann")
    ended = run_alone(worker_env | {"PYTHONIOENCODING": "ascii"}, "queue_status")
    assert ended.code == 0
    assert "St\\xf6rung \\u260e" in ended.out
    ended = run_alone(worker_env | {"PYTHONIOENCODING": "ascii"}, "queue_doctor")
    assert "\\u2192 manage.py run_queue_worker" in ended.out
