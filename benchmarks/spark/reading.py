"""The whole message table into nothing, and into Parquet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.race import Contest, Contestant, Target
from benchmarks.spark.bench import TABLE, Bench

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

_FETCH = 5_000
_TASKS = 2


def reading(bench: Bench) -> Contest:
    contestants = [
        _reader(bench, "dbqueue", lambda: _dbqueue(bench)),
        _reader(bench, "jdbc", lambda: _jdbc(bench)),
        Contestant("raw client, one process", bench.sizes.read, run=lambda: _fetch_all(bench), prepare=_filled(bench)),
    ]
    return Contest("read", contestants, [Target("dbqueue", "jdbc", 0.75)])


def reading_to_parquet(bench: Bench) -> Contest:
    contestants = [
        _to_parquet(bench, "dbqueue", lambda: _dbqueue(bench)),
        _to_parquet(bench, "jdbc", lambda: _jdbc(bench)),
    ]
    return Contest("to Parquet", contestants, [Target("dbqueue", "jdbc", 0.8)])


def _reader(bench: Bench, name: str, frame: Callable[[], DataFrame]) -> Contestant:
    def run() -> None:
        frame().write.format("noop").mode("overwrite").save()

    return Contestant(name, bench.sizes.read, run=run, prepare=_filled(bench))


def _to_parquet(bench: Bench, name: str, frame: Callable[[], DataFrame]) -> Contestant:
    path = str(bench.directory / f"{name}.parquet")

    def check() -> None:
        written = bench.spark.read.parquet(path)
        bench.expect(written.count(), bench.sizes.read, f"{name} to Parquet")
        bench.expect(written.select("id").distinct().count(), bench.sizes.read, f"{name} to Parquet, distinct")

    def run() -> None:
        frame().write.mode("overwrite").parquet(path)

    return Contestant(name, bench.sizes.read, run=run, prepare=_filled(bench), check=check)


def _filled(bench: Bench) -> Callable[[], None]:
    def fill_once() -> None:
        if bench.number(f"SELECT COUNT(*) FROM {TABLE}") != bench.sizes.read:
            bench.fill(bench.sizes.read, half_done=True)

    return fill_once


def _dbqueue(bench: Bench) -> DataFrame:
    return bench.dbqueue().option("numPartitions", str(_TASKS)).load()


def _jdbc(bench: Bench) -> DataFrame:
    """The same columns; an ENUM has to be cast for it."""
    columns = ", ".join(
        f"CAST(status AS {bench.vendor.text}) AS status" if name == "status" else bench.vendor.quoted.format(name)
        for name in _dbqueue(bench).columns
    )
    bounds = {
        "partitionColumn": "id",
        "lowerBound": str(bench.number(f"SELECT MIN(id) FROM {TABLE}")),
        "upperBound": str(bench.number(f"SELECT MAX(id) + 1 FROM {TABLE}")),
        "numPartitions": str(_TASKS),
        "fetchsize": str(_FETCH),
        "dbtable": f"(SELECT {columns} FROM {TABLE}) AS m",
    }
    return bench.spark.read.format("jdbc").options(**bench.jdbc_options(), **bounds).load()


def _fetch_all(bench: Bench) -> None:
    """The driver's streaming cursor with its default converters: what a program without Spark would do first."""
    with bench.vendor.session() as session:
        cursor = bench.vendor.streaming(session)
        cursor.execute(f"SELECT * FROM {TABLE}")
        rows = 0
        while batch := cursor.fetchmany(10_000):
            rows += len(batch)
    bench.expect(rows, bench.sizes.read, "the raw client")
