"""Files of a lake replaced by others, in one commit; and the deletion of those that were replaced."""

from __future__ import annotations

import math
from collections import Counter
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Final

from django_dbqueue.exceptions import ExportStopped, LakeDamaged
from django_dbqueue.spark.lake import frame_of
from django_dbqueue.spark.lake_writing import write
from django_dbqueue.spark.manifest import FOLDER, SNAPSHOT, name_of, total
from django_dbqueue.spark.manifests import Listed, first_line, manifest_names, read_manifest
from django_dbqueue.spark.verifying import hexadecimal, measured, summing

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyspark.sql import Column

    from django_dbqueue.spark.lake_keeping import Keeper
    from django_dbqueue.spark.manifest import LakeFile


FILE_MB: Final = 64
"""Megabytes that a file should have, more or less."""


def rewrite(
    keeper: Keeper, lake: Listed, old: Sequence[LakeFile], *, without: Column | None = None, file_mb: int = FILE_MB
) -> tuple[Listed, tuple[LakeFile, ...]]:
    """Replace files by new ones with the same rows, less those ``without`` is true of; return the lake, and the new.

    There are as many new ones for a queue and day as make up ``file_mb`` megabytes each. They are read back first:
    their rows, and those left out, must add up to the old ones.
    """
    from pyspark.sql import functions as sql

    spark, files = keeper.spark, keeper.files
    number = keeper.register.plan_rewrite()
    rows = frame_of(spark, files, [each.path for each in old]).drop("batch")
    unwanted = sql.lit(False) if without is None else sql.coalesce(without, sql.lit(False))
    try:
        kept = rows.where(~unwanted)
        kept = kept.repartition("queue", "day", _file_of_row(old, file_mb * 2**20))
        written = write(files, kept, number, sequence=lake.sequence + 1)
        new = measured(spark, files, written)
        plain = measured(spark, files, [each for each in old if each.facts is None])
        before = total([*old, *plain])
        left_out, their_sum = rows.where(unwanted).agg(*summing()).collect()[0]
    except Exception as error:
        raise ExportStopped(
            f"Files of the lake {files.root} could not be rewritten: {first_line(error)}. The lake is as it was; run "
            "the job again."
        ) from error
    after = total(new)
    hashes = int(after[1], 16) ^ int(hexadecimal(their_sum), 16)
    if (after[0] + left_out, f"{hashes:016x}") != before:
        raise LakeDamaged(
            f"{len(old):,} files of the lake {files.root}, of which the first is {old[0].path}, should hold "
            f"{before[0]:,} rows with the checksum {before[1]}, but what was read from them is {after[0]:,} rows and "
            f"{after[1]}. The lake is as it was. Restore them from a backup of the lake."
        )
    replaced = {each.path for each in old}
    rest = [each for manifest in keeper.read(lake) for each in manifest.files if each.path not in replaced]
    return keeper.publish(lake, [*rest, *new], batch=number), new


def _file_of_row(old: Iterable[LakeFile], target: int) -> Column:
    """Return which of the new files of its queue and day a row goes to; what goes to one file is in one partition."""
    from pyspark.sql import functions as sql

    sizes = Counter[tuple[str, date]]()
    for each in old:
        sizes[each.queue, each.day] += each.bytes
    number: Column = sql.lit(0)
    for (queue, day), size in sizes.items():
        if (count := math.ceil(size / target)) > 1:
            place = (sql.col("queue") == queue) & (sql.col("day") == sql.lit(day))
            number = sql.when(place, sql.expr(f"pmod(id, {count})")).otherwise(number)
    return number


def vacuum(keeper: Keeper, lake: Listed, seconds: float) -> int:
    """Delete manifests that snapshots replaced at least ``seconds`` ago, and files that no other manifest names.

    Returns how many files were deleted. Manifests go last, so an interrupted run is continued by the next one.
    """
    files = keeper.files
    names = manifest_names(files)
    until = datetime.fromisoformat(keeper.register.now()) - timedelta(seconds=seconds)
    snapshots = [read_manifest(files, name) for name in names if name.startswith(SNAPSHOT)]
    old = [each for each in snapshots if datetime.fromisoformat(each.written_at) <= until]
    if not old or lake.snapshot is None:
        return 0
    newest = old[-1]
    kept = {each.path for snapshot in snapshots if snapshot.sequence >= newest.sequence for each in snapshot.files}
    folders = {path.rpartition("/")[0] for path in kept}
    dead = [each for each in snapshots if each.sequence < newest.sequence]
    dead += [
        read_manifest(files, name)
        for name in names
        if not name.startswith(SNAPSHOT) and name <= name_of(newest.last_id)
    ]
    gone = {each.path: each.folder for manifest in dead for each in manifest.files if each.path not in kept}
    files.delete(*sorted(set(gone.values()) - folders))
    files.delete(*sorted(path for path, folder in gone.items() if folder in folders))
    files.delete(*(f"{FOLDER}/{manifest.name}" for manifest in dead))
    return len(gone)
