"""Commands at a terminal: a person who is asked, Ctrl-C, a watch that draws over itself."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import time
from typing import TYPE_CHECKING

import pytest

from django_dbqueue.models import Message
from tests.commands.running import hidden, run, run_alone, start
from tests.factories import QUEUE, dead, rows, waiting

if TYPE_CHECKING:
    pass

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.once]


# -- a person at a terminal -------------------------------------------------------------------------------


class Asked:
    """A command whose standard input and error are a terminal, where a person sits."""

    def __init__(self, env: dict[str, str], *arguments: str) -> None:
        self.terminal, theirs = pty.openpty()
        self.process = start(env, *arguments, stdin=theirs, stdout=subprocess.PIPE, stderr=theirs)
        os.close(theirs)
        self.seen = ""
        self.is_interrupted = False

    def wait_for(self, words: str) -> None:
        deadline = time.monotonic() + 60
        while words not in self.seen:
            readable, _, _ = select.select([self.terminal], [], [], 1)
            if readable:
                self.seen += os.read(self.terminal, 10_000).decode()
            elif time.monotonic() > deadline:
                self.process.kill()
                raise AssertionError(f"no {words!r} in {self.seen!r}")
            elif self.is_interrupted:
                self.interrupt()

    def interrupt(self) -> None:
        """Press Ctrl-C; again, as people do, where it came just before the wait for an answer, which hides it."""
        self.is_interrupted = True
        self.process.send_signal(signal.SIGINT)

    def ended(self) -> tuple[int, str]:
        out, _ = self.process.communicate(timeout=60)
        os.close(self.terminal)
        return self.process.returncode, out


def asked_to_drop(env: dict[str, str]) -> Asked:
    asked = Asked(env, "queue_drop", "--queue", QUEUE, "--state", "dead", "--all", "--reason", "why")
    asked.wait_for("[y/N] ")
    assert f"Drop 2 messages that are dead in queue {QUEUE}? This can't be undone." in asked.seen
    return asked


@pytest.mark.parametrize(("answer", "code", "left"), [("y", 0, 0), ("YES", 0, 0), ("n", 1, 2), ("", 1, 2), ("?", 1, 2)])
def test_a_person_is_asked_and_only_a_yes_is_one(answer: str, code: int, left: int, worker_env: dict[str, str]) -> None:
    dead()
    dead()
    asked = asked_to_drop(worker_env)
    os.write(asked.terminal, f"{answer}\n".encode())
    assert asked.ended() == (code, "" if code else "2 messages dropped.\n")
    assert Message.objects.dead().count() == left


def test_an_interrupt_at_the_question_changes_nothing(worker_env: dict[str, str]) -> None:
    dead()
    dead()
    before = rows()
    asked = asked_to_drop(worker_env)
    asked.interrupt()
    asked.wait_for("Interrupted.")
    assert asked.ended() == (130, "")
    assert "Traceback" not in asked.seen
    assert rows() == before


# -- watching ---------------------------------------------------------------------------------------------


def test_a_watch_looks_again_until_it_is_told_to_stop(worker_env: dict[str, str]) -> None:
    waiting()
    watch = start(worker_env, "queue_status", "--watch", "--interval", "0.1", "--json", stdout=subprocess.PIPE)
    assert watch.stdout is not None
    assert json.loads(watch.stdout.readline())["queues"][0]["ready"] == 1
    waiting()
    while json.loads(watch.stdout.readline())["queues"][0]["ready"] != 2:
        pass
    watch.send_signal(signal.SIGTERM)
    watch.communicate(timeout=60)
    assert watch.returncode == 0


def test_a_watch_waits_for_a_database_that_is_away(worker_env: dict[str, str]) -> None:
    waiting()
    watch = start(worker_env, "queue_status", "--watch", "--interval", "0.1", "--json", stdout=subprocess.PIPE)
    assert watch.stdout is not None
    assert "queues" in json.loads(watch.stdout.readline())
    with hidden("django_dbqueue_message"):
        while "error" not in json.loads(watch.stdout.readline()):
            pass
    while "queues" not in json.loads(watch.stdout.readline()):
        pass
    watch.send_signal(signal.SIGINT)
    watch.communicate(timeout=60)
    assert watch.returncode == 0


def test_a_watch_on_a_terminal_draws_over_what_it_drew(worker_env: dict[str, str]) -> None:
    for number in range(60):
        waiting(queue=f"q{number:02}")
    terminal, theirs = pty.openpty()
    watch = start(
        worker_env | {"LINES": "20", "COLUMNS": "60"}, "queue_status", "--watch", "--interval", "0.1", stdout=theirs
    )
    os.close(theirs)
    seen = ""
    while seen.count("\x1b[H") < 3:
        seen += os.read(terminal, 10_000).decode()
    watch.send_signal(signal.SIGINT)
    watch.wait(60)
    os.close(terminal)
    screen = seen.split("\x1b[H")[1].replace("\x1b[K", "").replace("\x1b[J", "").splitlines()
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
    assert watch.wait(60) == 141


def test_a_terminal_that_knows_ascii_only_is_written_to_in_escapes(worker_env: dict[str, str]) -> None:
    waiting()
    run("queue_pause", QUEUE, "--reason", "Störung ☎", "--by", "ann")
    ended = run_alone(worker_env | {"PYTHONIOENCODING": "ascii"}, "queue_status")
    assert ended.code == 0
    assert "St\\xf6rung \\u260e" in ended.out
    ended = run_alone(worker_env | {"PYTHONIOENCODING": "ascii"}, "queue_doctor")
    assert "\\u2192 manage.py run_queue_worker" in ended.out
