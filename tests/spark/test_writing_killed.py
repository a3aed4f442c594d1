"""Drivers that are killed, with their JVM and workers, at every point of a publication; then the job runs again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from django.conf import settings

from django_dbqueue.models import Message, PublishedJob, StagedMessage
from tests.conftest import ROOT
from tests.patience import patience
from tests.spark.drivers.write import QUEUE

# Two or three JVMs for a test, one after the other.
pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

DRIVERS = Path(__file__).parent / "drivers"
POINTS = ("staged", "before", "inside", "after")
EVERY_CHANGE = {"after"} if settings.TEST_DATABASE == "mariadb" else set()
by_night = [pytest.param(each, marks=() if each in EVERY_CHANGE else pytest.mark.nightly) for each in POINTS]


@pytest.fixture
def driver(credentials_file: str, tmp_path: Path) -> Callable[..., int]:
    """Runs a driver to its end, which comes at a point of its publication the first time; gives its return code."""

    def run(how: str, *, dying_at: str = "") -> int:
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join([str(DRIVERS / "dying"), str(ROOT)]),
            "PYSPARK_PYTHON": sys.executable,
            "DYING_AT": dying_at,
            "DYING_FILE": str(tmp_path / "reached"),
            "DYING_DRIVER": str(tmp_path / "driver"),
        }
        command = [sys.executable, str(DRIVERS / "write.py"), how, credentials_file, str(tmp_path)]
        process = subprocess.Popen(command, env=environment, start_new_session=True)
        try:
            return process.wait(timeout=patience(180))
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    return run


@pytest.mark.parametrize("point", by_night)
def test_a_job_whose_driver_is_killed_is_whole_or_not_there_and_runs_again(
    driver: Callable[..., int], tmp_path: Path, point: str
) -> None:
    assert driver("batch", dying_at=point) == -signal.SIGKILL
    assert (tmp_path / "reached").exists()
    assert Message.objects.count() == (2000 if point == "after" else 0)
    assert PublishedJob.objects.exists() is (point == "after")
    if point == "after":
        Message.objects.ack(Message.objects.claim(300, queue=QUEUE, lease=60))  # whose keys are free again
    assert driver("batch") == 0
    assert sorted(message.payload for message in Message.objects.all()) == list(range(2000))
    assert PublishedJob.objects.values_list("name", "created", "ignored").get() == ("job", 2000, 0)
    # of the killed run: what its age will purge, and never anything of the one that ended well
    assert StagedMessage.objects.count() == (0 if point == "after" else 2000)


@pytest.mark.parametrize("point", by_night)
def test_a_stream_that_is_killed_goes_on_from_its_checkpoint_and_doubles_nothing(
    driver: Callable[..., int], tmp_path: Path, point: str
) -> None:
    (tmp_path / "source").mkdir()
    for name, first in (("a", 0), ("b", 50), ("c", 100)):
        lines = [f'{{"id": {first + place}}}' for place in range(50)]
        (tmp_path / "source" / f"{name}.json").write_text("\n".join(lines))
    assert driver("stream", dying_at=point) == -signal.SIGKILL
    assert Message.objects.count() == (50 if point == "after" else 0)
    assert driver("stream") == 0
    assert sorted(message.payload for message in Message.objects.all()) == list(range(150))
    assert set(PublishedJob.objects.values_list("name", flat=True)) == {"stream:0", "stream:1", "stream:2"}
