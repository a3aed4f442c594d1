"""Messages of a lake into the queue again: the selection is staged, and published at once under the replay's name.

So an interrupted replay has added nothing, and a repeated one adds nothing a second time, whatever became of its
messages meanwhile. Bodies are not decoded on the way: they come out as they went in, byte for byte.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import UTC, datetime, time
from itertools import accumulate, chain
from typing import TYPE_CHECKING, Final

from django_dbqueue.exceptions import InvalidPipeline
from django_dbqueue.spark.admission import admitted
from django_dbqueue.spark.enqueue_rows import enqueue_dataframe
from django_dbqueue.spark.files import Files
from django_dbqueue.spark.jobs.arguments import Progress, quiet
from django_dbqueue.spark.jobs.config import ReplayConfig
from django_dbqueue.spark.lake import identity, read_lake
from django_dbqueue.spark.publication import Published, find_published

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

REPLAYED_FROM: Final = "dbqueue.replayed_from"
"""The header that names the replay, and the repeated message: its id, its archive id and its queue."""
UNREADABLE: Final = "dbqueue.unreadable_headers"
"""Where headers are kept that were not a JSON object."""
LARGEST: Final = 2**31 - 1
"""Bytes of a payload: what the queue accepted once it accepts again, whatever its current limit is."""
_PLACES: Final = 33
"""Bits of ``monotonically_increasing_id`` that count the rows of one partition."""


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """What a replay added, or would add: ``counts`` are (queue, day, messages) of a dry run."""

    job_id: str
    counts: tuple[tuple[str, str, int], ...] = ()
    published: Published | None = None

    @property
    def messages(self) -> int:
        """How many messages were selected by a dry run."""
        return sum(count for _, _, count in self.counts)

    def __str__(self) -> str:
        if self.published is not None and self.published.again:
            return (
                f"The replay {self.job_id!r} was published before: nothing was added (then: "
                f"{self.published.created:,} messages). To send them once more, give another name with --job-id."
            )
        if self.published is not None:
            return (
                f"The replay {self.job_id!r} is published: {self.published.created:,} messages enqueued, "
                f"{self.published.ignored:,} ignored because their keys are taken."
            )
        width = max((len(queue) for queue, _, _ in self.counts), default=0)
        lines = [f"{queue:<{width}}  {day}  {count:>12,}" for queue, day, count in self.counts]
        return "\n".join([*lines, f"The replay {self.job_id!r} would enqueue {self.messages:,} messages."])


def run(spark: SparkSession, config: ReplayConfig, *, progress: Progress = quiet) -> ReplayResult:
    """Enqueue what is selected, unless the replay with this name has done so; or count it."""
    name = identity(Files(spark, config.lake), make=False)
    if name is None:
        raise InvalidPipeline(f"There is no lake at {config.lake!r}: name the root that export has written to.")
    job_id = config.job_id or derived_id(name, config)
    selected = _selected(spark, config)
    if config.dry_run:
        progress("counting", 0, None)
        return ReplayResult(job_id, counts=_counts(selected))
    job = f"replay:{job_id}"
    with admitted(config.load_credentials(), outage=config.outage) as connection:
        published = find_published(connection, job, run=0)
    if published is None:
        progress(f"replaying as {job_id}", 0, None)
        published = enqueue_dataframe(
            _messages(selected, config, job_id),
            job_id=job,
            credentials_file=config.credentials_file,
            credentials_env=config.credentials_env,
            outage=config.outage,
            max_connections=config.max_connections,
            max_payload_bytes=LARGEST,
        )
    return ReplayResult(job_id, published=published)


def derived_id(lake: str, config: ReplayConfig) -> str:
    """Return the name of an unnamed replay: the same selection to the same place gets the same one."""
    choice = [lake, sorted(config.queue), config.from_, config.to, config.key, config.only, config.where, config.limit]
    text = json.dumps([*choice, config.to_queue], default=str)
    return f"replay-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


# -- which ones -------------------------------------------------------------------------------------------------------


def _selected(spark: SparkSession, config: ReplayConfig) -> DataFrame:
    from pyspark.sql import functions as sql

    since = None if config.from_ is None else datetime.combine(config.from_, time.min, UTC)
    until = None if config.to is None else datetime.combine(config.to, time.max, UTC)
    frame = read_lake(spark, config.lake, queues=config.queue, since=since, until=until)
    if config.key is not None:
        frame = frame.where(sql.col("key").like(like_of(config.key)))
    if config.only == "dead":
        frame = frame.where(sql.col("outcome") == "dead")
    if config.only == "failed":
        frame = frame.where((sql.col("outcome") == "dead") | (sql.col("read_count") > 1))
    if config.where is not None:
        frame = _where(frame, config.where)
    return frame if config.limit is None else frame.orderBy("id").limit(config.limit)


def like_of(pattern: str) -> str:
    r"""Return a pattern with * and ? as one for LIKE, with \ as the escape character."""
    escaped = "".join("\\" + letter if letter in "\\%_" else letter for letter in pattern)
    return escaped.replace("*", "%").replace("?", "_")


def _where(frame: DataFrame, condition: str) -> DataFrame:
    from pyspark.errors import AnalysisException

    try:
        return frame.where(condition)
    except AnalysisException as error:  # includes ParseException
        reason = str(error).strip().splitlines()[0]
        columns = ", ".join(frame.columns)
        raise InvalidPipeline(
            f"--where {condition!r} is not a condition on the lake's columns ({columns}): {reason}"
        ) from error


def _counts(selected: DataFrame) -> tuple[tuple[str, str, int], ...]:
    rows = selected.groupBy("queue", "day").count().orderBy("queue", "day").collect()
    return tuple((row[0], str(row[1]), row[2]) for row in rows)


# -- as what ----------------------------------------------------------------------------------------------------------


def _messages(selected: DataFrame, config: ReplayConfig, job_id: str) -> DataFrame:
    from pyspark.sql import functions as sql
    from pyspark.sql.types import StringType

    frame = selected if config.rate is None else _with_places(selected)
    headers = sql.udf(_Lineage(job_id), StringType(), useArrow=False)
    columns = [
        sql.col("body"),
        sql.col("content_type"),
        (sql.col("queue") if config.to_queue is None else sql.lit(config.to_queue)).alias("queue"),
        sql.col("priority"),
        sql.col("max_reads"),
        sql.col("group_name").alias("group"),
        headers("headers", "message_id", "id", "queue").alias("headers"),
    ]
    if config.keys == "keep":
        columns.append(sql.col("key"))
    if config.rate is not None:
        columns.append((sql.col("place") / sql.lit(config.rate)).alias("delay"))
    return frame.select(*columns)


class _Lineage:
    """A function that adds the header saying where a message comes from."""

    def __init__(self, job_id: str) -> None:
        self.job_id = job_id

    def __call__(self, headers: str | None, message_id: int, archive_id: int, queue: str) -> str:
        kept: dict[str, object] = {}
        if headers is not None:
            try:
                kept = dict(json.loads(headers))
            except (ValueError, TypeError):
                kept = {UNREADABLE: headers}
        origin = {"job": self.job_id, "message": message_id, "archive": archive_id, "queue": queue}
        return json.dumps({**kept, REPLAYED_FROM: origin}, ensure_ascii=False)


def _with_places(selected: DataFrame) -> DataFrame:
    """Number the messages from 0, by archive id: sorted once, and then counted partition by partition."""
    from pyspark.sql import functions as sql

    # A checkpoint, so that the partitions counted are the ones numbered
    ordered = selected.orderBy("id").select("*", sql.monotonically_increasing_id().alias("place")).localCheckpoint()
    part, place = sql.shiftright("place", _PLACES), sql.col("place").bitwiseAND(sql.lit((1 << _PLACES) - 1))
    sizes = {row[0]: row[1] for row in ordered.groupBy(part.alias("part")).count().collect()}
    if not sizes:
        return ordered
    before = dict(zip(sorted(sizes), accumulate((sizes[each] for each in sorted(sizes)), initial=0), strict=False))
    first: Column = sql.create_map(
        *chain.from_iterable((sql.lit(each), sql.lit(count)) for each, count in before.items())
    )
    return ordered.withColumn("place", first[part] + place)
