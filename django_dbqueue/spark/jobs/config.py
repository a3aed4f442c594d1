"""What each job takes, declared once: one frozen dataclass per job, from which its command line is built.

``manage.py queue_pipeline`` and ``python -m django_dbqueue.spark`` both build their parsers from here. Nothing here
needs PySpark or Java, so ``--help`` and wrong options are answered without them.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from typing import Final

from django_dbqueue.exceptions import InvalidPipeline
from django_dbqueue.spark.jobs.arguments import (
    JobConfig,
    argument,
    day,
    duration,
    job_name,
    message_key,
    moment,
    pair,
    queue_name,
    rate,
    whole,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeConfig(JobConfig):
    """A job that changes a lake, under the exporters' lock."""

    lake: str = argument("root of the lake: a directory, or a URL that Hadoop's file systems support", metavar="ROOT")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportConfig(LakeConfig):
    """Archive rows into a lake of Parquet files; purged here once their manifest was verified."""

    older_than: float = argument(
        "rows that were archived at least this long ago: seconds, or 15m, 12h, 7d (default: 1h)",
        read=duration,
        default=3_600.0,
        metavar="TIME",
    )
    batch_rows: int = argument(
        "maximum number of rows in a batch (default: 500,000)", read=whole(1, 100_000_000), default=500_000, metavar="N"
    )
    max_batches: int | None = argument("stop after this many batches", read=whole(1, 10**9), default=None, metavar="N")
    keep: bool = argument("purge nothing from the archive", flag=True)
    delta: bool = argument(
        "also publish a Delta Lake log; every later job that changes the lake then keeps it", flag=True
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactConfig(LakeConfig):
    """Small files of a lake into larger ones; the old ones are deleted after a grace period."""

    file_mb: int = argument(
        "merge files of less than half this many megabytes into files of about this size (default: 64)",
        read=whole(1, 100_000),
        default=64,
        metavar="N",
    )
    grace: float = argument(
        "delete files this long after they were replaced, when no reader that found them still reads: seconds, or "
        "15m, 12h, 7d (default: 7d)",
        read=duration,
        default=604_800.0,
        metavar="TIME",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class EraseConfig(LakeConfig):
    """Messages with these keys out of the history and a lake."""

    key: tuple[str, ...] = argument(
        "a key whose finished messages are erased; may be repeated", read=message_key, repeated=True
    )
    queue: tuple[str, ...] = argument("only in this queue; may be repeated", read=queue_name, repeated=True)
    dry_run: bool = argument("count what has the keys, and erase nothing", flag=True)

    def __post_init__(self) -> None:
        if not self.key:
            raise InvalidPipeline("Name the keys whose messages are to be erased, with --key.")


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestConfig(JobConfig):
    """Any source that Spark reads into a queue, by a mapping of columns."""

    source: str | None = argument("path or URL of the source (not for kafka)", default=None, metavar="PATH")
    format: str = argument("csv, json, parquet, or another that Spark supports (default: csv)", default="csv")
    schema: str | None = argument(
        "the source's columns and their types, such as 'id bigint, name string' (default: what Spark infers)",
        default=None,
        metavar="DDL",
    )
    option: tuple[tuple[str, str], ...] = argument(
        "an option of the source, such as header=true; may be repeated", read=pair, repeated=True, metavar="NAME=VALUE"
    )
    queue: str = argument("queue to enqueue to", read=queue_name)
    job_id: str = argument("name of this ingest; repeating a name adds nothing", read=job_name)
    column: tuple[tuple[str, str], ...] = argument(
        "a column of the message as a SQL expression over the source's columns: payload, json, key, group, delay, "
        "at, priority, max_reads, lease, headers; may be repeated (default: the payload is the whole row)",
        read=pair,
        repeated=True,
        metavar="NAME=EXPRESSION",
    )
    where: str | None = argument("only rows that meet this SQL condition on the source's columns", default=None)
    priority: int | None = argument(
        "priority of messages without their own (default: 0, or as set in DBQUEUE)", read=int, default=None, metavar="N"
    )
    group: str | None = argument(
        "group of messages without their own, * if the queue is one group (default: none, or as set in DBQUEUE)",
        default=None,
        metavar="NAME",
    )
    max_payload_bytes: int | None = argument(
        "maximum size of a payload (default: 1,048,576, or as set in DBQUEUE)",
        read=whole(1, 2**31 - 1),
        default=None,
        metavar="N",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StatisticsConfig(JobConfig):
    """Roll-ups per queue and hour, from the lakes, the archive and the live table together."""

    lake: tuple[str, ...] = argument(
        "root of a lake that export has written to; give it once for each lake whose rows were purged from the archive",
        metavar="ROOT",
        repeated=True,
    )
    since: datetime | None = argument(
        "recompute from this hour on (default: two hours before the last computed one)",
        read=moment,
        default=None,
        metavar="MOMENT",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayConfig(JobConfig):
    """Messages of the lake into the queue again, each exactly once per job id."""

    lake: str = argument("root of the lake that export has written to", metavar="ROOT")
    job_id: str | None = argument(
        "name of this replay; repeating a name adds nothing (default: derived from the selection, and printed)",
        read=job_name,
        default=None,
        metavar="NAME",
    )
    queue: tuple[str, ...] = argument("only this queue; may be repeated", read=queue_name, repeated=True)
    from_: date | None = argument(
        "only messages that ended on this day (UTC) or later", read=day, default=None, metavar="DAY"
    )
    to: date | None = argument(
        "only messages that ended on this day (UTC) or earlier", read=day, default=None, metavar="DAY"
    )
    key: str | None = argument("only keys that match this pattern: * is any text, ? one character", default=None)
    only: str | None = argument(
        "dead: only dead letters; failed: all with a failed delivery, including the dead",
        choices=("dead", "failed"),
        default=None,
    )
    where: str | None = argument("only rows that meet this SQL condition on the lake's columns", default=None)
    limit: int | None = argument(
        "only this many, in the order of their archive ids", read=whole(1, 10**12), default=None, metavar="N"
    )
    rate: float | None = argument(
        "spread the due times: this many messages per second", read=rate, default=None, metavar="N"
    )
    to_queue: str | None = argument(
        "queue to enqueue to (default: each to its own)", read=queue_name, default=None, metavar="QUEUE"
    )
    keys: str = argument(
        "keep: enqueue with keys, and ignore messages whose key is live; drop: enqueue without keys",
        choices=("keep", "drop"),
        default="keep",
    )
    dry_run: bool = argument("count messages per queue and day, and enqueue nothing", flag=True)

    def __post_init__(self) -> None:
        if self.from_ is not None and self.to is not None and self.from_ > self.to:
            raise InvalidPipeline(f"--from {self.from_} is after --to {self.to}: no day is in that range.")


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsConfig(JobConfig):
    """The consuming streams, who runs them, and what they hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseConfig(JobConfig):
    """A stream's claims back into the queue, by hand."""

    stream: str = argument("the stream whose claims are released", read=job_name, metavar="NAME")
    force: bool = argument("also if a query is running it; that query then fails", flag=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadersConfig(JobConfig):
    """The readers of the history, and how far they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetConfig(JobConfig):
    """A reader of the history, or a stream, that will not come back."""

    reader: str | None = argument(
        "the reader of the history that export should no longer wait for", default=None, metavar="NAME"
    )
    stream: str | None = argument(
        "the stream; it must hold no messages (see release)", read=job_name, default=None, metavar="NAME"
    )

    def __post_init__(self) -> None:
        if (self.reader is None) == (self.stream is None):
            raise InvalidPipeline("Name what to forget, with --reader NAME or --stream NAME.")


@dataclass(frozen=True, slots=True)
class Job:
    """A job's name, the module next to this one whose ``run(spark, config)`` does it, and what it takes.

    ``run`` returns something whose ``str()`` is for people, and takes ``progress``, a function of (what it is doing,
    how many of it are done, how many there are or None).
    """

    name: str
    module: str
    config: type[JobConfig]
    help: str
    needs_spark: bool = True


JOBS: Final = {
    job.name: job
    for job in (
        Job("export", "export", ExportConfig, "Write the archive into a lake of Parquet files, and purge it."),
        Job("compact", "compact", CompactConfig, "Merge small files of the lake into larger ones."),
        Job("erase", "erase", EraseConfig, "Erase messages by their keys from the history and the lake."),
        Job("statistics", "statistics", StatisticsConfig, "Compute the roll-ups per queue and hour."),
        Job("replay", "replay", ReplayConfig, "Enqueue messages from the lake again, each exactly once."),
        Job(
            "ingest",
            "ingest",
            IngestConfig,
            "Enqueue data from any source that Spark can read: CSV, JSON, Parquet and more.",
        ),
        Job("release", "release", ReleaseConfig, "Release the claims of a consuming stream.", needs_spark=False),
        Job("streams", "list_streams", StreamsConfig, "List the consuming streams.", needs_spark=False),
        Job("readers", "readers", ReadersConfig, "List the readers of the history.", needs_spark=False),
        Job("forget", "forget", ForgetConfig, "Forget a reader of the history, or a stream.", needs_spark=False),
    )
}
"""A job that needs no Spark gets None for it."""
