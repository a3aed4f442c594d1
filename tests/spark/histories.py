"""Messages that ended at moments a test chooses, and the ways they go: to the archive, and into a lake."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django_dbqueue.models import Message
from django_dbqueue.spark.jobs import export
from django_dbqueue.spark.jobs.config import ExportConfig
from django_dbqueue.statuses import DONE, NEW

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def ended(
    finished_at: datetime,
    *,
    queue: str = "emails",
    wait: float = 1.0,
    took: float = 0.5,
    reads: int = 1,
    outcome: str = "done",
    body: str = "{}",
    content_type: str = "json",
    **columns: Any,
) -> Message:
    """A row that ended at this moment, having waited and run for so many seconds."""
    claimed_at = finished_at - timedelta(seconds=took)
    error = {"done": None, "dead": "Rejected: unwanted", "dropped": "dropped by hand"}[outcome]
    return Message(
        queue=queue,
        status=NEW if outcome == "dead" else DONE,
        available_at=None if outcome == "dead" else finished_at,
        claim_token=7,
        due_at=claimed_at - timedelta(seconds=wait),
        claimed_at=claimed_at,
        finished_at=finished_at,
        read_count=reads,
        error=error,
        body=body,
        content_type=content_type,
        **columns,
    )


def saved(*messages: Message) -> None:
    """Write them into the live table."""
    Message.objects.bulk_create(messages)


def archived(*messages: Message) -> None:
    """Write them, and move everything that is done or dead into the history."""
    saved(*messages)
    Message.objects.all().purge()


def exported(spark: SparkSession, credentials_file: str, root: Path, *, keep: bool = False) -> str:
    """Move the whole history into a lake; return its root."""
    export.run(spark, ExportConfig(credentials_file=credentials_file, lake=str(root), older_than=0.0, keep=keep))
    return str(root)
