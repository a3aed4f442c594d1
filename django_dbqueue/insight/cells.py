"""The rows in which counts are kept, as cells that add up."""

from __future__ import annotations

from django_dbqueue.insight.ended import Cell
from django_dbqueue.insight.histogram import Histogram
from django_dbqueue.models import QueueMinute, QueueTotal


def cell_of(row: QueueMinute | QueueTotal) -> Cell:
    """Return the contents of a row."""
    return Cell(
        row.messages, row.failures, row.retries, row.dead, Histogram.of_text(row.wait), Histogram.of_text(row.run)
    )
