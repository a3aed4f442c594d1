"""Roll-ups per queue and hour, from the live table, the archive and the lakes together, each message once.

A message moves from the live table to the archive and from there into a lake, and never back. They are read in that
order, each to its end before the next one is started. What left a place before it was read arrived at the next one
before that was read, so none is missed; what was read twice is recognised by its message id. Local checkpoints preserve
that order; if a machine is lost, they fail rather than read again, and the job is then run again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import reduce
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from django_dbqueue.databases.moments import to_column
from django_dbqueue.databases.statement import Row
from django_dbqueue.exceptions import InvalidPipeline
from django_dbqueue.insight import statistics_sql
from django_dbqueue.insight.statistics_sql import MUTEX
from django_dbqueue.lifecycle import archive_sql
from django_dbqueue.spark.admission import admitted
from django_dbqueue.spark.connection import Connection, to_utc
from django_dbqueue.spark.files import Files
from django_dbqueue.spark.jobs.arguments import Progress, quiet
from django_dbqueue.spark.jobs.config import StatisticsConfig
from django_dbqueue.spark.lake import identity, read_lake
from django_dbqueue.statuses import DONE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RECOMPUTED: Final = timedelta(hours=2)
"""How far before the last computed hour a run starts: for what was acked within a longer transaction."""
ACCURACY: Final = 10_000
"""The rank of a percentile is exact up to this many messages in a cell, and off by 1 in ACCURACY beyond."""
_INSERTED: Final = 70
"""Roll-ups per INSERT: SQLite takes 999 values in one statement."""
_HOUR: Final = 3_600_000_000
_ENDED = "message_id bigint, queue string, outcome string, read_count int, due_at timestamp, claimed_at timestamp"
_ENDED += ", finished_at timestamp"
_NAMES: Final = ("message_id", "queue", "outcome", "read_count", "due_at", "claimed_at", "finished_at")


@dataclass(frozen=True, slots=True)
class StatisticsResult:
    """How many roll-ups were written, of how many messages; ``since`` is the first hour, None for all."""

    cells: int
    messages: int
    since: datetime | None
    until: datetime

    def __str__(self) -> str:
        since = "the beginning" if self.since is None else f"{self.since:%Y-%m-%d %H:%M}"
        return (
            f"{self.cells:,} roll-ups of {self.messages:,} messages, from {since} to {self.until:%Y-%m-%d %H:%M} (UTC)."
        )


@dataclass(frozen=True, slots=True)
class _Window:
    """What is computed: messages that ended at ``since`` or later, and not after ``until``."""

    since: datetime | None
    until: datetime

    def of(self, frame: DataFrame) -> DataFrame:
        from pyspark.sql import functions as sql

        frame = frame.where(sql.col("finished_at") <= sql.lit(self.until))
        return frame if self.since is None else frame.where(sql.col("finished_at") >= sql.lit(self.since))


def run(spark: SparkSession, config: StatisticsConfig, *, progress: Progress = quiet) -> StatisticsResult:
    """Recompute the hours since two before the last computed one, or since ``config.since``."""
    with admitted(config.load_credentials(), outage=config.outage) as connection:
        window = _window(connection, config.since)
        _refuse_unknown_lakes(spark, connection, config.lake, window)
    progress("reading the live messages", 0, None)
    live = window.of(_live(spark, config)).localCheckpoint()
    progress("reading the archive", 0, None)
    archived = _archived(spark, config, window).localCheckpoint()
    # Again: an export may have begun meanwhile
    with admitted(config.load_credentials(), outage=config.outage) as connection:
        _refuse_unknown_lakes(spark, connection, config.lake, window)
    progress("reading the lake", 0, None)
    history = reduce(
        lambda one, other: one.unionByName(other), (_of_lake(spark, root, window) for root in config.lake), archived
    )
    history = history.dropDuplicates(["message_id"])
    ended = live.join(history.select("message_id"), "message_id", "left_anti").unionByName(history)
    cells = _cells(ended).localCheckpoint()
    progress("writing the roll-ups", 0, None)
    with admitted(config.load_credentials(), outage=config.outage) as connection:
        written, messages = connection.outermost(lambda: _replace(connection, cells, window.since))
    return StatisticsResult(written, messages, window.since, window.until)


def _window(connection: Connection, since: datetime | None) -> _Window:
    if since is None:
        last = connection.fetch(statistics_sql.last_hour(connection.server))[0][0]
        since = None if last is None else to_utc(last) - RECOMPUTED
    return _Window(
        since=None if since is None else since.replace(minute=0, second=0, microsecond=0), until=connection.clock()
    )


def _refuse_unknown_lakes(spark: SparkSession, connection: Connection, roots: Iterable[str], window: _Window) -> None:
    """Raise InvalidPipeline if rows of these hours have left the archive for a lake that isn't listed."""
    since = None if window.since is None else to_column(window.since, connection.vendor)
    purged = {str(name) for (name,) in connection.fetch(statistics_sql.lakes_purged_into(connection.server, since))}
    listed = {identity(Files(spark, root), make=False) for root in roots}
    if missing := sorted(purged - listed):
        raise InvalidPipeline(
            f"Messages of these hours were exported into {' and '.join(map(repr, missing))} and have left the "
            "archive, so they would not be counted: name the root of each such lake with --lake, or start later with "
            "--since."
        )


# -- what ended, place by place --------------------------------------------------------------------------------------


def _live(spark: SparkSession, config: StatisticsConfig) -> DataFrame:
    from pyspark.sql import functions as sql

    # As databases/archive_sql.py records it when the message is archived
    outcome = (
        sql.when(sql.col("status") != DONE, "dead").when(sql.col("error").isNotNull(), "dropped").otherwise("done")
    )
    columns = "id bigint, status string, error string" + _ENDED.removeprefix("message_id bigint").replace(
        ", outcome string", ""
    )
    frame = spark.read.format("dbqueue").options(**config.options, source="messages", status="done,dead")
    return frame.schema(columns).load().select(sql.col("id").alias("message_id"), outcome.alias("outcome"), *_rest())


def _archived(spark: SparkSession, config: StatisticsConfig, window: _Window) -> DataFrame:
    reader = spark.read.format("dbqueue").options(**config.options, source="history")
    if window.since is not None:  # what ended in the window was archived after that
        reader = reader.option("since", window.since.isoformat())
    return window.of(reader.schema(_ENDED).load().select(*_NAMES))


def _of_lake(spark: SparkSession, root: str, window: _Window) -> DataFrame:
    return read_lake(spark, root, since=window.since, until=window.until).select(*_NAMES)


def _rest() -> tuple[str, ...]:
    return tuple(name for name in _NAMES if name not in ("message_id", "outcome"))


# -- what it adds up to -----------------------------------------------------------------------------------------------


def _cells(ended: DataFrame) -> DataFrame:
    from pyspark.sql import functions as sql

    # Only if the last claim was the one that ended it: after a nack and then a drop, due_at is later than claimed_at
    ran = sql.col("claimed_at") >= sql.col("due_at")
    wait = sql.when(ran, sql.unix_micros("claimed_at") - sql.unix_micros("due_at"))
    took = sql.when(ran, sql.unix_micros("finished_at") - sql.unix_micros("claimed_at"))
    acked = sql.when(sql.col("outcome") == "done", 1).otherwise(0)
    rows = ended.select(
        "queue",
        sql.expr(f"unix_micros(finished_at) div {_HOUR}").alias("hour"),
        sql.greatest(sql.col("read_count") - acked, sql.lit(0)).alias("failures"),
        sql.greatest(sql.col("read_count") - 1, sql.lit(0)).alias("retries"),
        (sql.col("outcome") == "dead").cast("long").alias("dead"),
        wait.alias("wait"),
        took.alias("run"),
    )
    points = sql.array(sql.lit(0.5), sql.lit(0.95), sql.lit(0.99))
    totals = [sql.sum(name).alias(name) for name in ("failures", "retries", "dead")]
    spread = [sql.percentile_approx(name, points, ACCURACY).alias(name) for name in ("wait", "run")]
    return rows.groupBy("queue", "hour").agg(sql.count(sql.lit(1)).alias("messages"), *totals, *spread)


def _replace(connection: Connection, cells: DataFrame, since: datetime | None) -> tuple[int, int]:
    """Replace the roll-ups from this hour on, in one transaction; one writer at a time."""
    server = connection.server
    if not connection.fetch(archive_sql.find_mutex(server, MUTEX)):
        connection.run(archive_sql.create_mutex(server, MUTEX))
    written = messages = 0
    with connection.transaction():
        connection.fetch(archive_sql.lock_mutex(server, MUTEX, wait=True))
        connection.run(
            statistics_sql.drop_hours(server, None if since is None else to_column(since, connection.vendor))
        )
        for rows in _chunks(_column_values(each, connection.vendor) for each in cells.toLocalIterator()):
            connection.run(statistics_sql.add_hours(server, rows))
            written, messages = written + len(rows), messages + sum(row[2] for row in rows)
    return written, messages


def _column_values(cell: Any, vendor: str) -> Row:
    hour = to_column(datetime.fromtimestamp(cell.hour * 3_600, UTC), vendor)
    wait, took = (
        [None, None, None] if spread is None else [micros / 1_000_000 for micros in spread]
        for spread in (cell.wait, cell.run)
    )
    return (cell.queue, hour, cell.messages, cell.failures, cell.retries, cell.dead, *wait, *took)


def _chunks(rows: Iterable[Row]) -> Iterator[list[Row]]:
    each = iter(rows)
    while chunk := list(islice(each, _INSERTED)):
        yield chunk
