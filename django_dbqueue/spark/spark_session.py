"""A session suited to the queue, and the data source in an existing session."""

from __future__ import annotations

import os
import sys
import traceback
from subprocess import Popen
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    # A queue named 12 is text, even as the name of a directory
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
_LOCAL_SETTINGS = {
    # Opens no port to others, keeps no Hive metastore
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.sql.catalogImplementation": "in-memory",
}


def build_session(app: str, *, master: str | None = None, settings: dict[str, str] | None = None) -> SparkSession:
    """Return a session with the data source registered, UTC, and this very Python for its workers.

    ``master`` is Spark's; None leaves it to ``spark-submit``, or means ``local[*]`` if that has not set it.
    ``settings`` override the ones chosen here.
    """
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    chosen = master or (None if submitted else "local[*]")
    builder = SparkSession.builder.appName(app)
    if chosen is not None:
        builder = builder.master(chosen)
    local = {}
    if (chosen or "").startswith("local"):
        local = _LOCAL_SETTINGS
        # Otherwise the JVM looks up its own host name before it reads any setting, and dies if that has no address
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    for name, value in {**_SETTINGS, **local, **(settings or {})}.items():
        builder = builder.config(name, value)
    try:
        spark = builder.getOrCreate()
    except BaseException as error:
        _end_jvm(error)
        raise
    register(spark)
    return spark


def _end_jvm(error: BaseException) -> None:
    """End the JVM of a start that was broken off: nobody will read where it listens, so it would wait for ever."""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        for process in frame.f_locals.values():
            if isinstance(process, Popen):
                process.kill()


def register(spark: SparkSession) -> None:
    """Make ``format("dbqueue")`` known to a session that did not find it by itself when it started."""
    from django_dbqueue.spark.data_source import DbQueueDataSource

    spark.dataSource.register(DbQueueDataSource)
