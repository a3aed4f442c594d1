"""The worker as the files to copy start, probe and stop it: a handler that runs at the stop signal finishes."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.pages.deploy_files import commands, pod, services
from tests.pages.page_project import ON_SQLITE, environment_there, make_project, shell
from tests.process.conftest import PATIENCE, wait_until

pytestmark = ON_SQLITE
CONSUMERS = """
import time
from pathlib import Path

from django_dbqueue import consumer


@consumer("slow")
def work(message):
    Path("begun").touch()
    while not Path("go").exists():
        time.sleep(0.02)
"""
MANAGE = """
from django.core.management import execute_from_command_line
import sys

execute_from_command_line(sys.argv)
"""
SEND = "from django_dbqueue.models import Message\nMessage.objects.enqueue(1, queue='slow')"
COUNT = "from django_dbqueue.models import Message\nprint(Message.objects.done('slow').filter(read_count=1).count())"
AS_PROCESS_1 = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")


class Deployed:
    """A project's directory, and the worker that a file's command has started there."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.processes: list[subprocess.Popen[str]] = []

    def words(self, command: Sequence[str]) -> list[str]:
        """The command with this Python, and with the files of this project."""
        python = {"python", "/srv/shop/.venv/bin/python"}
        words = [sys.executable if word in python else word for word in command]
        return [word.replace("/run/worker/", f"{self.directory}/") for word in words]

    def start(self, command: Sequence[str], *, within: Sequence[str] = ()) -> subprocess.Popen[str]:
        with (self.directory / "output").open("w") as output:
            process = subprocess.Popen(
                [*within, *self.words(command)],
                cwd=self.directory,
                env=environment_there(self.directory),
                stdout=output,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
            )
        self.processes.append(process)
        return process

    @property
    def output(self) -> str:
        return (self.directory / "output").read_text()

    def probe(self, command: Sequence[str]) -> bool:
        """Run a probe's command, and return whether it is content."""
        return subprocess.run(self.words(command), capture_output=True, check=False).returncode == 0

    def let_a_handler_end_at_the_stop(self, process: subprocess.Popen[str], pid: int) -> None:
        """Send SIGTERM to one process alone while a handler runs; the worker waits for it, and ends well."""
        shell(self.directory, SEND)
        wait_until((self.directory / "begun").exists, lambda: f"the handler to begin: {self.output}")
        os.kill(pid, signal.SIGTERM)
        wait_until(lambda: "stopping: running handlers have 25 s to finish" in self.output, "it to stop")
        (self.directory / "go").touch()
        assert process.wait(PATIENCE) == 0, self.output
        assert shell(self.directory, COUNT) == "1\n"


@pytest.fixture
def deployed(tmp_path: Path) -> Iterator[Deployed]:
    make_project(tmp_path, "mail", {"queue_consumers": CONSUMERS})
    (tmp_path / "manage.py").write_text(MANAGE)
    project = Deployed(tmp_path)
    yield project
    for process in project.processes:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.mark.parametrize("name", ["shop-worker.service", "shop-worker.conf"])
def test_a_signal_to_the_worker_alone_lets_its_handler_finish(name: str, deployed: Deployed) -> None:
    process = deployed.start(commands()[name])
    deployed.let_a_handler_end_at_the_stop(process, process.pid)


def test_in_kubernetes_the_probes_follow_the_worker(deployed: Deployed) -> None:
    [container] = pod()["containers"]
    ready, alive = (container[f"{which}Probe"]["exec"]["command"] for which in ("readiness", "liveness"))
    assert not deployed.probe(ready)
    assert not deployed.probe(alive)
    process = deployed.start(commands()["worker.yaml"])
    wait_until(lambda: deployed.probe(ready), lambda: f"it to be ready: {deployed.output}")
    assert deployed.probe(alive)
    file = deployed.directory / "alive"
    process.send_signal(signal.SIGSTOP)
    wait_until(lambda: "\nState:\tT" in Path(f"/proc/{process.pid}/status").read_text(), "it to stand still")
    os.utime(file, (time.time() - 61,) * 2)
    assert not deployed.probe(alive), "nothing has turned for a minute"
    process.send_signal(signal.SIGCONT)
    wait_until(lambda: deployed.probe(alive), "its loops to turn")
    deployed.let_a_handler_end_at_the_stop(process, process.pid)
    assert not deployed.probe(ready)


def _can_have_namespaces() -> bool:
    if shutil.which("unshare") is None:
        return False
    return subprocess.run([*AS_PROCESS_1, "true"], capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not _can_have_namespaces(), reason="this account may make no PID namespace")
def test_as_process_1_of_a_container_it_hears_the_signal_and_is_healthy(deployed: Deployed) -> None:
    kind, health = services()["worker"]["healthcheck"]["test"]
    assert kind == "CMD-SHELL"
    process = deployed.start(commands()["Dockerfile"], within=AS_PROCESS_1)
    probe = ["sh", "-c", health.replace("$$", "$")]  # as Compose reads it
    wait_until(lambda: deployed.probe(probe), lambda: f"it to be healthy: {deployed.output}")
    [first] = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    assert "NSpid:\t" + f"{first}\t1\n" in Path(f"/proc/{first}/status").read_text()
    deployed.let_a_handler_end_at_the_stop(process, int(first))
