"""Reads from a replica: never staler than was asked, never a row of the history less, and nothing but reads."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows

from django_dbqueue.databases import Statement
from django_dbqueue.exceptions import DatabaseAway, InvalidPipeline
from django_dbqueue.history import history_sql
from django_dbqueue.management.spark_settings import credentials_of
from django_dbqueue.models import ReplicaBeat
from django_dbqueue.models.fields import DbNow
from django_dbqueue.spark import replicas
from django_dbqueue.spark.arrow import Pages
from django_dbqueue.spark.connection import Connection
from django_dbqueue.spark.consuming import ClaimStreamReader
from django_dbqueue.spark.credentials import Credentials
from django_dbqueue.spark.following import HistoryPiece, HistoryStreamReader
from django_dbqueue.spark.schemas import HISTORY, MESSAGES
from django_dbqueue.spark.table_reader import IdRanges, TableReader
from tests.patience import patience
from tests.process.conftest import wait_until
from tests.servers.private import PrivateServer
from tests.servers.replicas import Replica
from tests.spark.replicated import (
    CAN_BE_HERE,
    archive,
    credentials,  # noqa: F401 - a fixture
    options,  # noqa: F401 - a fixture
    primary,  # noqa: F401 - a fixture
    read,
    replica,  # noqa: F401 - a fixture
)
from tests.spark.stopping import Outage

pytestmark = pytest.mark.usefixtures("database")
OUTAGE = f"{patience(60):g}"


@pytest.mark.once
@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"replica_file": "{sqlite}"}, "The replica is sqlite, and the database mysql"),
        ({"replica_env": "NO_SUCH_VARIABLE"}, "'NO_SUCH_VARIABLE', which 'replica_env' names, is not set here"),
        ({"replica_file": "/no/such/file"}, "credentials file /no/such/file can't be read"),
        ({"maxReplicaLag": "5"}, "'maxReplicaLag' bounds the lag of a replica, and there is none"),
        ({"replica_file": "{mysql}", "maxReplicaLag": "soon"}, "'maxReplicaLag' is 'soon'"),
    ],
)
def test_a_replica_that_can_not_be_is_refused(tmp_path: Path, given: dict[str, str], why: str) -> None:
    places = {name: str(tmp_path / name) for name in ("mysql", "sqlite")}
    (tmp_path / "mysql").write_text("mysql://spark:secret@127.0.0.1:1/queue")
    (tmp_path / "sqlite").write_text("sqlite:///tmp/queue.sqlite3")
    chosen = {name: value.format(**places) for name, value in given.items()}
    with pytest.raises(InvalidPipeline, match=why):
        TableReader({"credentials_file": places["mysql"], **chosen}, MESSAGES.schema)


@pytest.mark.once
def test_a_claim_is_never_made_on_a_replica(tmp_path: Path) -> None:
    given = {"credentials_file": "f", "replica_file": "r", "queue": "q", "stream": "s"}
    with pytest.raises(InvalidPipeline, match="no option 'replica_file' here"):
        ClaimStreamReader(given, MESSAGES.schema)


@pytest.mark.django_db(transaction=True)
def test_a_beat_is_as_young_as_was_requested_and_another_is_not() -> None:
    with Connection(credentials_of("default")) as own:
        first = replicas.beat(own, 0)
        first.check(own)
        second = replicas.beat(own, 0)
        second.check(own)
        ReplicaBeat.objects.update(at=DbNow() - timedelta(seconds=60))
        with pytest.raises(DatabaseAway, match="committed 0 s before"):
            second.check(own)
        late = replicas.SeenBeat(own.fetch(history_sql.moment_before(own.server, 90.0))[0][0], 90)
        late.check(own)


if CAN_BE_HERE:
    slow = pytest.mark.slow
    BEHIND = "The replica is behind, retrying"

    @slow
    @pytest.mark.parametrize("source", ["messages", "history"])
    def test_a_batch_is_read_from_a_replica_that_has_what_was_committed_before(
        options: dict[str, str], credentials: Credentials, primary: PrivateServer, replica: Replica, source: str
    ) -> None:
        schema = {"messages": MESSAGES, "history": HISTORY}[source].schema
        if source == "history":
            there = archive(credentials, 3)
        else:
            with Connection(credentials) as own:
                for body in "abc":
                    [(now,)] = own.fetch(history_sql.moment_before(own.server, 0.0))
                    own.run(
                        Statement(
                            f"INSERT INTO {MESSAGES.table} (queue, status, available_at, due_at, priority, read_count, "
                            "crashes, body, content_type, created_at) VALUES ('q', 'n', %s, %s, 0, 0, 0, %s, 'text', "
                            "%s)",
                            (now, now, body, now),
                        )
                    )
                there = [row[0] for row in own.fetch(Statement(f"SELECT id FROM {MESSAGES.table} ORDER BY id", ()))]
        reader = TableReader({**options, "source": source, "maxReplicaLag": "0", "outage": OUTAGE}, schema)
        parts = reader.partitions()
        primary.stop()
        try:
            assert read(reader, parts) == there, "without the primary"
        finally:
            primary.start()

    @slow
    def test_a_replica_that_is_too_far_behind_is_waited_for_and_then_refused(
        options: dict[str, str], credentials: Credentials, replica: Replica, caplog: pytest.LogCaptureFixture
    ) -> None:
        replica.hold()
        there = archive(credentials, 2)
        given = {**options, "source": "history", "maxReplicaLag": "0"}
        with pytest.raises(DatabaseAway, match=r"has not got yet what was committed 0 s before.*'outage'"):
            TableReader({**given, "outage": "0"}, HISTORY.schema).partitions()
        reader = TableReader({**given, "outage": OUTAGE}, HISTORY.schema)
        caplog.clear()
        with ThreadPoolExecutor(1) as aside:
            planned = aside.submit(reader.partitions)
            wait_until(lambda: BEHIND in caplog.text, "it to wait")
            replica.go_on()
            assert read(reader, planned.result(patience(60))) == there

    @slow
    def test_a_lag_within_the_bound_is_not_waited_for(
        options: dict[str, str], credentials: Credentials, replica: Replica
    ) -> None:
        there = archive(credentials, 1)
        given = {**options, "source": "history", "outage": OUTAGE}
        TableReader({**given, "maxReplicaLag": "0"}, HISTORY.schema).partitions()
        replica.hold()
        archive(credentials, 1)
        reader = TableReader({**given, "maxReplicaLag": "3600"}, HISTORY.schema)
        assert read(reader, reader.partitions()) == there

    @slow
    def test_the_history_stream_waits_for_each_row_and_skips_none(
        options: dict[str, str], credentials: Credentials, replica: Replica, caplog: pytest.LogCaptureFixture
    ) -> None:
        given = {**options, "source": "history", "reader": "r", "outage": OUTAGE}
        stream = HistoryStreamReader(given, HISTORY.schema)
        try:
            start = stream.initialOffset()
            archive(credentials, 2)
            first = stream.latestOffset(start, ReadMaxRows(10))
            read(stream, stream.partitions(start, first))
            replica.hold()
            there = archive(credentials, 3)
            end = stream.latestOffset(start, ReadMaxRows(10))
            assert end == {"id": there[-1]}, "by the primary"
            with ThreadPoolExecutor(1) as aside:
                planned = aside.submit(stream.partitions, start, end)
                wait_until(lambda: BEHIND in caplog.text, "it to wait")
                assert "of the history" in caplog.text
                replica.go_on()
                assert read(stream, planned.result(patience(60))) == there
            stream.commit(end)
        finally:
            stream.stop()

    @slow
    def test_a_task_reads_nothing_on_another_replica_that_lacks_a_row(
        options: dict[str, str], credentials: Credentials
    ) -> None:
        """As behind a name that stands for several servers: each session is asked, whoever was asked before."""
        archive(credentials, 2)
        given = {**options, "source": "history", "reader": "r", "outage": OUTAGE}
        stream = HistoryStreamReader(given, HISTORY.schema)
        try:
            start = stream.initialOffset()
            end = stream.latestOffset(start, ReadMaxRows(10))
            [part] = stream.partitions(start, end)
            assert isinstance(part, HistoryPiece)
            assert isinstance(part.ranges, IdRanges)
            with Connection(credentials) as own:
                assert replicas.rows_between(own, start["id"], end["id"]) == part.ranges.requires
            lacking = replicas.AllRows(start["id"], end["id"], 3)
            elsewhere = HistoryPiece(part.after, IdRanges(part.ranges.spans, requires=lacking))
            task = HistoryStreamReader({**given, "outage": "0"}, HISTORY.schema)
            with pytest.raises(DatabaseAway, match=r"Of the 3 rows .* the replica has 2"):
                list(task.read(elsewhere))
        finally:
            stream.stop()

    @slow
    def test_a_replica_that_is_away_is_named(options: dict[str, str], replica: Replica) -> None:
        reader = TableReader({**options, "outage": "0"}, MESSAGES.schema)
        replica.stop()
        try:
            with pytest.raises(DatabaseAway, match=rf"can't be reached .*port {replica.port}"):
                reader.partitions()
        finally:
            replica.start()

    class Crash(Outage):
        """Of a server, when this many batches were read from the replica, and the sockets have no room for the rest."""

        BODY, ROWS, PAGE, FETCH = "x" * 2**19, 48, 24, 2
        AT = PAGE // FETCH + 1
        """In the second page."""

        def __init__(self, server: PrivateServer) -> None:
            super().__init__(server, crash=True)
            self.sent, self.broken = 0, 0
            self.real = Pages._batches

        def batches(self, pages: Pages, statement: Statement) -> Iterator[Any]:
            with socket.socket(fileno=os.dup(pages.connection.raw.fileno())) as line:
                line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**16)
            try:
                for batch in self.real(pages, statement):
                    yield batch
                    self.sent += 1
                    if self.sent == self.AT:
                        self.begin()
            except Exception:
                self.broken += 1
                raise

    @pytest.fixture
    def crash(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[PrivateServer], Crash]]:
        """Arranges for it; the server is there again at the end."""
        log, begun = logging.getLogger("django_dbqueue.spark"), list[Crash]()

        def arrange(server: PrivateServer) -> Crash:
            begun.append(crash := Crash(server))
            log.addHandler(crash)
            monkeypatch.setattr(Pages, "_batches", lambda pages, statement: crash.batches(pages, statement))
            return crash

        yield arrange
        for each in begun:
            log.removeHandler(each)
            if each.server.process is None:
                each.server.start()

    @slow
    @pytest.mark.parametrize("who", ["replica", pytest.param("primary", marks=pytest.mark.nightly)])
    @pytest.mark.parametrize("how", [pytest.param("batch", marks=pytest.mark.nightly), "stream"])
    def test_a_crash_in_the_middle_of_a_page_is_waited_for_and_no_row_is_missed_or_read_twice(
        options: dict[str, str], credentials: Credentials, primary: PrivateServer, replica: Replica, how: str, who: str,
        crash: Callable[[PrivateServer], Crash],
    ) -> None:  # fmt: skip
        there = archive(credentials, Crash.ROWS, body=Crash.BODY)
        given = {**options, "source": "history", "outage": OUTAGE, "pageRows": str(Crash.PAGE)}
        given |= {"fetchRows": str(Crash.FETCH)}
        if how == "batch":
            reader: Any = TableReader({**given, "maxReplicaLag": "0"}, HISTORY.schema)
            parts = reader.partitions()
        else:
            reader = HistoryStreamReader({**given, "reader": "r"}, HISTORY.schema)
            start = reader.initialOffset()
            parts = reader.partitions(start, reader.latestOffset(start, ReadMaxRows(Crash.ROWS)))
            reader.stop()
        crashed = crash({"replica": replica, "primary": primary}[who])
        assert read(reader, parts) == there
        assert crashed.begun == 1
        assert crashed.broken == (who == "replica")
        waits = who == "replica" or how == "stream"  # which asks the primary at the end whether rows were purged
        assert crashed.tried >= crashed.TRIES if waits else (crashed.tried, primary.process) == (0, None)
