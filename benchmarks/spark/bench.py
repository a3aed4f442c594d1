"""One database's part of a run: what every contest needs to know, and its rows."""

from __future__ import annotations

from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import MySQLdb
from django.db import connections, transaction

from django_dbqueue.models import Message

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrameReader, SparkSession

TABLE: Final = Message._meta.db_table
SOURCE: Final = "bench_source"
"""Holds the rows that a contest copies into the message table: the same for all."""
_CHUNK: Final = 20_000


@dataclass(frozen=True, slots=True)
class Sizes:
    read: int
    write: int
    stream: int
    batch: int


@dataclass(frozen=True, slots=True)
class Bench:
    spark: SparkSession
    alias: str
    sizes: Sizes
    directory: Path
    credentials: Path

    def execute(self, sql: str, params: tuple[Any, ...] = ()) -> int:
        with connections[self.alias].cursor() as cursor:
            return int(cursor.execute(sql, params))

    def number(self, sql: str) -> int:
        with connections[self.alias].cursor() as cursor:
            cursor.execute(sql)
            return int(cursor.fetchone()[0])

    def fill_source(self) -> None:
        """Distinct payloads of about 150 bytes in eight queues; every second message is done."""
        rows = max(self.sizes.read, self.sizes.stream)
        for first in range(0, rows, _CHUNK):
            for queue in range(8):
                numbers = range(first + queue, min(first + _CHUNK, rows), 8)
                Message.objects.db_manager(self.alias).enqueue_many(
                    [_payload(each) for each in numbers], queue=f"q{queue}"
                )
        self.execute(f"CREATE TABLE {SOURCE} LIKE {TABLE}")
        self.execute(f"INSERT INTO {SOURCE} SELECT * FROM {TABLE}")

    def fill(self, rows: int, *, queue: str | None = None, half_done: bool = False) -> None:
        """Put the first rows of the source into the message table, anew; `queue` goes for each row's own."""
        self.empty()
        names = ["queue", "body", "content_type"]
        taken = ["queue" if queue is None else f"'{queue}'", "body", "content_type"]
        if half_done:
            names += ["status", "claim_token", "claimed_at", "finished_at"]
            half = "IF(id % 2, {}, {})".format
            taken += [half("'y'", "'n'"), half("id", "NULL"), half("created_at", "NULL"), half("created_at", "NULL")]
        self.execute(
            f"INSERT INTO {TABLE} ({', '.join(names)}) SELECT {', '.join(taken)} FROM {SOURCE} ORDER BY id LIMIT %s",
            (rows,),
        )
        self.execute(f"ANALYZE TABLE {TABLE}")

    def empty(self) -> None:
        with transaction.atomic(using=self.alias):  # a TRUNCATE resets the ids, and leaves no purge behind
            self.execute(f"TRUNCATE TABLE {TABLE}")

    @contextmanager
    def raw(self, **options: Any) -> Iterator[Any]:
        """A session of mysqlclient's own, ended whatever happens: an open one keeps its tables from being dropped."""
        with closing(MySQLdb.connect(**connections[self.alias].get_connection_params(), **options)) as session:
            yield session

    def expect(self, found: int, wanted: int, what: str) -> None:
        if found != wanted:
            raise AssertionError(f"{what}: {found:,} rows, not {wanted:,}")

    def dbqueue(self) -> DataFrameReader:
        return self.spark.read.format("dbqueue").option("credentials_file", str(self.credentials))

    def jdbc_options(self, **parameters: str) -> dict[str, str]:
        """The MariaDB driver is told jdbc:mysql://, else it quotes columns so that the server reads them as text."""
        said = connections[self.alias].settings_dict
        pairs = {"useSSL": "false", "allowPublicKeyRetrieval": "true", "permitMysqlScheme": "", **parameters}
        query = "&".join(f"{name}={value}" if value else name for name, value in pairs.items())
        return {
            "url": f"jdbc:mysql://{said['HOST']}:{said['PORT'] or 3306}/{said['NAME']}?{query}",
            "driver": "org.mariadb.jdbc.Driver",
            "user": said["USER"],
            "password": said["PASSWORD"],
        }


def _payload(number: int) -> dict[str, Any]:
    return {
        "flight": f"UA{number}",
        "origin": "EWR",
        "destination": "IAH",
        "delay": number % 180,
        "note": f"Zürich → New York, gate {number % 97}, {number * 7919} passengers' bags 🧳",
    }
