"""A server that is stopped in the middle and comes back: every path of the pipeline goes on where it was.

SQLite has no server, and a MySQL that is given by its URL is not ours to stop: there a ``mysqld`` must be here besides.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from django_dbqueue.databases import Statement
from django_dbqueue.exceptions import DatabaseAway
from django_dbqueue.spark import connection as connecting
from django_dbqueue.spark import table_reader, write_tasks, writing
from django_dbqueue.spark.connection import Connection
from django_dbqueue.spark.consuming import ClaimStreamReader
from django_dbqueue.spark.credentials import Credentials
from django_dbqueue.spark.following import HistoryStreamReader
from django_dbqueue.spark.lasting import Lasting
from django_dbqueue.spark.schemas import HISTORY, MESSAGES
from django_dbqueue.spark.table_reader import TableReader
from tests.conftest import ROOT
from tests.patience import patience
from tests.process.conftest import wait_until
from tests.process.private_servers import OURS
from tests.servers.private import PrivateServer
from tests.spark.stopping import Outage, frame
from tests.spark.waiting import assert_it_is_waited_for

if settings.TEST_DATABASE in OURS:
    from pyspark.sql.types import StringType, StructField, StructType

    from tests.process.private_servers import django, prepared

    pytestmark = pytest.mark.slow
    JSON = StructType([StructField("json", StringType())])

    @pytest.fixture(scope="module")
    def server() -> Iterator[PrivateServer]:
        with OURS[settings.TEST_DATABASE][0].running() as running:
            yield running

    @pytest.fixture(scope="module")
    def environment(server: PrivateServer) -> dict[str, str]:
        return prepared(server)

    @pytest.fixture
    def outage(server: PrivateServer) -> Iterator[Outage]:
        """One outage, which somebody has waited for."""
        outage, log = Outage(server), logging.getLogger("django_dbqueue.spark")
        log.addHandler(outage)
        yield outage
        log.removeHandler(outage)
        if server.process is None:
            server.start()
        assert outage.begun == 1
        assert outage.tried >= outage.TRIES

    @pytest.fixture
    def credentials(environment: dict[str, str]) -> Credentials:
        """Of the database, with its tables empty."""
        empty = "from django.core.management import call_command; call_command('flush', interactive=False)"
        address = "from django_dbqueue.management.spark_settings import credentials_of; print(credentials_of('default')"
        return Credentials.parse(django(environment, f"{empty}; {address}.to_json())"), where="the test")

    @pytest.fixture
    def options(credentials: Credentials, tmp_path: Path) -> dict[str, str]:
        file = tmp_path / "credentials.json"
        file.write_text(credentials.to_json())
        return {"credentials_file": str(file)}

    @pytest.fixture
    def ask(credentials: Credentials) -> Callable[[str], list[Any]]:
        def ask(sql: str) -> list[Any]:
            with Connection(credentials) as connection:
                return [row[0] if len(row) == 1 else row for row in connection.fetch(Statement(sql, ()))]

        return ask

    # -- each path ----------------------------------------------------------------------------------------------------

    def test_a_staged_write_goes_on_and_publishes_each_row_once(
        options: dict[str, str], outage: Outage, ask: Callable[[str], list[Any]], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(write_tasks, "_STATEMENTS", 1)
        given = {**options, "queue": "q", "job_id": "j", "batchSize": "7"}
        writer = writing.writer_of(given, JSON, overwrite=False)
        staged = writer.write(frame(range(100), outage.begin))
        writer.commit([staged])
        assert sorted(map(int, ask("SELECT body FROM django_dbqueue_message"))) == [*range(100)]

    def test_a_commit_of_the_stage_whose_reply_was_lost_doubles_nothing(
        options: dict[str, str], outage: Outage, ask: Callable[[str], list[Any]], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(write_tasks, "_STATEMENTS", 1)
        real, commits = write_tasks.run_together, []

        def lose_the_reply(session: Lasting, statements: Any, **keywords: Any) -> int:
            def ask(work: Any) -> Any:
                def done_and_lost(connection: Connection) -> Any:
                    result = work(connection)
                    commits.append(result)
                    if len(commits) == 3:
                        outage.begin()
                        connection.fetch(Statement("SELECT 1", ()))
                    return result

                return Lasting.ask(session, done_and_lost)

            monkeypatch.setattr(session, "ask", ask)
            return real(session, statements, **keywords)

        monkeypatch.setattr(write_tasks, "run_together", lose_the_reply)
        given = {**options, "queue": "q", "job_id": "j", "batchSize": "7"}
        writer = writing.writer_of(given, JSON, overwrite=False)
        writer.commit([writer.write(frame(range(40), lambda: None))])
        assert sorted(map(int, ask("SELECT body FROM django_dbqueue_message"))) == [*range(40)]

    def test_a_publication_waits_for_the_server(
        options: dict[str, str], outage: Outage, ask: Callable[[str], list[Any]]
    ) -> None:
        writer = writing.writer_of({**options, "queue": "q", "job_id": "j"}, JSON, overwrite=False)
        staged = writer.write(frame(range(10), lambda: None))
        outage.begin()
        writer.commit([staged])
        assert sorted(map(int, ask("SELECT body FROM django_dbqueue_message"))) == [*range(10)]

    def test_a_direct_write_goes_on(
        options: dict[str, str], outage: Outage, ask: Callable[[str], list[Any]], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(write_tasks, "_STATEMENTS", 1)
        given = {**options, "queue": "q", "direct": "true", "batchSize": "7"}
        writer = writing.writer_of(given, JSON, overwrite=False)
        writer.commit([writer.write(frame(range(100), outage.begin))])
        assert sorted(map(int, ask("SELECT body FROM django_dbqueue_message"))) == [*range(100)]

    @pytest.mark.parametrize("columns", [["id", "body"], ["body"]])
    def test_a_batch_read_goes_on_behind_the_last_row(
        options: dict[str, str], environment: dict[str, str], outage: Outage, columns: list[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:  # fmt: skip
        monkeypatch.setattr(table_reader, "FIRST_PAGE_ROWS", 10)
        django(environment, "Message.objects.enqueue_many(range(100), queue='q')")
        schema = StructType([StructField(name, MESSAGES.columns[name]) for name in columns])
        reader = TableReader({**options, "pageRows": "10", "fetchRows": "4"}, schema)
        found: list[int] = []
        for partition in reader.partitions():
            for batch in reader.read(partition):
                found += map(int, batch.column("body").to_pylist())
                if len(found) >= 30 and not outage.begun:
                    outage.begin()
        assert sorted(found) == [*range(100)]

    def test_a_consuming_stream_begins_reads_and_acks_over_an_outage(
        options: dict[str, str], environment: dict[str, str], outage: Outage, ask: Callable[[str], list[Any]]
    ) -> None:
        django(environment, "Message.objects.enqueue_many(range(100), queue='q')")
        schema = StructType([StructField("body", MESSAGES.columns["body"])])
        reader = ClaimStreamReader({**options, "queue": "q", "stream": "s"}, schema)
        try:
            begin = reader.initialOffset()
            end = reader.latestOffset(begin, reader.getDefaultReadLimit())
            parts = reader.partitions(begin, end)
            outage.begin()
            found = [int(each) for part in parts for batch in reader.read(part) for each in batch.column(0).to_pylist()]
            assert sorted(found) == [*range(100)]
            assert reader.latestOffset(end, reader.getDefaultReadLimit()) == end
        finally:
            reader.stop()
        assert set(ask("SELECT status FROM django_dbqueue_message")) == {"y"}

    def test_a_consuming_stream_waits_for_a_server_that_is_down_when_it_begins(
        options: dict[str, str], outage: Outage
    ) -> None:
        outage.begin()
        reader = ClaimStreamReader({**options, "queue": "q", "stream": "s"}, MESSAGES.schema)
        try:
            assert reader.initialOffset() == {"claim": 0}
            assert reader.latestOffset({"claim": 0}, reader.getDefaultReadLimit()) == {"claim": 0}
        finally:
            reader.stop()

    def test_a_history_stream_goes_on(options: dict[str, str], environment: dict[str, str], outage: Outage) -> None:
        django(
            environment,
            "Message.objects.enqueue_many(range(50), queue='q')\n"
            "for each in Message.objects.claim(50, queue='q'): each.ack()\n"
            "Message.objects.all().purge()",
        )
        schema = StructType([StructField("body", HISTORY.columns["body"])])
        reader = HistoryStreamReader({**options, "source": "history", "reader": "r"}, schema)
        try:
            begin = reader.initialOffset()
            outage.begin()
            end = reader.latestOffset(begin, reader.getDefaultReadLimit())
            parts = reader.partitions(begin, end)
            found = [int(each) for part in parts for batch in reader.read(part) for each in batch.column(0).to_pylist()]
            reader.commit(end)
        finally:
            reader.stop()
        assert sorted(found) == [*range(50)]

    def test_a_job_waits_for_the_server(options: dict[str, str], server: PrivateServer, tmp_path: Path) -> None:
        server.stop()
        log = tmp_path / "log"
        command = [sys.executable, "-m", "django_dbqueue.spark", "streams", "--credentials-file"]
        with (
            log.open("w") as output,
            subprocess.Popen(
                [*command, options["credentials_file"]], cwd=ROOT, stdout=subprocess.PIPE, stderr=output, text=True
            ) as job,
        ):
            try:
                wait_until(lambda: log.read_text().count("away, retrying") >= 2, "the job to have tried on")
            finally:
                server.start()
            assert job.communicate(timeout=patience(60))[0].startswith("No stream ")
            assert job.returncode == 0

    # -- how long, and for what ---------------------------------------------------------------------------------------

    @pytest.mark.parametrize("job", ["streams", "readers"])
    def test_a_server_that_stays_away_is_reported_in_a_sentence_with_exit_code_1(
        options: dict[str, str], server: PrivateServer, job: str
    ) -> None:
        server.stop()
        try:
            done = subprocess.run(
                [sys.executable, "-m", "django_dbqueue.spark", job, "--outage", "1s", "--credentials-file",
                 options["credentials_file"]],
                cwd=ROOT, capture_output=True, text=True, check=False, env=dict(os.environ),
            )  # fmt: skip
        finally:
            server.start()
        assert done.returncode == 1
        assert "was retried for 1 seconds" in done.stderr.splitlines()[-1]
        assert "Traceback" not in done.stderr

    def test_an_account_without_a_session_left_is_waited_for(credentials: Credentials) -> None:
        if settings.TEST_DATABASE == "postgres":
            made = ["CREATE ROLE narrow LOGIN PASSWORD 'x' CONNECTION LIMIT 1"]
        else:
            made = ["CREATE USER narrow@'%%' IDENTIFIED BY 'x' WITH MAX_USER_CONNECTIONS 1",
                    "GRANT ALL ON *.* TO narrow@'%%'"]  # fmt: skip
        with Connection(credentials) as owner:
            for sql in made:
                owner.run(Statement(sql, ()))
        fields = json.loads(credentials.to_json()) | {"user": "narrow", "password": "x"}
        narrow = Credentials.parse(json.dumps(fields), where="the test")
        only = Connection(narrow)
        with pytest.raises(DatabaseAway, match="narrow"), Lasting(narrow, outage=0) as session:
            session.ask(Connection.clock)
        assert_it_is_waited_for(narrow, only)

    def test_a_wrong_password_and_a_database_that_is_not_there_are_not_waited_for(credentials: Credentials) -> None:
        for wrong in ({"user": "nobody_at_all", "password": "wrong"}, {"name": "nowhere_at_all"}):
            bad = Credentials.parse(json.dumps(json.loads(credentials.to_json()) | wrong), where="the test")
            with pytest.raises(Exception, match="can't be reached") as refused, Lasting(bad, outage=600) as session:
                session.ask(Connection.clock)
            assert not connecting.is_away(refused.value)
