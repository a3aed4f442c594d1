"""Tasks in data frames of messages: which one a message is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_dbqueue.tasks.task_headers import TASK

if TYPE_CHECKING:
    from pyspark.sql import Column


def task_name(headers: Column | str = "headers") -> Column:
    """Return the dotted name of the task that a message is, from its headers; NULL for a message that is none.

    It reads what is in the frame, so it works on live messages, on both streams, on the history and on any lake.
    """
    from pyspark.sql import functions as sql

    return sql.get_json_object(headers, f"$['{TASK}']").alias("task")
