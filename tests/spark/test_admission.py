"""Sessions hold places: never more of them than there are places, and one that ends, in any way, leaves its own."""

from __future__ import annotations

import logging
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from django.conf import settings

from django_dbqueue.exceptions import DatabaseAway, InvalidPipeline
from django_dbqueue.management.spark_settings import credentials_of
from django_dbqueue.spark import admission
from django_dbqueue.spark.admission import admitted, open_lasting
from django_dbqueue.spark.connection import Connection
from django_dbqueue.spark.credentials import Credentials
from tests.conftest import ROOT
from tests.patience import patience
from tests.process.conftest import wait_until
from tests.spark.waiting import assert_it_is_waited_for

pytestmark = pytest.mark.django_db(transaction=True)

HOLDS = """
import sys
from dataclasses import replace
from django_dbqueue.spark.admission import admitted
from django_dbqueue.spark.credentials import Credentials

credentials = replace(Credentials.parse(sys.stdin.readline(), where="the test"), max_connections=int(sys.argv[1]))
session = admitted(credentials)
print("admitted", flush=True)
sys.stdin.read()
"""


def test_a_file_of_sqlite_has_no_sessions_to_count() -> None:
    file = Credentials(vendor="sqlite", name="/a/file", max_connections=8)
    assert not file.is_counted
    assert replace(file, vendor="mysql").is_counted
    assert not replace(file, vendor="mysql", max_connections=0).is_counted


@pytest.mark.parametrize("value", ["-1", "many", "1001", "", "8.5"])
def test_a_number_of_sessions_that_is_none_is_refused(credentials_file: str, value: str) -> None:
    options = {"credentials_file": credentials_file, "maxconnections": value}
    with pytest.raises(InvalidPipeline, match=f"'maxConnections' is '{value}'; it must be a whole number from 0 to"):
        Credentials.load(options)


def test_there_are_eight_unless_it_is_set(credentials_file: str) -> None:
    options = {"credentials_file": credentials_file}
    assert Credentials.load(options).max_connections == 8
    assert Credentials.load({**options, "MAXCONNECTIONS": "0"}).max_connections == 0


if settings.TEST_DATABASE != "sqlite":
    from pyspark.sql.types import StringType, StructField, StructType

    from django_dbqueue.models import Message
    from django_dbqueue.spark import write_tasks, writing
    from tests.spark.narrow_account import narrow_account
    from tests.spark.stopping import frame
    from tests.spark.table_readers import messages, reader

    JSON = StructType([StructField("json", StringType())])

    @pytest.fixture
    def credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Credentials:
        """Of the test database, of which the pipeline may have two sessions; a machine of its own."""
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
        return replace(credentials_of("default"), max_connections=2)

    @pytest.fixture
    def elsewhere(credentials: Credentials) -> Iterator[subprocess.Popen[str]]:
        """A process of another machine with one of the sessions."""
        with subprocess.Popen(
            [sys.executable, "-c", HOLDS, "2"], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(credentials.to_json() + "\n")
            process.stdin.flush()
            assert process.stdout.readline() == "admitted\n"
            yield process
            process.kill()

    def begun(credentials: Credentials) -> tuple[threading.Thread, list[Connection]]:
        """Somebody who asks for a session."""
        found: list[Connection] = []
        thread = threading.Thread(target=lambda: found.append(admitted(credentials)), daemon=True)
        thread.start()
        return thread, found

    def end(found: list[Connection]) -> bool:
        """End the session of somebody who has one; whether there was one."""
        for each in found:
            each.discard()
        return bool(found)

    def answers_of(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
        """Whether there was a place, each time that somebody asked."""
        answers: list[bool] = []
        real = admission._takes_place

        def noted(*args: object) -> bool:
            answers.append(real(*args))  # type: ignore[arg-type]
            return answers[-1]

        monkeypatch.setattr(admission, "_takes_place", noted)
        return answers

    def test_who_finds_no_place_waits_until_one_is_free(
        credentials: Credentials, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        first, second = admitted(credentials), admitted(credentials)
        answers = answers_of(monkeypatch)
        thread, found = begun(credentials)
        wait_until(lambda: answers.count(False) > 2, "the third to have asked a few times")
        assert not found
        first.close()
        thread.join(patience(60))
        assert found[0].clock()
        for each in (second, found[0]):
            each.close()

    def test_a_process_that_is_killed_leaves_its_place(
        credentials: Credentials, elsewhere: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        answers = answers_of(monkeypatch)
        with admitted(credentials):
            thread, found = begun(credentials)
            wait_until(lambda: answers.count(False) > 2, "the places to be taken")
            elsewhere.kill()
            thread.join(patience(60))
            assert found[0].clock()
        found[0].close()

    def test_one_process_of_a_machine_asks_at_a_time(credentials: Credentials, monkeypatch: pytest.MonkeyPatch) -> None:
        opened: list[str] = []
        real = Connection.__init__

        def noted(connection: Connection, given: Credentials) -> None:
            opened.append(threading.current_thread().name)
            real(connection, given)

        working = [admitted(credentials), admitted(credentials)]
        monkeypatch.setattr(Connection, "__init__", noted)
        waiting = [begun(credentials) for _ in range(5)]
        wait_until(lambda: len(opened) > 5, "somebody to have asked a few times")
        assert len(set(opened)) == 1
        for each in working:
            each.close()
        wait_until(lambda: [end(found) for _, found in waiting].count(True) == 5, "all of them to have had a session")
        for thread, _ in waiting:
            thread.join(patience(60))
        assert len(set(opened)) == 5

    def test_what_stands_waits_for_nothing_and_leaves_a_place_to_tasks(credentials: Credentials) -> None:
        streams = [open_lasting(credentials) for _ in range(3)]
        with admitted(credentials) as task:
            assert task.clock()
            streams.append(open_lasting(credentials))
        for each in streams:
            assert each.clock()
            each.close()

    def test_a_reader_has_no_session_while_its_rows_are_worked_on(
        credentials: Credentials, credentials_file: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        messages(range(1, 41))
        answers = answers_of(monkeypatch)
        one = reader(credentials_file, pageRows=10, fetchRows=5, maxConnections=1)
        [partition] = one.partitions()
        rows = 0
        for batch in one.read(partition):
            rows += batch.num_rows
            with admitted(replace(credentials, max_connections=1)) as session:
                assert session.clock()
        assert rows == 40
        assert answers.count(True) >= 1 + 4 + 8

    @pytest.mark.parametrize("how", [{"job_id": "j"}, {"direct": "true"}])
    def test_a_writer_has_no_session_while_it_waits_for_rows(
        credentials: Credentials, credentials_file: str, how: dict[str, str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(write_tasks, "_STATEMENTS", 1)
        begun: list[object] = []

        def in_between() -> None:
            with admitted(replace(credentials, max_connections=1)) as session:
                begun.append(session.clock())

        options = {"credentials_file": credentials_file, "queue": "q", "batchSize": "7", "maxConnections": "1", **how}
        writer = writing.writer_of(options, JSON, overwrite=False)
        writer.commit([writer.write(frame(range(100), in_between))])
        assert len(begun) == 1
        assert Message.objects.count() == 100

    def test_what_stands_is_counted(credentials: Credentials, monkeypatch: pytest.MonkeyPatch) -> None:
        answers = answers_of(monkeypatch)
        stream = open_lasting(credentials)
        with admitted(credentials):
            assert answers == [True, True]
            thread, found = begun(credentials)
            wait_until(lambda: answers.count(False) > 2, "the places to be taken")
            stream.close()
            thread.join(patience(60))
        found[0].close()

    def test_a_long_wait_is_reported(
        credentials: Credentials, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.setattr(admission, "_REPORTED_AFTER", 0.0)
        first = admitted(credentials)
        with admitted(credentials), caplog.at_level(logging.WARNING):
            thread, found = begun(credentials)
            wait_until(lambda: caplog.records, "the report")
            first.close()
            thread.join(patience(60))
        found[0].close()
        logged = caplog.messages[0]
        assert f"All 2 sessions that maxConnections allows on the database '{credentials.name}' are in use" in logged

    def test_a_lock_file_that_is_a_link_is_not_followed(
        credentials: Credentials, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        target = tmp_path / "somebody's file"
        admission._gate_file(credentials).symlink_to(target)
        with admitted(credentials) as session:
            assert session.clock()
        assert not target.exists()
        assert "No lock file can be created" in caplog.text

    def test_an_account_without_a_session_left_is_waited_for_at_the_head_of_the_queue(
        credentials: Credentials, caplog: pytest.LogCaptureFixture
    ) -> None:
        with narrow_account(1) as account:
            narrow = replace(account, max_connections=4)
            only = Connection(narrow)
            with pytest.raises(DatabaseAway, match=r"narrow.* retried for 0 seconds"):
                admitted(narrow)
            assert_it_is_waited_for(narrow, only)
        assert "The database has no session left, retrying: " in caplog.text
