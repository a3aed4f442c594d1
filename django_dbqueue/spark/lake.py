"""A lake: finished messages as Parquet files below one root, of which only those named by manifests count.

``root/queue=Q/day=YYYY-MM-DD/batch=N/*.parquet`` holds the rows, ``root/_manifests/`` a manifest for each batch and
snapshots that replace many of them, and ``root/_lake.json`` the lake's name, by which the database knows it wherever
its root is moved.
"""

from __future__ import annotations

import json
import re
import secrets
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from django_dbqueue.exceptions import LakeDamaged
from django_dbqueue.spark.files import Files
from django_dbqueue.spark.manifest import LakeFile
from django_dbqueue.spark.manifests import first_line, manifest_names, manifests
from django_dbqueue.spark.schemas import HISTORY

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator
    from datetime import datetime

    from pyspark.sql import DataFrame, SparkSession

COLUMNS: Final = (*((name, kind.simpleString()) for name, kind in HISTORY.columns.items()), ("day", "date"))
"""The columns of each row of a lake: the history's, and the day (UTC) on which the message was finished.

A file without one of them is of an older version; the column is read as NULL there.
"""
PREFIX: Final = "lake:"
IDENTITY: Final = "_lake.json"
_FORMAT: Final = 1
"""Of the file with the lake's name."""
_LISTING: Final = "spark.sql.sources.parallelPartitionDiscovery.parallelism"
_LISTING_TASKS: Final = 32
"""Spark looks at each file that it is given, in a job with a task for each: a minute for thousands."""


def read_lake(
    spark: SparkSession,
    root: str,
    *,
    queues: Collection[str] = (),
    since: datetime | None = None,
    until: datetime | None = None,
) -> DataFrame:
    """Return the rows of all batches whose manifests are whole: the columns of ``COLUMNS``, and ``batch``.

    ``queues`` limits them to these queues, ``since`` and ``until`` to what was finished then, both moments included
    and aware. Spark is told only of files that may have such rows. A lake that nothing was exported to is empty.
    Raises LakeDamaged if a manifest is no longer what was written.
    """
    from pyspark.sql import functions as sql

    files = Files(spark, root)
    named = (each for manifest in manifests(files) for each in manifest.files)
    rows = frame_of(spark, files, [each.path for each in named if _may_have(each, queues, since, until)])
    if queues:
        rows = rows.where(sql.col("queue").isin(*queues))
    if since is not None:
        rows = rows.where(sql.col("finished_at") >= sql.lit(since))
    return rows if until is None else rows.where(sql.col("finished_at") <= sql.lit(until))


def _may_have(file: LakeFile, queues: Collection[str], since: datetime | None, until: datetime | None) -> bool:
    first, last = file.first_moment, file.last_moment
    return (
        (not queues or file.queue in queues)
        and (since is None or last >= since)
        and (until is None or first <= until)
    )  # fmt: skip


def frame_of(spark: SparkSession, files: Files, paths: Iterable[str]) -> DataFrame:
    """Return the rows of these files, whichever version wrote them."""
    columns = ", ".join(f"`{name}` {kind}" for name, kind in (*COLUMNS, ("batch", "bigint")))
    names = [name for name, _ in COLUMNS] + ["batch"]
    urls = [files.url(path) for path in paths]
    if not urls:
        return spark.createDataFrame([], columns).select(*names)
    with _few_listing_tasks(spark):
        rows = spark.read.schema(columns).option("basePath", files.root).parquet(*urls)
    return rows.select(*names)


@contextmanager
def _few_listing_tasks(spark: SparkSession) -> Iterator[None]:
    before = spark.conf.get(_LISTING)
    spark.conf.set(_LISTING, str(_LISTING_TASKS))
    try:
        yield
    finally:
        spark.conf.set(_LISTING, str(before))


def identity(files: Files, *, make: bool) -> str | None:
    """Return the lake's name; if it has none, create one, or return None."""
    if files.length(IDENTITY) is None:
        if manifest_names(files):
            raise LakeDamaged(
                f"{files.root} has manifests but no {IDENTITY}, which contains the lake's name. Restore the file: "
                "the manifests contain the name as well, under 'lake'."
            )
        if not make:
            return None
        slug = re.sub(r"[^A-Za-z0-9_.-]+", "-", files.root.rsplit("/", 1)[-1])[:40].strip("-")
        name = f"{PREFIX}{slug or 'root'}:{secrets.token_hex(4)}"
        files.publish(IDENTITY, json.dumps({"format": _FORMAT, "lake": name}) + "\n")
    try:
        found: object = json.loads(files.read(IDENTITY))["lake"]
    except Exception as error:
        raise LakeDamaged(f"{files.url(IDENTITY)} doesn't contain the lake's name: {first_line(error)}") from error
    if not isinstance(found, str) or not found.startswith(PREFIX):
        raise LakeDamaged(f"{files.url(IDENTITY)} says {found!r}, which is not the name of a lake.")
    return found
