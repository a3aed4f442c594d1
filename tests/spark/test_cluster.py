"""Write, stream and export on a real standalone cluster whose executors have no Django; one worker is killed."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import settings

from django_dbqueue.management.spark_settings import credentials_of
from django_dbqueue.models import ArchivedMessage, Message, PublishedJob, StagedMessage, StreamClaim
from tests.conftest import ROOT
from tests.patience import patience
from tests.spark.cluster import Cluster, kill_group, running_cluster
from tests.spark.drivers.on_a_cluster import ROWS

pytestmark = [pytest.mark.spark, pytest.mark.nightly, pytest.mark.django_db(transaction=True)]
PATIENCE = patience(300)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with running_cluster(tmp_path, workers=2) as running:
        yield running


def wait_until(found: object, driver: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until a callable says yes; fail when the driver ends before."""
    assert callable(found)
    end = time.monotonic() + PATIENCE
    while not found():
        assert driver.poll() is None, log.read_text(errors="replace")[-6000:]
        assert time.monotonic() < end, log.read_text(errors="replace")[-6000:]
        time.sleep(0.1)


if settings.TEST_DATABASE != "sqlite":  # whose file is for one machine

    def test_write_stream_and_export_come_out_whole_though_a_worker_dies(cluster: Cluster, tmp_path: Path) -> None:
        credentials = tmp_path / "credentials.json"
        credentials.write_text(credentials_of("default").to_json())
        shared = tmp_path / "shared"
        shared.mkdir()
        log = tmp_path / "driver.log"
        with log.open("wb") as out:
            driver = cluster.submit(
                ROOT / "tests/spark/drivers/on_a_cluster.py", str(shared), options={"files": str(credentials)}, log=out
            )
        try:
            wait_until(lambda: both_work(shared), driver, log)
            cluster.kill_worker(0)
            (shared / "go on").touch()
            wait_until((shared / "consumed").exists, driver, log)
            whole_in_the_queue_once(shared)
            assert Message.objects.archive("cluster", older_than=0) == ROWS
            (shared / "archived").touch()
            assert driver.wait(PATIENCE) == 0, log.read_text(errors="replace")[-6000:]
        finally:
            kill_group(driver)
        assert json.loads((shared / "exported.json").read_text()) == {"rows": ROWS}
        assert not ArchivedMessage.objects.exists()
        assert list((shared / "lake").rglob("*.parquet"))


def both_work(shared: Path) -> bool:
    """Whether tasks run on both workers."""
    return len({file.read_text().split("worker-")[1][:1] for file in shared.glob("task-*") if file.read_text()}) == 2


def whole_in_the_queue_once(shared: Path) -> None:
    assert json.loads((shared / "consumed.json").read_text()) == [ROWS, ROWS]
    assert (Message.objects.done("cluster").count(), Message.objects.count()) == (ROWS, ROWS)
    assert PublishedJob.objects.get().created == ROWS
    assert not StagedMessage.objects.exists()
    assert set(StreamClaim.objects.values_list("state", flat=True)) == {"acked"}
