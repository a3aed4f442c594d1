"""``run_queue_worker --reload`` in a project of its own: a save ends nothing half done, and the new code runs then."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.pages.page_project import ON_SQLITE, environment_there, make_project, shell
from tests.process.conftest import PATIENCE, wait_until, whole_lines

pytestmark = ON_SQLITE
CONSUMERS = """
import asyncio
import time
from pathlib import Path

from django_dbqueue import consumer

VERSION = "one"


def note(text):
    with Path("notes").open("a") as file:
        file.write(f"{text} {VERSION}\\n")


def may_end(message):
    return Path(message.payload).exists() or Path("over").exists()


@consumer("threads", max_reads=1)
def work(message):
    note("begin")
    while not may_end(message):
        time.sleep(0.02)
    note("end")


@consumer("coroutines", max_reads=1)
async def work_too(message):
    note("begin")
    while not may_end(message):
        await asyncio.sleep(0.02)
    note("end")
"""

ONLY_IN_THE_WORKER = """
import os
import sys
import time
from pathlib import Path

if "DBQUEUE_RELOADING_PARENT" in os.environ:
    {}
"""
"""A module ``queue_consumers`` that does something when the worker imports it, and nothing in its parent."""
WITHOUT_SIGHUP = ("/bin/sh", "-c", 'trap "" HUP; exec "$0" "$@"')
"""What nohup does."""
OF_ITS_TERMINAL = (
    sys.executable,
    "-c",
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])",
)


class Reloaded:
    """A project's directory, and the worker that reloads there."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, *options: str, within: Sequence[str] = (), terminal: int | None = None) -> subprocess.Popen[bytes]:
        """``within``: the words of a program that becomes the command; ``terminal``: its standard input."""
        with (self.directory / "output").open("w") as output:
            self.process = subprocess.Popen(
                [*within, sys.executable, "-m", "django", "run_queue_worker", "--reload", *options],
                cwd=self.directory,
                env=environment_there(self.directory),
                stdin=terminal,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return self.process

    @property
    def output(self) -> str:
        return (self.directory / "output").read_text()

    def save(self, text: str, file: str = "mail/queue_consumers.py") -> None:
        (self.directory / file).write_text(text)

    def send(self, name: str, queue: str = "threads") -> None:
        """Send a message whose handler ends when a file of this name is there."""
        shell(
            self.directory,
            "from django_dbqueue.models import Message",
            f"Message.objects.enqueue({name!r}, queue={queue!r})",
        )

    def let_end(self, name: str) -> None:
        (self.directory / name).touch()

    def wait_for(self, note: str) -> None:
        file = self.directory / "notes"
        wait_until(
            lambda: note in whole_lines(file), lambda: f"{note!r} in {whole_lines(file)}; output:\n{self.output}"
        )

    def wait_for_output(self, text: str) -> None:
        wait_until(lambda: text in self.output, lambda: f"{text!r} in the output:\n{self.output}")

    def reads_of_the_done(self) -> list[int]:
        printed = shell(
            self.directory,
            "from django_dbqueue.models import Message",
            "print(*Message.objects.done().values_list('read_count', flat=True))",
        )
        return [int(word) for word in printed.split()]


@pytest.fixture
def reloaded(tmp_path: Path) -> Iterator[Reloaded]:
    make_project(tmp_path, "mail", {"queue_consumers": CONSUMERS})
    project = Reloaded(tmp_path)
    yield project
    (tmp_path / "over").touch()
    if project.process is not None and project.process.poll() is None:
        os.killpg(project.process.pid, signal.SIGKILL)  # its worker notices
    if project.process is not None:
        project.process.wait()


def test_after_a_save_a_handler_finishes_with_the_old_code_and_the_next_one_has_the_new(reloaded: Reloaded) -> None:
    process = reloaded.start()
    reloaded.send("first")
    reloaded.wait_for("begin one")
    reloaded.save(CONSUMERS.replace('"one"', '"two"'))
    reloaded.wait_for_output("queue_consumers.py was saved: the worker restarts when its running handlers have ended")
    reloaded.wait_for_output("stopping: running handlers have 25 s to finish; a second signal cuts them off")
    reloaded.let_end("first")
    reloaded.wait_for("end one")
    reloaded.let_end("second")
    reloaded.send("second")
    reloaded.wait_for("end two")
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE) == 0, reloaded.output
    assert reloaded.output.count("worker started") == reloaded.output.count("worker ended") == 2
    assert reloaded.reads_of_the_done() == [1, 1]


@pytest.mark.parametrize("queue", ["threads", "coroutines"])
def test_what_runs_longer_than_the_grace_is_released_uncharged(queue: str, reloaded: Reloaded) -> None:
    """It is its only read: charged, it would be dead."""
    process = reloaded.start("--grace", "0.5")
    reloaded.send("first", queue)
    reloaded.wait_for("begin one")
    reloaded.save(CONSUMERS.replace('"one"', '"two"'))
    reloaded.wait_for("begin two")
    reloaded.let_end("first")
    reloaded.wait_for("end two")
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE) == 0, reloaded.output
    assert reloaded.reads_of_the_done() == [1]


@pytest.mark.parametrize("file", ["mail/queue_consumers.py", "of_page.py"])
def test_a_file_that_cannot_be_read_is_reported_and_the_next_save_starts_the_worker(
    file: str, reloaded: Reloaded
) -> None:
    good = (reloaded.directory / file).read_text()
    process = reloaded.start()
    reloaded.wait_for_output("worker started")
    reloaded.save(good + "\ndef broken(:\n", file)
    reloaded.wait_for_output("the worker ended with exit code 1; it starts again when a file of the project is saved")
    assert "SyntaxError" in reloaded.output
    reloaded.save(good, file)
    wait_until(lambda: reloaded.output.count("worker started") == 2, lambda: f"a start: {reloaded.output}")
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE) == 0, reloaded.output


def test_ctrl_c_while_it_waits_for_a_save_ends_it(reloaded: Reloaded) -> None:
    reloaded.save("def broken(:")
    process = reloaded.start()
    reloaded.wait_for_output("it starts again when a file of the project is saved")
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(PATIENCE) == 0, reloaded.output


def test_ctrl_c_after_a_save_cuts_no_handler_off(reloaded: Reloaded) -> None:
    process = reloaded.start()
    reloaded.send("first")
    reloaded.wait_for("begin one")
    reloaded.save(CONSUMERS.replace('"one"', '"two"'))
    reloaded.wait_for_output("stopping: running handlers have 25 s to finish; a second signal cuts them off")
    os.killpg(process.pid, signal.SIGINT)  # as a terminal sends it
    reloaded.let_end("first")
    assert process.wait(PATIENCE) == 0, reloaded.output
    assert (reloaded.directory / "notes").read_text() == "begin one\nend one\n"
    assert reloaded.reads_of_the_done() == [1]
    assert reloaded.output.count("worker started") == 1


def test_a_second_ctrl_c_cuts_handlers_off(reloaded: Reloaded) -> None:
    process = reloaded.start()
    reloaded.send("first")
    reloaded.wait_for("begin one")
    os.killpg(process.pid, signal.SIGINT)
    reloaded.wait_for_output("stopping: running handlers have 25 s to finish; a second signal cuts them off")
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(PATIENCE) == 3, reloaded.output


def test_a_worker_whose_parent_was_killed_stops(reloaded: Reloaded) -> None:
    process = reloaded.start()
    reloaded.send("first")
    reloaded.wait_for("begin one")
    process.kill()
    reloaded.wait_for_output("stopping: running handlers have 25 s to finish; a second signal cuts them off")
    reloaded.let_end("first")
    reloaded.wait_for_output("worker ended: 1 done")


def test_a_worker_that_has_drained_the_queue_ends_it(reloaded: Reloaded) -> None:
    reloaded.let_end("first")
    reloaded.send("first")
    process = reloaded.start("--drain")
    assert process.wait(PATIENCE) == 0, reloaded.output
    assert reloaded.reads_of_the_done() == [1]


def test_a_file_that_is_created_or_removed_counts_as_saved(reloaded: Reloaded) -> None:
    file = reloaded.directory / "mail" / "queue_consumers.py"
    aside = file.rename(reloaded.directory / "aside")
    process = reloaded.start()
    reloaded.wait_for_output("No consumer is registered")
    reloaded.wait_for_output("it starts again when a file of the project is saved")
    aside.rename(file)  # with its old time
    reloaded.wait_for_output("worker started")
    file.unlink()
    reloaded.wait_for_output("queue_consumers.py was removed: the worker restarts")
    wait_until(lambda: reloaded.output.count("it starts again") == 2, lambda: f"no consumer: {reloaded.output}")
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE) == 0, reloaded.output


def test_ctrl_c_while_the_worker_is_being_started_ends_it_without_a_traceback(reloaded: Reloaded) -> None:
    reloaded.save(ONLY_IN_THE_WORKER.format('Path("importing").touch(); time.sleep(600)'))
    process = reloaded.start()
    wait_until((reloaded.directory / "importing").exists, lambda: f"it to import: {reloaded.output}")
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(PATIENCE) == 0, reloaded.output
    assert reloaded.output == ""


def test_a_worker_that_asks_the_terminal_gets_no_answer_and_does_not_stand_still(reloaded: Reloaded) -> None:
    """It is in the background there: reading would stop it, for good."""
    ours, theirs = os.openpty()
    reloaded.save(ONLY_IN_THE_WORKER.format("input()"))
    process = reloaded.start(within=OF_ITS_TERMINAL, terminal=theirs)
    os.close(theirs)
    reloaded.wait_for_output("EOFError")
    reloaded.save(CONSUMERS)
    reloaded.wait_for_output("worker started")
    os.write(ours, b"\x03")
    assert process.wait(PATIENCE) == 0, reloaded.output
    os.close(ours)


def test_nohup_is_kept(reloaded: Reloaded) -> None:
    process = reloaded.start(within=WITHOUT_SIGHUP)
    reloaded.wait_for_output("worker started")
    os.killpg(process.pid, signal.SIGHUP)
    reloaded.save(CONSUMERS.replace('"one"', '"two"'))
    wait_until(lambda: reloaded.output.count("worker started") == 2, lambda: f"a restart: {reloaded.output}")
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE) == 0, reloaded.output
