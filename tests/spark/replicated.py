"""A primary of the tests' own with the queue's tables, the replica that follows it, and rows that are read there."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from django_dbqueue.databases import Statement
from django_dbqueue.spark.connection import Connection
from django_dbqueue.spark.credentials import Credentials
from django_dbqueue.spark.schemas import HISTORY, MESSAGES
from tests.process import test_server_restart as servers
from tests.servers.private import PrivateServer
from tests.servers.replicas import Replica, replica_of

CAN_BE_HERE = settings.TEST_DATABASE in servers.OURS


@pytest.fixture(scope="module")
def primary() -> Iterator[PrivateServer]:
    with servers.OURS[settings.TEST_DATABASE][0].running() as running:
        yield running


@pytest.fixture(scope="module")
def replica(primary: PrivateServer) -> Iterator[Replica]:
    with replica_of(primary) as running:
        yield running


@pytest.fixture(scope="module")
def credentials(primary: PrivateServer, replica: Replica) -> Credentials:
    """Those of the primary."""
    address = "from django_dbqueue.management.spark_settings import credentials_of; print(credentials_of('default')"
    return Credentials.parse(servers.django(servers.prepared(primary), f"{address}.to_json())"), where="the test")


@pytest.fixture
def options(credentials: Credentials, replica: Replica, tmp_path: Path) -> Iterator[dict[str, str]]:
    """Of empty tables, and a replica that follows."""
    fields = json.loads(credentials.to_json())
    places = {"credentials_file": fields, "replica_file": fields | {"port": replica.port}}
    for name, content in places.items():
        (tmp_path / name).write_text(json.dumps(content))
    with Connection(credentials) as own:
        for table in (HISTORY.table, MESSAGES.table, own.server.reader):
            own.run(Statement(f"DELETE FROM {table}", ()))
    yield {name: str(tmp_path / name) for name in places}
    replica.go_on()


def archive(credentials: Credentials, rows: int, *, body: str = "") -> list[int]:
    """Rows of the history, on the primary; returns all ids."""
    with Connection(credentials) as own:
        now = own.server.now
        for number in range(rows):
            own.run(
                Statement(
                    f"INSERT INTO {HISTORY.table} (message_id, outcome, queue, due_at, priority, read_count, "
                    "crashes, body, content_type, created_at, finished_at, archived_at) VALUES "
                    f"(%s, 'done', 'q', {now}, 0, 1, 0, %s, 'text', {now}, {now}, {now})",
                    (number, body),
                )
            )
        return [row[0] for row in own.fetch(Statement(f"SELECT id FROM {HISTORY.table} ORDER BY id", ()))]


def read(reader: Any, parts: Any) -> list[int]:
    """The ids that tasks read, each by a copy of the reader."""
    copies = [pickle.loads(pickle.dumps((reader, part))) for part in parts]
    return sorted(each for copy, part in copies for batch in copy.read(part) for each in batch["id"].to_pylist())
