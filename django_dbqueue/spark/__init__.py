"""The data pipeline around the queue, on Spark. Nothing below this package imports Django: executors run it.

The names below are imported on first use, so that ``django_dbqueue.spark`` itself needs no PySpark.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from django_dbqueue.spark.credentials import Credentials as Credentials
    from django_dbqueue.spark.enqueue_rows import enqueue_dataframe as enqueue_dataframe
    from django_dbqueue.spark.lake import read_lake as read_lake
    from django_dbqueue.spark.listener import QueueListener as QueueListener
    from django_dbqueue.spark.sent_task_names import task_name as task_name
    from django_dbqueue.spark.spark_session import build_session as build_session
    from django_dbqueue.spark.spark_session import register as register

_HOMES = {
    "Credentials": "credentials",
    "QueueListener": "listener",
    "build_session": "spark_session",
    "enqueue_dataframe": "enqueue_rows",
    "read_lake": "lake",
    "register": "spark_session",
    "task_name": "sent_task_names",
}
__all__ = [*_HOMES]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
