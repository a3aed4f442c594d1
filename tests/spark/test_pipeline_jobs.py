"""A job that the command runs on Spark: how it ends, by itself or by a signal, and that no credentials stay behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from django.test import override_settings

from django_dbqueue.models import Message, QueueStatistic
from tests.patience import patience
from tests.process.conftest import wait_until
from tests.spark.calling import call
from tests.spark.histories import ended, saved

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.once, pytest.mark.django_db(transaction=True)]

NINE = datetime(2026, 3, 1, 9, tzinfo=UTC)


def left(scratch: Path) -> list[Path]:
    """What is left there, besides the lock file at which tasks queue up: that one is empty."""
    return [each for each in scratch.iterdir() if each.suffix != ".lock" or each.read_bytes()]


def test_a_job_runs_in_the_caller_s_session_and_leaves_no_credentials(spark: SparkSession, scratch: Path) -> None:
    saved(ended(NINE))

    code, out, _complaint = call("statistics")

    assert (code, "1 roll-ups of 1 messages" in out) == (0, True)
    assert QueueStatistic.objects.get().messages == 1
    assert not left(scratch)
    assert spark.range(3).count() == 3  # it was not stopped


def test_a_job_that_fails_reports_why_in_one_sentence_and_leaves_no_credentials(
    spark: SparkSession, scratch: Path, tmp_path: Path
) -> None:
    code, _out, complaint = call("replay", "--lake", str(tmp_path / "nowhere"))

    assert (code, complaint.startswith("There is no lake at ")) == (2, True)
    assert not left(scratch)


def test_the_credentials_file_is_the_user_s_alone(spark: SparkSession, scratch: Path, monkeypatch: Any) -> None:
    from django_dbqueue.spark.jobs import statistics

    modes: list[int] = []

    def run(_spark: Any, config: Any, *, progress: Callable[..., None]) -> str:
        modes.append(Path(config.credentials_file).stat().st_mode & 0o777)
        raise KeyboardInterrupt

    monkeypatch.setattr(statistics, "run", run)

    assert call("statistics")[0] == 130
    assert modes == [0o600]
    assert not left(scratch)


def test_an_ingest_takes_from_the_settings_what_an_enqueue_would(
    spark: SparkSession, scratch: Path, tmp_path: Path
) -> None:
    source = tmp_path / "rows.csv"
    source.write_text("n\n1\n")
    arguments = ("ingest", "--source", str(source), "--option", "header=true", "--queue", "emails", "--job-id", "one")
    with override_settings(DBQUEUE={"QUEUES": {"emails": {"priority": 7}}, "MAX_PAYLOAD_BYTES": 5}):
        code, _out, complaint = call(*arguments)
        assert (code, "MAX_PAYLOAD_BYTES" in complaint) == (1, True)
        assert call(*arguments, "--max-payload-bytes", "100")[0] == 0

    assert [(message.payload, message.priority) for message in Message.objects.all()] == [({"n": "1"}, 7)]


@contextlib.contextmanager
def started(worker_env: dict[str, str], scratch: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "django", "queue_pipeline", *arguments],
        env=worker_env | {"TMPDIR": str(scratch)},
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), pytest.param(signal.SIGINT, 130, marks=pytest.mark.nightly)]
)
def test_a_stop_signal_removes_the_credentials_and_ends_the_jvm(
    worker_env: dict[str, str], tmp_path: Path, number: signal.Signals, code: int
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    local = f"spark.local.dir={tmp_path / 'local'}"
    arguments = ("statistics", "--conf", "spark.driver.memory=1g", "--conf", local)
    with started(worker_env, scratch, *arguments) as process:
        wait_until(lambda: list(scratch.glob("dbqueue-*.json")), "the credentials file")
        wait_until(lambda: list(tmp_path.glob("local/blockmgr-*")), "the session")

        process.send_signal(number)

        assert process.wait(patience(60)) == code
        assert not list(scratch.glob("dbqueue-*.json"))
        wait_until(lambda: not _members(process.pid), "the end of the JVM")


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), pytest.param(signal.SIGINT, 130, marks=pytest.mark.nightly)]
)
def test_a_stop_signal_while_the_jvm_starts_leaves_none_behind(
    worker_env: dict[str, str], tmp_path: Path, number: signal.Signals, code: int
) -> None:
    with started(worker_env, tmp_path, "statistics", "--conf", "spark.driver.memory=1g") as process:
        wait_until(lambda: len(_members(process.pid)) > 1, "the start of the JVM")

        process.send_signal(number)

        assert process.wait(patience(60)) == code
        wait_until(lambda: not _members(process.pid), "the end of the JVM")


def _members(group: int) -> list[int]:
    """The processes of a group that are left."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, IndexError):
            state, _parent, of = stat.read_text().rpartition(")")[2].split()[:3]
            if int(of) == group and state != "Z":
                found.append(int(stat.parent.name))
    return found
