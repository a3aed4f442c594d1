"""The data pipeline around the queue, on Spark. Nothing below this package imports Django: executors run it.

The names below are imported on first use, so that ``django_dbqueue.spark`` itself needs no PySpark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_dbqueue.lazy_names import names_on_first_use

if TYPE_CHECKING:
    from django_dbqueue.spark.credentials import Credentials as Credentials
    from django_dbqueue.spark.enqueue_rows import enqueue_dataframe as enqueue_dataframe
    from django_dbqueue.spark.lake import read_lake as read_lake
    from django_dbqueue.spark.listener import QueueListener as QueueListener
    from django_dbqueue.spark.sent_task_names import task_name as task_name
    from django_dbqueue.spark.spark_session import build_session as build_session
    from django_dbqueue.spark.spark_session import register as register

__getattr__, __dir__, __all__ = names_on_first_use(
    __name__,
    {
        "credentials": ("Credentials",),
        "listener": ("QueueListener",),
        "spark_session": ("build_session", "register"),
        "enqueue_rows": ("enqueue_dataframe",),
        "lake": ("read_lake",),
        "sent_task_names": ("task_name",),
    },
)
