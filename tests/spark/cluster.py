"""A Spark standalone cluster on this machine: a master and workers as processes, by the scripts of PySpark's wheel."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

import pyspark

from tests.conftest import ROOT
from tests.patience import patience
from tests.servers.lifeline import ends_with_its_starter

SPARK_HOME = Path(pyspark.__file__).parent
PATIENCE = patience(120)
NO_DJANGO = """
import sys

class NoDjango:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "django":
            raise ImportError("executors have no Django")

sys.meta_path.insert(0, NoDjango())
"""
"""Python runs a ``sitecustomize`` before anything else."""


class Cluster:
    """A master's address, its workers by number, and a directory that all of them see."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.url = ""
        self.workers: dict[int, subprocess.Popen[bytes]] = {}

    @property
    def environment(self) -> dict[str, str]:
        """What daemons and drivers run in: loopback only, small heaps, this very Python."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
        return kept | {
            "SPARK_HOME": str(SPARK_HOME),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_NO_DAEMONIZE": "1",
            "PYSPARK_PYTHON": sys.executable,
        }

    def start(self, name: str, *arguments: str) -> tuple[subprocess.Popen[bytes], Path]:
        """Start a daemon in a process group of its own, which its executors belong to."""
        log = self.directory / f"{name}.log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                [str(SPARK_HOME / "bin" / "spark-class"), *arguments],
                env=self.environment,
                stdout=out,
                stderr=out,
                cwd=self.directory,
                start_new_session=True,
                preexec_fn=ends_with_its_starter(signal.SIGKILL),
            )
        return process, log

    def start_worker(self, number: int) -> None:
        worker = "org.apache.spark.deploy.worker.Worker"
        place = self.directory / f"worker-{number}"
        self.workers[number], log = self.start(
            f"worker-{number}", worker, "--host", "127.0.0.1", "--webui-port", "0", "--cores", "1", "--memory", "1g",
            "--work-dir", str(place), self.url,
        )  # fmt: skip
        wait_for_words(log, r"Successfully registered with master", self.workers[number])

    def kill_worker(self, number: int) -> None:
        """Kill a worker and its executors at once, as a machine dies."""
        os.killpg(self.workers[number].pid, signal.SIGKILL)
        self.workers.pop(number).wait()

    def submit(self, driver: Path, *arguments: str, options: dict[str, str], log: IO[bytes]) -> subprocess.Popen[bytes]:
        """Run a driver by spark-submit, with the package as ``--py-files`` and executors that can't import Django."""
        package = packed(self.directory / "django_dbqueue.zip")
        blocker = self.directory / "no_django"
        blocker.mkdir(exist_ok=True)
        (blocker / "sitecustomize.py").write_text(NO_DJANGO)
        settings = {
            "spark.executorEnv.PYTHONPATH": str(blocker),
            "spark.executor.memory": "512m",
            "spark.driver.memory": "512m",
            "spark.driver.host": "127.0.0.1",
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": "4",
        }
        flags = [flag for name, value in settings.items() for flag in ("--conf", f"{name}={value}")]
        named = [flag for name, value in options.items() for flag in (f"--{name}", value)]
        return subprocess.Popen(
            [str(SPARK_HOME / "bin" / "spark-submit"), "--master", self.url, "--py-files", str(package), *flags, *named,
             str(driver), *arguments],
            env=self.environment | {"PYTHONPATH": str(blocker)},
            stdout=log,
            stderr=log,
            start_new_session=True,
            preexec_fn=ends_with_its_starter(signal.SIGKILL),
        )  # fmt: skip

    def stop(self) -> None:
        for number in list(self.workers):
            self.kill_worker(number)


@contextmanager
def running_cluster(directory: Path, *, workers: int) -> Iterator[Cluster]:
    """A cluster that is ready; all of its processes are gone at the end."""
    cluster = Cluster(directory)
    with ExitStack() as stack:
        master, log = cluster.start(
            "master", "org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0"
        )
        stack.callback(kill_group, master)
        stack.callback(cluster.stop)
        cluster.url = wait_for_words(log, r"Starting Spark master at (spark://\S+)", master)[1]
        for number in range(workers):
            cluster.start_worker(number)
        yield cluster


def kill_group(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def wait_for_words(log: Path, pattern: str, process: subprocess.Popen[bytes]) -> re.Match[str]:
    """Wait until a process has logged the words; fail when it ends without."""
    end = time.monotonic() + PATIENCE
    while True:
        text = log.read_text(errors="replace")
        if found := re.search(pattern, text):
            return found
        assert process.poll() is None, f"it ended before it said {pattern!r}:\n{text[-4000:]}"
        assert time.monotonic() < end, f"it did not say {pattern!r} in {PATIENCE:g} s:\n{text[-4000:]}"
        time.sleep(0.1)


def packed(file: Path) -> Path:
    """The package as a zip, as docs/spark/cluster.md makes it: Python files only."""
    if not file.exists():
        with zipfile.ZipFile(file, "w") as archive:
            for path in [*sorted((ROOT / "django_dbqueue").rglob("*.py")), ROOT / "pyspark_dbqueue.py"]:
                archive.write(path, path.relative_to(ROOT))
    return file
