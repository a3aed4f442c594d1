"""A lake: finished messages as Parquet files below one root, of which only those named by manifests count.

``root/queue=Q/day=YYYY-MM-DD/batch=N/*.parquet`` holds the rows, ``root/_manifests/`` a manifest for each batch, and
``root/_lake.json`` the lake's name, by which the database knows it wherever its root is moved.
"""

from __future__ import annotations

import json
import re
import secrets
from typing import TYPE_CHECKING, Any, Final

from django_dbqueue.exceptions import LakeDamaged
from django_dbqueue.spark.files import Files
from django_dbqueue.spark.manifest import FOLDER, FORMAT, LakeFile, Manifest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import Column, DataFrame, SparkSession

COLUMNS: Final = (
    ("id", "bigint"),
    ("message_id", "bigint"),
    ("outcome", "string"),
    ("queue", "string"),
    ("key", "string"),
    ("claim_token", "bigint"),
    ("due_at", "timestamp"),
    ("priority", "smallint"),
    ("read_count", "int"),
    ("max_reads", "int"),
    ("crashes", "int"),
    ("body", "string"),
    ("content_type", "string"),
    ("headers", "string"),
    ("created_at", "timestamp"),
    ("claimed_at", "timestamp"),
    ("finished_at", "timestamp"),
    ("error", "string"),
    ("archived_at", "timestamp"),
    ("day", "date"),
)
"""The columns of each row of a lake: the history's, and the day (UTC) on which the message was finished."""
PARTITIONED_BY: Final = ("queue", "day", "batch")
PREFIX: Final = "lake:"
IDENTITY: Final = "_lake.json"


def read_lake(spark: SparkSession, root: str) -> DataFrame:
    """Return the rows of all batches whose manifests are whole: the columns of ``COLUMNS``, and ``batch``.

    A lake that nothing was exported to is empty. Raises LakeDamaged if a manifest is no longer what was written.
    """
    files = Files(spark, root)
    return _frame(spark, files, [each.path for manifest in manifests(files) for each in manifest.files])


def manifests(files: Files) -> list[Manifest]:
    """Return the manifests by id; LakeDamaged if one can't be what export has written."""
    return [read_manifest(files, name) for name in manifest_names(files)]


def manifest_names(files: Files) -> list[str]:
    """Return the names of the manifests, in the order of their ids."""
    return [name for name in files.names(FOLDER) if name.endswith(".json") and not name.startswith(".")]


def read_manifest(files: Files, name: str) -> Manifest:
    """Read one; its name must match its content."""
    relative = f"{FOLDER}/{name}"
    try:
        text = files.read(relative)
    except Exception as error:
        raise LakeDamaged(f"The manifest {files.url(relative)} can't be read: {first_line(error)}") from error
    manifest = Manifest.parse(text, where=files.url(relative))
    if manifest.name != name:
        raise LakeDamaged(f"The manifest {files.url(relative)} should have the file name {manifest.name}: rename it.")
    return manifest


def verify(spark: SparkSession, files: Files, manifest: Manifest) -> None:
    """Read the files of a batch back; LakeDamaged unless they exist and hold what the manifest says."""
    for each in manifest.files:
        length = files.length(each.path)
        if length != each.bytes:
            found = "is missing" if length is None else f"has {length:,} bytes instead of {each.bytes:,}"
            raise LakeDamaged(f"{files.url(each.path)} {found}. {_what_now(manifest)}")
    try:
        rows, checksum = summary(_frame(spark, files, [each.path for each in manifest.files]), manifest.columns)
    except Exception as error:
        raise LakeDamaged(
            f"The files of {files.url(FOLDER)}/{manifest.name} can't be read: {first_line(error)}. "
            f"{_what_now(manifest)}"
        ) from error
    if (rows, checksum) != (manifest.rows, manifest.checksum):
        raise LakeDamaged(
            f"The files of {files.url(FOLDER)}/{manifest.name} hold {rows:,} rows with the checksum {checksum}, but "
            f"the manifest says {manifest.rows:,} and {manifest.checksum}. {_what_now(manifest)}"
        )


def summary(frame: DataFrame, columns: Iterable[tuple[str, str]] = COLUMNS) -> tuple[int, str]:
    """Return how many rows there are, and what their hashes add up to."""
    rows, checksum = frame.agg(*summing(columns)).collect()[0]
    return int(rows), hexadecimal(checksum)


def summing(columns: Iterable[tuple[str, str]] = COLUMNS) -> tuple[Column, Column]:
    """Return the aggregates ``rows`` and ``checksum``, which don't depend on the order of the rows."""
    from pyspark.sql import functions as sql

    hashed = sql.xxhash64(*(sql.col(name) for name, _ in columns))
    return sql.count(sql.lit(1)).alias("rows"), sql.bit_xor(hashed).alias("checksum")


def hexadecimal(checksum: int | None) -> str:
    """Return a checksum in the form of manifests; no rows at all add up to zero."""
    return f"{(checksum or 0) % 2**64:016x}"


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
        files.publish(IDENTITY, json.dumps({"format": FORMAT, "lake": name}) + "\n")
    try:
        said: object = json.loads(files.read(IDENTITY))["lake"]
    except Exception as error:
        raise LakeDamaged(f"{files.url(IDENTITY)} doesn't contain the lake's name: {first_line(error)}") from error
    if not isinstance(said, str) or not said.startswith(PREFIX):
        raise LakeDamaged(f"{files.url(IDENTITY)} says {said!r}, which is not the name of a lake.")
    return said


def written_files(files: Files, batch: int) -> tuple[LakeFile, ...]:
    """List what was written for a batch."""
    found = files.find(f"queue=*/day=*/batch={batch}/*.parquet")
    return tuple(LakeFile(path, length) for path, length in sorted(found.items()))


def first_line(error: BaseException) -> str:
    """Return the text of a Spark or Java error, without its stack trace."""
    java: Any = getattr(error, "java_exception", None)
    while java is not None and java.getCause() is not None:
        java = java.getCause()
    text = str(java.toString() if java is not None else error) or type(error).__name__
    return text.strip().splitlines()[0]


def _frame(spark: SparkSession, files: Files, paths: list[str]) -> DataFrame:
    columns = ", ".join(f"`{name}` {kind}" for name, kind in (*COLUMNS, ("batch", "bigint")))
    names = [name for name, _ in COLUMNS] + ["batch"]
    if not paths:
        return spark.createDataFrame([], columns).select(*names)
    reader = spark.read.schema(columns).option("basePath", files.root)
    return reader.parquet(*(files.url(path) for path in paths)).select(*names)


def _what_now(manifest: Manifest) -> str:
    return (
        f"Restore it from a backup of the lake. None of the archive's rows {manifest.first_id:,} to "
        f"{manifest.last_id:,} were purged by this run."
    )
