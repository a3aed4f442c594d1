"""Reading a lake's files back, and comparing what they hold with what their manifest says."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from django_dbqueue.exceptions import LakeDamaged
from django_dbqueue.spark.lake import COLUMNS, frame_of
from django_dbqueue.spark.manifest import FOLDER, Facts, LakeFile, Manifest, total
from django_dbqueue.spark.manifests import first_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyspark.sql import Column, SparkSession

    from django_dbqueue.spark.files import Files

Columns = tuple[tuple[str, str], ...]
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_PARTS: Final = 4
"""Names in a file's path below the root."""


def verify(spark: SparkSession, files: Files, manifest: Manifest, chosen: Sequence[LakeFile] | None = None) -> None:
    """Read files of a manifest back, all or those chosen; LakeDamaged unless they hold what the manifest says."""
    chosen = manifest.files if chosen is None else chosen
    for each in chosen:
        length = files.length(each.path)
        if length != each.bytes:
            found = "is missing" if length is None else f"has {length:,} bytes instead of {each.bytes:,}"
            raise LakeDamaged(f"{files.url(each.path)} {found}. {_what_now(manifest)}")
    try:
        found_files = measured(spark, files, chosen, manifest.columns)
    except Exception as error:
        raise LakeDamaged(
            f"The files of {files.url(FOLDER)}/{manifest.name} can't be read: {first_line(error)}. "
            f"{_what_now(manifest)}"
        ) from error
    for listed, found_file in zip(chosen, found_files, strict=True):
        if listed.facts is not None and listed.facts != found_file.facts:
            raise LakeDamaged(f"{_differs(files.url(listed.path), listed, found_file)} {_what_now(manifest)}")
    if len(chosen) == len(manifest.files):
        require_total(files, manifest, found_files)


def require_total(files: Files, manifest: Manifest, found: Sequence[LakeFile]) -> None:
    """Raise LakeDamaged unless all files of a manifest together hold what it says."""
    rows, checksum = total(found)
    if (rows, checksum) != (manifest.rows, manifest.checksum):
        raise LakeDamaged(
            f"The files of {files.url(FOLDER)}/{manifest.name} hold {rows:,} rows with the checksum {checksum}, but "
            f"the manifest says {manifest.rows:,} and {manifest.checksum}. {_what_now(manifest)}"
        )


def measured(
    spark: SparkSession, files: Files, chosen: Sequence[LakeFile], columns: Columns = COLUMNS
) -> tuple[LakeFile, ...]:
    """Read files, and return them with the facts that were found."""
    from pyspark.sql import functions as sql

    if not chosen:
        return ()
    frame = frame_of(spark, files, [each.path for each in chosen]).withColumn("file", sql.col("_metadata.file_path"))
    ended = sql.unix_micros("finished_at")
    bounds = [sql.min("id"), sql.max("id"), sql.min(ended), sql.max(ended)]
    facts = {
        "/".join(unquote(path).split("/")[-_PARTS:]): Facts(
            rows, hexadecimal(checksum), first_id, last_id, _moment(first), _moment(last)
        )
        for path, rows, checksum, first_id, last_id, first, last in frame.groupBy("file")
        .agg(*summing(columns), *bounds)
        .collect()
    }
    return tuple(LakeFile(each.path, each.bytes, facts.get(each.path)) for each in chosen)


def summing(columns: Iterable[tuple[str, str]] = COLUMNS) -> tuple[Column, Column]:
    """Return the aggregates ``rows`` and ``checksum``, which don't depend on the order of the rows.

    A column that is NULL adds nothing to a row's hash, so a column that was added later changes no checksum.
    """
    from pyspark.sql import functions as sql

    hashed = sql.xxhash64(*(sql.col(name) for name, _ in columns))
    return sql.count(sql.lit(1)).alias("rows"), sql.bit_xor(hashed).alias("checksum")


def hexadecimal(checksum: int | None) -> str:
    """Return a checksum in the form of manifests; no rows at all add up to zero."""
    return f"{(checksum or 0) % 2**64:016x}"


def _moment(micros: int) -> str:
    return (_EPOCH + timedelta(microseconds=micros)).isoformat(timespec="microseconds")


def _differs(url: str, listed: LakeFile, found: LakeFile) -> str:
    assert listed.facts is not None
    holds = "no rows" if found.facts is None else f"{found.facts.rows:,} rows with the checksum {found.facts.checksum}"
    return f"{url} holds {holds}, but the manifest says {listed.facts.rows:,} and {listed.facts.checksum}."


def _what_now(manifest: Manifest) -> str:
    return (
        f"Restore it from a backup of the lake. None of the archive's rows {manifest.first_id:,} to "
        f"{manifest.last_id:,} were purged by this run."
    )
