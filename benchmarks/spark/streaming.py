"""The consuming stream from its start to its end, every message acked and in Parquet."""

from __future__ import annotations

import itertools
import secrets
from typing import Any

from benchmarks.race import Contest, Contestant, Target
from benchmarks.spark.bench import TABLE, Bench

_QUEUE = "streamed"
_STREAM, _RAW = "dbqueue stream to Parquet", "raw claim + ack"
_runs = itertools.count()


def streaming(bench: Bench) -> Contest:
    return Contest("stream", [_stream(bench), _raw(bench)], [Target(_STREAM, _RAW, 0.5, or_at_least=15_000)])


def _stream(bench: Bench) -> Contestant:
    where = bench.directory / "stream"
    run_number = 0

    def run() -> None:
        nonlocal run_number
        run_number = next(_runs)
        query = (
            bench.spark.readStream.format("dbqueue")
            .option("credentials_file", str(bench.credentials))
            .option("queue", _QUEUE)
            .option("stream", f"bench-{run_number}")
            .option("maxMessagesPerTrigger", str(bench.sizes.batch))
            .load()
            .writeStream.format("parquet")
            .option("path", str(where / f"rows-{run_number}"))
            .option("checkpointLocation", str(where / f"checkpoint-{run_number}"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    def check() -> None:
        rows = bench.spark.read.parquet(str(where / f"rows-{run_number}"))
        bench.expect(rows.select("id").distinct().count(), bench.sizes.stream, "the stream's sink")
        _expect_all_done(bench)

    return Contestant(_STREAM, bench.sizes.stream, run=run, prepare=lambda: _fill(bench), check=check)


def _raw(bench: Bench) -> Contestant:
    """The fewest statements that give each batch a holder and then its end; nobody reads the rows."""
    return Contestant(
        _RAW,
        bench.sizes.stream,
        run=lambda: _claim_and_ack(bench),
        prepare=lambda: _fill(bench),
        check=lambda: _expect_all_done(bench),
    )


def _fill(bench: Bench) -> None:
    bench.fill(bench.sizes.stream, queue=_QUEUE)


def _expect_all_done(bench: Bench) -> None:
    done = bench.number(f"SELECT COUNT(*) FROM {TABLE} WHERE queue = '{_QUEUE}' AND status = 'y'")
    bench.expect(done, bench.sizes.stream, "what is done")


def _claim_and_ack(bench: Bench) -> None:
    now, connection = bench.vendor.now, bench.vendor.conn_id
    claim = (
        f"UPDATE {TABLE} SET status = 'run', conn_id = {connection}, claim_token = %s, read_count = read_count + 1, "
        f"claimed_at = {now}, available_at = '9999-12-31' WHERE id BETWEEN %s AND %s AND queue = %s AND status = 'n'"
    )
    ack = (
        f"UPDATE {TABLE} SET status = 'y', live = NULL, available_at = {now}, finished_at = {now} "
        "WHERE id BETWEEN %s AND %s AND claim_token = %s AND status = 'run'"
    )
    with bench.vendor.session(autocommit=False) as session:
        cursor = session.cursor()
        while ids := _lock(bench, cursor):
            token = secrets.randbelow(2**63)
            cursor.execute(claim, (token, ids[0], ids[-1], _QUEUE))
            session.commit()
            cursor.execute(ack, (ids[0], ids[-1], token))
            session.commit()


def _lock(bench: Bench, cursor: Any) -> list[int]:
    cursor.execute(
        f"SELECT id FROM {TABLE}{bench.vendor.claim_index} WHERE queue = %s AND status = 'n' AND priority = 0 "
        f"AND available_at <= {bench.vendor.now} ORDER BY available_at, id LIMIT %s FOR UPDATE SKIP LOCKED",
        (_QUEUE, bench.sizes.batch),
    )
    return sorted(number for (number,) in cursor.fetchall())
