"""Compaction: small files of past batches merged into larger ones, and what they replaced deleted after a grace period.

Each commit writes new files under a number that no other try has, reads them back, and publishes the lake's next
snapshot, which names them instead of the old ones: one rename. Until then nothing has changed; from then on every
reader that lists the lake reads the new ones. One that listed it before continues to read the old ones.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from django_dbqueue.spark.jobs.arguments import Progress, quiet
from django_dbqueue.spark.lake_keeping import Keeper, keeping
from django_dbqueue.spark.lake_rewriting import rewrite, vacuum

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import SparkSession

    from django_dbqueue.spark.jobs.config import CompactConfig
    from django_dbqueue.spark.manifest import LakeFile

_MB: Final = 2**20
AT_ONCE: Final = 2**30
"""Bytes of files that one commit replaces, more or less: a killed run loses no more work than that."""


@dataclass(frozen=True, slots=True)
class CompactResult:
    """How many files were replaced by how many, in how many commits, and how many old ones were deleted."""

    lake: str
    commits: int = 0
    merged: int = 0
    written: int = 0
    rows: int = 0
    deleted: int = 0

    def __str__(self) -> str:
        return (
            f"{self.lake}: {self.merged:,} files with {self.rows:,} rows merged into {self.written:,} in "
            f"{self.commits:,} commits, {self.deleted:,} old files deleted."
        )


def run(spark: SparkSession, config: CompactConfig, progress: Progress = quiet) -> CompactResult:
    """Merge, then delete what was replaced long enough ago; ExportBusy, ExportStopped or LakeDamaged say why not.

    What was committed before one of them was raised stays committed.
    """
    with keeping(spark, config, make=False) as keeper:
        return _compact(keeper, config, progress)


def _compact(keeper: Keeper, config: CompactConfig, progress: Progress) -> CompactResult:
    result = CompactResult(keeper.files.root)
    position, lake = keeper.recover(keeper.register.position())
    named = [each for manifest in keeper.read(lake) for each in manifest.files]
    for small in _commits(_mergeable(named, config.file_mb * _MB)):
        lake, written = rewrite(keeper, lake, small, file_mb=config.file_mb)
        keeper.clear(position, lake)
        result = replace(
            result,
            commits=result.commits + 1,
            merged=result.merged + len(small),
            written=result.written + len(written),
            rows=result.rows + sum(each.facts.rows for each in written if each.facts is not None),
        )
        progress("files merged", result.merged, None)
    return replace(result, deleted=vacuum(keeper, lake, config.grace))


def _mergeable(named: Iterable[LakeFile], target: int) -> Iterator[list[LakeFile]]:
    """Yield, for each queue and day with more than one file below half the target, these files."""
    places: dict[str, list[LakeFile]] = defaultdict(list)
    for each in named:
        if each.bytes < target / 2:
            places[each.folder.rpartition("/")[0]].append(each)
    for place in sorted(places):
        if len(places[place]) > 1:
            yield places[place]


def _commits(groups: Iterable[list[LakeFile]]) -> Iterator[list[LakeFile]]:
    chosen: list[LakeFile] = []
    for group in groups:
        chosen += group
        if sum(each.bytes for each in chosen) >= AT_ONCE:
            yield chosen
            chosen = []
    if chosen:
        yield chosen
