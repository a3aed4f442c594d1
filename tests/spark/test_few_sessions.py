"""64 partitions against a server that allows few sessions: everything ends well, and within its places."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from django_dbqueue.models import Message
from django_dbqueue.spark.credentials import Credentials
from tests.conftest import ROOT
from tests.spark.cluster import PATIENCE, kill_group
from tests.spark.drivers.many_tasks import FULL, HAS_ROWS, QUEUE, ROWS

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600), pytest.mark.django_db(transaction=True)]
if settings.TEST_DATABASE == "mysql":  # it has the locks of MariaDB
    pytestmark.append(pytest.mark.nightly)

ALLOWED = 10
PLACES = 8
ASKS = 1
"""Of each machine, one session may ask for a place."""
FEWER = 2
NONE_LEFT = "The database has no session left, retrying: "

if settings.TEST_DATABASE != "sqlite":
    from django_dbqueue.exceptions import DatabaseAway
    from django_dbqueue.spark.connection import Connection
    from tests.spark.narrow_account import Peaks, narrow_account

    class Driver:
        """A program with tasks; what it says of its steps, and its log."""

        def __init__(self, directory: Path, account: Credentials, steps: Sequence[str], *, sessions: int) -> None:
            self._directory = directory
            self._log = directory / "driver.log"
            (directory / "credentials.json").write_text(account.to_json())
            (directory / "step").write_text("start")
            command = [sys.executable, "-m", "tests.spark.drivers.many_tasks", str(directory / "credentials.json")]
            with self._log.open("wb") as out:
                self.process = subprocess.Popen(
                    [*command, str(directory), str(sessions), *steps],
                    cwd=ROOT, env=os.environ | {"TMPDIR": str(directory)}, stdout=out, stderr=out,
                    start_new_session=True,
                )  # fmt: skip

        @property
        def step(self) -> str:
            return (self._directory / "step").read_text()

        @property
        def log(self) -> str:
            return self._log.read_text(errors="replace")

        def has_ended(self) -> bool:
            """Whether it has; waits a moment for that."""
            try:
                self.process.wait(0.05)
            except subprocess.TimeoutExpired:
                return False
            assert self.process.returncode == 0, self.log[-6000:]
            return True

        def wait_for(self, event: Callable[[], Any], what: str) -> Any:
            """Wait for an event while it runs, and return what it gave."""
            deadline = time.monotonic() + PATIENCE
            while not (found := event()):
                assert not self.has_ended(), f"it ended before {what}"
                assert time.monotonic() < deadline, f"waited {PATIENCE} s in vain for {what}: {self.log[-6000:]}"
            return found

        def results(self) -> dict[str, Any]:
            """Return what each of the steps came to, once all of them have ended."""
            while not self.has_ended():
                continue
            results: dict[str, Any] = json.loads((self._directory / "results.json").read_text())
            return results

    @contextmanager
    def driven(directory: Path, account: Credentials, steps: Sequence[str], *, sessions: int) -> Iterator[Driver]:
        driver = Driver(directory, account, steps, sessions=sessions)
        try:
            yield driver
        finally:
            kill_group(driver.process)

    def watched(
        directory: Path, account: Credentials, steps: Sequence[str], *, sessions: int
    ) -> tuple[dict[str, Any], dict[str, int]]:
        """Run these steps; return what each of them came to, and the most sessions that each had."""
        with (
            Peaks(account.user) as peaks,
            driven(directory, account, steps, sessions=sessions) as driver,
        ):
            while not driver.has_ended():
                peaks.name = driver.step
            return driver.results(), peaks.seen

    def test_everything_ends_well_and_has_no_more_sessions_than_places(transactional_db: None, tmp_path: Path) -> None:
        with narrow_account(ALLOWED) as account:
            writes = ("write_staged", "write_direct", "read", "read_and_write_in_one_task", "consume", "write_stream")
            results, peaks = watched(tmp_path, account, writes, sessions=PLACES)
            assert results == {
                "write_staged": ROWS,
                "write_direct": ROWS,
                "read": 2 * ROWS,
                "read_and_write_in_one_task": 2 * ROWS,
                "consume": 2 * ROWS,
                "write_stream": ROWS,
            }
            assert set(writes) <= set(peaks)
            assert max(peaks.values()) <= PLACES + ASKS, peaks
            numbers = sorted(message.payload["number"] for message in Message.objects.filter(queue="again"))
            assert numbers == sorted([*range(ROWS)] * 2)
            assert Message.objects.filter(queue="streamed").count() == ROWS

            Message.objects.done(QUEUE).purge()
            jobs = ("follow", "export", "statistics", "replay", "ingest", "streams", "readers", "release", "forget")
            results, peaks = watched(tmp_path, account, jobs, sessions=PLACES)
            assert results["follow"] == 2 * ROWS
            assert f"{2 * ROWS:,} purged" in results["export"]
            assert f"of {2 * ROWS:,} messages" in results["statistics"]
            assert f"{2 * ROWS:,} messages enqueued" in results["replay"]
            assert f"{ROWS:,} messages created" in results["ingest"]
            assert results["streams"].startswith("many  queue many")
            assert "many  at the archive's id" in results["readers"]
            assert "0 messages were released" in results["release"]
            assert results["forget"].startswith("The stream 'many' is forgotten")
            assert max(peaks.values()) <= PLACES + ASKS, peaks
            assert Message.objects.filter(queue="replayed").count() == 2 * ROWS

    def test_more_places_than_the_server_allows_are_a_wait_and_no_failure(
        transactional_db: None, tmp_path: Path
    ) -> None:
        steps = ("write_when_full", "read_and_write_in_one_task")
        with (
            narrow_account(FEWER) as account,
            driven(tmp_path, account, steps, sessions=10 * FEWER) as driver,
            ExitStack() as others,
        ):
            driver.wait_for((tmp_path / HAS_ROWS).exists, "a task that has rows to write")

            def one_more() -> bool:
                try:
                    others.enter_context(Connection(account))
                except DatabaseAway as error:
                    if not error.is_full:
                        raise
                    return False
                return True

            for _ in range(FEWER):  # nobody has any while the tasks wait for rows
                driver.wait_for(one_more, "a session for somebody else")
            assert NONE_LEFT not in driver.log
            (tmp_path / FULL).touch()
            driver.wait_for(lambda: NONE_LEFT in driver.log, "a task that says that it has no session")
            others.close()
            assert driver.results() == {"write_when_full": ROWS, "read_and_write_in_one_task": ROWS}
        numbers = sorted(message.payload["number"] for message in Message.objects.filter(queue="again"))
        assert numbers == [*range(ROWS)]
