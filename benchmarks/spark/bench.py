"""One database's part of a run: what every contest needs to know, and its rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from django.db import connections, transaction

from benchmarks.spark.vendors import MySQL
from django_dbqueue.models import Message

if TYPE_CHECKING:
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
    vendor: MySQL
    sizes: Sizes
    directory: Path
    credentials: Path

    @property
    def alias(self) -> str:
        return self.vendor.alias

    def execute(self, sql: str, params: tuple[Any, ...] = ()) -> int:
        with connections[self.alias].cursor() as cursor:
            cursor.execute(sql, params)
            return int(cursor.rowcount)

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
        self.execute(self.vendor.like.format(new=SOURCE, old=TABLE))
        self.execute(f"INSERT INTO {SOURCE} SELECT * FROM {TABLE}")

    def fill(self, rows: int, *, queue: str | None = None, half_done: bool = False) -> None:
        """Put the first rows of the source into the message table, anew; `queue` goes for each row's own."""
        self.empty()
        names = ["queue", "body", "content_type"]
        values = ["queue" if queue is None else f"'{queue}'", "body", "content_type"]
        if half_done:
            names += ["status", "claim_token", "claimed_at", "finished_at"]
            half = "CASE WHEN MOD(id, 2) = 1 THEN {} ELSE {} END".format
            values += [half("'y'", "'n'"), half("id", "NULL"), half("created_at", "NULL"), half("created_at", "NULL")]
        self.execute(
            f"INSERT INTO {TABLE} ({', '.join(names)}) SELECT {', '.join(values)} FROM {SOURCE} ORDER BY id LIMIT %s",
            (rows,),
        )
        self.execute(self.vendor.analyze.format(TABLE))

    def empty(self) -> None:
        with transaction.atomic(using=self.alias):  # a TRUNCATE resets the ids, and leaves no purge behind
            self.execute(self.vendor.truncate.format(TABLE))

    def expect(self, found: int, wanted: int, what: str) -> None:
        if found != wanted:
            raise AssertionError(f"{what}: {found:,} rows, not {wanted:,}")

    def dbqueue(self) -> DataFrameReader:
        return self.spark.read.format("dbqueue").option("credentials_file", str(self.credentials))

    def jdbc_options(self, **parameters: str) -> dict[str, str]:
        return {
            "url": self.vendor.jdbc_url(parameters),
            "driver": self.vendor.driver,
            "user": self.vendor.config["USER"],
            "password": self.vendor.config["PASSWORD"],
        }


def _payload(number: int) -> dict[str, Any]:
    return {
        "flight": f"UA{number}",
        "origin": "EWR",
        "destination": "IAH",
        "delay": number % 180,
        "note": f"Zürich → New York, gate {number % 97}, {number * 7919} passengers' bags 🧳",
    }
