"""A data frame into the empty message table."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from django.db import connections

from benchmarks.race import Contest, Contestant, Target
from benchmarks.spark.bench import SOURCE, TABLE, Bench

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, DataFrameWriter

_QUEUE = "written"
_STATEMENT_ROWS = 1_000
_STAGED, _DIRECT = "dbqueue, staged", "dbqueue, direct"
_PLAIN, _REWRITTEN = "jdbc", "jdbc, rewritten batches"
_jobs = itertools.count()


def writing(bench: Bench) -> Contest:
    """JDBC sends the columns without a default, and promises nothing: a retried task doubles its rows."""
    frame = _frame(bench)

    def contestant(name: str, run: Callable[[], None]) -> Contestant:
        def check() -> None:
            rows = bench.number(f"SELECT COUNT(DISTINCT body) FROM {TABLE} WHERE queue = '{_QUEUE}' AND status = 'n'")
            bench.expect(rows, bench.sizes.write, name)

        return Contestant(name, bench.sizes.write, run=run, prepare=bench.empty, check=check)

    contestants = [
        contestant(_STAGED, lambda: _dbqueue(bench, frame).option("job_id", f"bench-{next(_jobs)}").save()),
        contestant(_DIRECT, lambda: _dbqueue(bench, frame).option("direct", "true").save()),
        contestant(_PLAIN, lambda: _jdbc(bench, frame).save()),
        contestant(_REWRITTEN, lambda: _jdbc(bench, frame, rewriteBatchedStatements="true").save()),
        contestant("raw client, one process", lambda: _insert_all(bench)),
    ]
    targets = [Target(_STAGED, _PLAIN, 1.3), Target(_DIRECT, _PLAIN, 3), Target(_DIRECT, _REWRITTEN, 0.85)]
    return Contest("write", contestants, targets)


def _frame(bench: Bench) -> DataFrame:
    """Two partitions in memory, so that no contestant pays for where the rows come from."""
    bodies = (
        bench.spark.read.format("jdbc")
        .options(**bench.jdbc_options(), dbtable=f"(SELECT body FROM {SOURCE} LIMIT {bench.sizes.write}) AS s")
        .load()
    )
    frame = bodies.repartition(2).cache()
    bench.expect(frame.count(), bench.sizes.write, "what is to be written")
    return frame


def _dbqueue(bench: Bench, frame: DataFrame) -> DataFrameWriter:
    rows = frame.withColumnRenamed("body", "json")
    writer = rows.write.format("dbqueue").mode("append")
    return writer.option("credentials_file", str(bench.credentials)).option("queue", _QUEUE)


def _jdbc(bench: Bench, frame: DataFrame, **parameters: str) -> DataFrameWriter:
    rows = frame.selectExpr(f"'{_QUEUE}' AS queue", "body", "'json' AS content_type")
    writer = rows.write.format("jdbc").mode("append").options(**bench.jdbc_options(**parameters))
    return writer.option("dbtable", TABLE).option("batchsize", str(_STATEMENT_ROWS))


def _insert_all(bench: Bench) -> None:
    """mysqlclient on one connection, the rows already at hand."""
    import MySQLdb

    raw = MySQLdb.connect(**connections[bench.alias].get_connection_params(), autocommit=True)
    cursor = raw.cursor()
    cursor.execute(f"SELECT body FROM {SOURCE} ORDER BY id LIMIT %s", (bench.sizes.write,))
    rows = [(_QUEUE, body, "json") for (body,) in cursor.fetchall()]
    for first in range(0, len(rows), _STATEMENT_ROWS):
        statement = f"INSERT INTO {TABLE} (queue, body, content_type) VALUES (%s, %s, %s)"
        cursor.executemany(statement, rows[first : first + _STATEMENT_ROWS])
    raw.close()
