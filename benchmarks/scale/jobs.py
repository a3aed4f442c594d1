"""The jobs that are accounted for, each with the same new rows beside a history of any size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from io import StringIO
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from django.core.management import call_command
from django.db import connections

from benchmarks.scale.filling import BEGIN, KEY_EVERY, QUEUES, ROWS_OF_A_KEY, STEP, TABLE
from django_dbqueue.doctor.examination import examine
from django_dbqueue.lifecycle import archive
from django_dbqueue.models import Message
from django_dbqueue.sessions.django_session import session_of
from django_dbqueue.spark import read_lake
from django_dbqueue.spark.jobs import compact, erase, export, replay, statistics
from django_dbqueue.spark.jobs.config import (
    CompactConfig,
    EraseConfig,
    ExportConfig,
    ReplayConfig,
    StatisticsConfig,
)
from tests.plans.crowd import gather_statistics, insert_messages

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

ROWS: Final = 20_000
"""New rows of a job; twice as many where the share of a row is to be found out."""
_AN_HOUR: Final = timedelta(hours=1) // STEP
LATE: Final = 400_000
"""Rows that came after a lake was made, and are in the database."""


@dataclass(slots=True)
class Site:
    """One history, with a lake and a stream's checkpoint of its own."""

    alias: str
    rows: int
    spark: SparkSession
    home: Path
    credentials: str
    files: int = 0
    """Of a lake that was made, and has all rows but the last LATE ones."""
    numbers: count[int] = field(default_factory=lambda: count(1))

    @property
    def end(self) -> datetime:
        """When the history's last message ended."""
        return BEGIN + self.rows * STEP

    @property
    def lake(self) -> str:
        return str(self.home / "lake")

    def config(self, kind: Callable[..., Any], **options: Any) -> Any:
        return kind(credentials_file=self.credentials, **options)

    def history(self, **options: Any) -> DataFrame:
        reader = self.spark.read.format("dbqueue").options(source="history", credentials_file=self.credentials)
        return reader.options(**options).load()

    def follow(self, position: str) -> int:
        """Let the stream of the history run until it has all; return how many rows that were."""
        source = self.spark.readStream.format("dbqueue").option("startingPosition", position)
        frame = source.options(credentials_file=self.credentials, source="history", reader="scale").load()
        seen = [0]

        def take(batch: DataFrame, _number: int) -> None:
            seen[0] += batch.count()

        writer = frame.writeStream.foreachBatch(take).option("checkpointLocation", str(self.home / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination()
        return seen[0]

    def execute(self, sql: str) -> None:
        with connections[self.alias].cursor() as cursor:
            cursor.execute(sql)


@dataclass(frozen=True, slots=True)
class Job:
    """``run`` works on ``new`` rows, and returns how many they were; ``prepare`` and ``restore`` aren't counted."""

    name: str
    run: Callable[[Site, int], int]
    new: int = ROWS
    prepare: Callable[[Site, int], object] | None = None
    restore: Callable[[Site, int], object] | None = None
    terms: tuple[str, ...] = ("each", "new", "depth")
    """What its cost is made of, by the model."""
    once: bool = False
    """It takes minutes beside a large history, and has one round."""


def _require(found: int, new: int) -> int:
    if found != new:
        raise AssertionError(f"{found:,} rows, not {new:,}")
    return found


def _finish(site: Site, new: int) -> None:
    """Put messages into the queue that are done, so that they can be archived."""
    insert_messages(
        connections[site.alias], new, f"'{QUEUES[0]}'", "y", 0, "-86400 + n * 0.001", finished="'2020-01-01'"
    )
    gather_statistics(using=site.alias)


def _forget_the_new(site: Site, _new: int) -> None:
    site.execute(f"DELETE FROM {TABLE} WHERE id > {site.rows}")


def _archive(site: Site, new: int) -> int:
    return _require(archive.DoneWalk(session_of(site.alias), QUEUES[0]).archive(age=0.0), new)


def _begin_to_follow(site: Site, new: int) -> None:
    site.follow("latest")
    _finish(site, new)
    _archive(site, new)


def _follow(site: Site, new: int) -> int:
    return _require(site.follow("latest"), new)


def _export(site: Site, new: int) -> int:
    config = site.config(ExportConfig, lake=site.lake, older_than=0.0, batch_rows=new, max_batches=1)
    result = export.run(site.spark, config)
    _require(result.purged, new)
    return _require(result.rows, new)


def begin(site: Site) -> None:
    """Let export make its lake, or a snapshot of one that was made: the first one costs more than all after it."""
    export.run(site.spark, site.config(ExportConfig, lake=site.lake, older_than=0.0, batch_rows=1_000, max_batches=1))


def _statistics(site: Site, new: int) -> int:
    since = site.end - timedelta(hours=new // _AN_HOUR)
    result = statistics.run(site.spark, site.config(StatisticsConfig, lake=(site.lake,), since=since))
    return _require(result.messages, new + 1)


def _read_ids(site: Site, new: int) -> int:
    first = site.rows // 2
    return _require(site.history(firstId=first, lastId=first + new - 1).select("body").count(), new)


def _read_hours(site: Site, new: int) -> int:
    first = BEGIN + (site.rows // 2) * STEP
    last = first + new * STEP
    return _require(site.history(since=first.isoformat(), until=last.isoformat()).select("body").count(), new)


def _replay(site: Site, new: int) -> int:
    config = site.config(ReplayConfig, lake=site.lake, job_id=f"scale-{next(site.numbers)}", limit=new, keys="drop")
    published = replay.run(site.spark, config).published
    return _require(0 if published is None else published.created, new)


def _forget_messages(site: Site, _new: int) -> None:
    site.execute(f"DELETE FROM {Message._meta.db_table}")


def _compact(site: Site, _new: int) -> int:
    compact.run(site.spark, site.config(CompactConfig, lake=site.lake, grace=0.0))
    return 0


def _erase(site: Site, new: int) -> int:
    middle = site.rows - LATE // 2 if site.files else site.rows // 2
    key = f"customer-{middle // (KEY_EVERY * ROWS_OF_A_KEY)}"
    result = erase.run(site.spark, site.config(EraseConfig, lake=site.lake, key=(key,), dry_run=True))
    _require(result.archived, ROWS_OF_A_KEY)
    return new


def _replay_a_day(site: Site, new: int) -> int:
    day = (BEGIN + (site.rows - LATE) // 2 * STEP).date()
    config = site.config(ReplayConfig, lake=site.lake, job_id=f"scale-{next(site.numbers)}", queue=("q1",))
    replay.run(site.spark, replace(config, from_=day, to=day))
    return new


def _read_lake(site: Site, new: int) -> int:
    since = BEGIN + (site.rows - LATE) // 2 * STEP
    read_lake(site.spark, site.lake, since=since, until=since + new * STEP).count()
    return new


def _status(site: Site, new: int) -> int:
    call_command("queue_status", database=site.alias, stdout=StringIO(), stderr=StringIO())
    return new


def _doctor(site: Site, new: int) -> int:
    list(examine(site.alias))
    return new


ALONE: Final = ("each", "depth")
ON_FILES: Final = ("each", "files")
JOBS: Final = (
    Job("export", _export),
    Job("statistics", _statistics, new=_AN_HOUR),
    Job("archive", _archive, prepare=_finish, restore=_forget_the_new),
    Job("follow", _follow, prepare=_begin_to_follow, restore=_forget_the_new),
    Job("read ids", _read_ids),
    Job("read hours", _read_hours),
    Job("replay", _replay, new=1_000, restore=_forget_messages),
    Job("compact", _compact, new=0, terms=ALONE),
    Job("status", _status, new=0, terms=ALONE),
    Job("doctor", _doctor, new=0, terms=ALONE),
    Job("erase", _erase, new=0, terms=("each", "rows"), once=True),
)
"""Beside a history in the database."""
LAKE_JOBS: Final = (
    Job("export", _export, terms=ON_FILES),
    Job("statistics", _statistics, new=_AN_HOUR, terms=ON_FILES),
    Job("replay a day", _replay_a_day, new=0, terms=ON_FILES, restore=_forget_messages),
    Job("read an hour", _read_lake, new=_AN_HOUR, terms=ON_FILES),
    Job("erase", _erase, new=0, terms=ON_FILES),
)
"""Beside a lake, whose files stand for a history that was exported."""
