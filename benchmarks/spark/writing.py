"""A data frame into the empty message table."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from benchmarks.race import Contest, Contestant, Target
from benchmarks.spark.bench import SOURCE, TABLE, Bench
from django_dbqueue.keys import key_hash

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, DataFrameWriter

_QUEUE = "written"
_STATEMENT_ROWS = 1_000
_STAGED, _DIRECT = "dbqueue, staged", "dbqueue, direct"
_PLAIN, _REWRITTEN = "jdbc", "jdbc, rewritten batches"
_jobs = itertools.count()


def writing(bench: Bench) -> Contest:
    """The same keyed messages by all, into the same table, with its indexes and constraints.

    All say the same columns (queue, key, its hash, live, body, content type), make the hash while they are timed, and
    leave the others to the server's defaults. JDBC is as Spark's page has it, a transaction for each partition, and its
    driver at its defaults: that one sends on before the reply has come. It promises nothing: a retried task fails, or
    doubles keyless rows.
    """
    frame = _frame(bench)

    def contestant(name: str, run: Callable[[], None]) -> Contestant:
        def check() -> None:
            rows = bench.number(f"SELECT COUNT(DISTINCT key_hash) FROM {TABLE} WHERE live = 1 AND status = 'n'")
            bench.expect(rows, bench.sizes.write, name)

        return Contestant(name, bench.sizes.write, run=run, prepare=bench.empty, check=check)

    contestants = [
        contestant(_STAGED, lambda: _dbqueue(bench, frame).option("job_id", f"bench-{next(_jobs)}").save()),
        contestant(_DIRECT, lambda: _dbqueue(bench, frame).option("direct", "true").save()),
        contestant(_PLAIN, lambda: _jdbc(bench, frame).save()),
        contestant(_REWRITTEN, lambda: _jdbc(bench, frame, **bench.vendor.rewritten).save()),
        contestant("raw client, one process", lambda: _insert_all(bench)),
    ]
    targets = [Target(_STAGED, _PLAIN, 1.3), Target(_DIRECT, _PLAIN, 3), Target(_DIRECT, _REWRITTEN, 0.85)]
    return Contest("write", contestants, targets)


def _frame(bench: Bench) -> DataFrame:
    """Two partitions in memory, so that no contestant pays for where the rows come from."""
    rows = f"(SELECT id, body FROM {SOURCE} LIMIT {bench.sizes.write}) AS s"
    bodies = bench.spark.read.format("jdbc").options(**bench.jdbc_options(), dbtable=rows).load()
    frame = bodies.selectExpr("concat('flight:', id) AS key", "body").repartition(2).cache()
    bench.expect(frame.count(), bench.sizes.write, "what is to be written")
    return frame


def _dbqueue(bench: Bench, frame: DataFrame) -> DataFrameWriter:
    rows = frame.selectExpr("key", "body AS json")
    writer = rows.write.format("dbqueue").mode("append")
    return writer.option("credentials_file", str(bench.credentials)).option("queue", _QUEUE)


def _jdbc(bench: Bench, frame: DataFrame, **parameters: str) -> DataFrameWriter:
    hashed = f"sha2(concat('{_QUEUE}', char(0), key), 256) AS key_hash"
    rows = frame.selectExpr(f"'{_QUEUE}' AS queue", "key", hashed, "1 AS live", "body", "'json' AS content_type")
    writer = rows.write.format("jdbc").mode("append").options(**bench.jdbc_options(**parameters))
    return writer.option("dbtable", TABLE).option("batchsize", str(_STATEMENT_ROWS))


def _insert_all(bench: Bench) -> None:
    """The driver on one connection."""
    key = bench.vendor.quoted.format("key")
    statement = f"INSERT INTO {TABLE} (queue, {key}, key_hash, live, body, content_type)"
    with bench.vendor.session() as session:
        cursor = session.cursor()
        cursor.execute(f"SELECT id, body FROM {SOURCE} ORDER BY id LIMIT %s", (bench.sizes.write,))
        keys = [(f"flight:{number}", body) for number, body in cursor]
        rows = [(_QUEUE, key, key_hash(_QUEUE, key), 1, body, "json") for key, body in keys]
        for first in range(0, len(rows), _STATEMENT_ROWS):
            bench.vendor.insert_many(
                session, statement, "(%s, %s, %s, %s, %s, %s)", rows[first : first + _STATEMENT_ROWS]
            )
