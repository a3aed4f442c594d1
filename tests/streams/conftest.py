"""Queries of a consuming stream without Spark: what it asks, in its order, on connections of their own."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from django_dbqueue.management.spark_settings import credentials_of
from django_dbqueue.models import Message, Stream, StreamClaim
from django_dbqueue.models.fields import DbNow
from django_dbqueue.sessions.django_session import session_of
from django_dbqueue.spark.connection import Connection
from django_dbqueue.streams import ownership, stream_messages_sql
from django_dbqueue.streams.id_ranges import Ranges, from_text
from django_dbqueue.streams.ownership import StreamSpec
from django_dbqueue.streams.stream_claimer import StreamClaimer
from django_dbqueue.streams.stream_delivery import deliver, planned
from tests.factories import QUEUE
from tests.patience import patience as within
from tests.process.conftest import wait_until

STREAM = "s"
SPEC = StreamSpec(STREAM, QUEUE)


@dataclass(slots=True)
class Query:
    """A query as its runner and its tasks act on the ledger; ``offset`` is what its checkpoint has committed."""

    connection: Connection
    spec: StreamSpec = SPEC
    run: int = 0
    offset: int = 0
    patience: float = within(10)
    claimer: StreamClaimer = field(init=False)

    def __post_init__(self) -> None:
        self.run = ownership.begin(self.connection, self.spec, patience=self.patience)
        self.claimer = StreamClaimer(self.spec, self.run)

    def claim(self, limit: int = 100) -> int | None:
        return self.claimer.claim(self.connection, limit)

    def next(self, limit: int = 100) -> int | None:
        """What ``latestOffset`` does."""
        self.claimer.ack(self.connection, self.offset)
        return self.claimer.next_open(self.connection, self.offset) or self.claim(limit)

    def plan(self, number: int) -> list[tuple[int, Ranges]]:
        return planned(self.connection, self.spec.name, self.run, above=number - 1, upto=number)

    def read(self, number: int) -> list[int]:
        """The ids of the rows that a task reads of a claim."""
        delivery = deliver(self.connection, self.spec, self.run, number)
        server = self.connection.server
        found: list[int] = []
        for first, last in delivery.ranges:
            among = stream_messages_sql.between(first, last)
            found += [
                row[0]
                for row in self.connection.fetch(stream_messages_sql.delivered(server, "id", among, delivery.token))
            ]
        return found

    def commit(self, number: int) -> None:
        self.offset = number
        self.claimer.ack(self.connection, number)

    def beat(self) -> None:
        ownership.beat(self.connection, self.spec, self.run)

    def die_reading(self) -> None:
        """Die while a task reads the first claim."""
        self.next()
        self.read(1)
        self.die()

    def die(self) -> None:
        """As a kill leaves it: the session ends, nothing is said; on SQLite the process that it names is gone."""
        sessions = self.connection.server.sessions
        if sessions is not None:
            [(number, _server)] = self.connection.fetch(sessions.me())
            self.connection.close()
            there = sessions.existing([number])
            wait_until(
                lambda: number not in {each for _server, each in session_of("default").fetch(there)},
                "the server to see the session's end",
            )
        else:
            self.connection.close()
        Stream.objects.update(runner=f"{socket.gethostname()}:{a_dead_process()}")


@pytest.fixture
def query(transactional_db: None) -> Iterator[Callable[..., Query]]:
    """Begins queries; their sessions end with the test."""
    begun: list[Connection] = []

    def query(**how: object) -> Query:
        begun.append(Connection(credentials_of("default")))
        return Query(begun[-1], **how)  # type: ignore[arg-type]

    yield query
    for connection in begun:
        connection.discard()


def a_dead_process() -> int:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        return process.pid


def ids_of(number: int) -> list[int]:
    claim = StreamClaim.objects.get(stream=STREAM, number=number)
    return [each for first, last in from_text(claim.ids) for each in range(first, last + 1)]


def states() -> dict[int, str]:
    """What became of the claims."""
    return dict(StreamClaim.objects.order_by("number").values_list("number", "state"))


def letters() -> list[str]:
    """The status of every message, by id."""
    return list(Message.objects.order_by("pk").values_list("status", flat=True))


def let_leases_end() -> None:
    StreamClaim.objects.filter(state="open").update(lease_until=DbNow())
