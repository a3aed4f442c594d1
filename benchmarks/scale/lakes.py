"""A lake like one that an export has written, and a database that has its records: both are made, not exported.

Its files hold a few rows each; their manifests say that there are more. What a job costs that looks for files among all
of them doesn't tell one from the other.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.scale.filling import BEGIN, STEP
from django_dbqueue.history.history_sql import PURGED
from django_dbqueue.models import ExportBatch, HistoryReader
from tests.spark.made_lakes import MadeLake

if TYPE_CHECKING:
    from datetime import datetime

BATCH: Final = 500_000
"""Rows of a batch, as export has them by default."""
QUEUES: Final = 5
"""A batch has a file for each; so a billion rows are 10,000 files."""
_HELD: Final = 20
"""Rows that a file really has."""
_NAME: Final = "lake:made:00000000"


def make(alias: str, root: str, rows: int) -> int:
    """Make the lake, and record its batches as exported and purged; return how many files it has."""
    batches = rows // BATCH
    step: timedelta = BATCH * STEP / (QUEUES * _HELD)
    begin: datetime = BEGIN
    MadeLake(Path(root), batches, QUEUES, _HELD, step, stated=BATCH // QUEUES, begin=begin).make()
    HistoryReader.objects.using(alias).create(name=_NAME, position=batches * BATCH)
    ExportBatch.objects.using(alias).bulk_create(
        ExportBatch(
            lake=_NAME, number=number + 1, first_id=number * BATCH + 1, last_id=(number + 1) * BATCH, rows=BATCH,
            state=PURGED, purged_to=(number + 1) * BATCH, planned_at=begin, verified_at=begin, purged_at=begin,
        )
        for number in range(batches)
    )  # fmt: skip
    return batches * QUEUES
