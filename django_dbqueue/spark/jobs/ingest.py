"""Anything that Spark reads into a queue: a source, a mapping of its columns, and a name that makes it exactly once."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import functions

from django_dbqueue.exceptions import InvalidPipeline
from django_dbqueue.spark.columns import BODIES, COLUMNS
from django_dbqueue.spark.enqueue_rows import enqueue_dataframe
from django_dbqueue.spark.jobs.arguments import Progress, quiet
from django_dbqueue.spark.jobs.config import IngestConfig
from django_dbqueue.spark.publication import Published

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def run(spark: SparkSession, config: IngestConfig, *, progress: Progress = quiet) -> Published:
    """Enqueue what the source holds, exactly once for each job id; InvalidPipeline for an invalid mapping."""
    _refuse_columns(config)
    try:
        messages = _mapped(_read(spark, config), config)
    except (PySparkException, Py4JJavaError) as error:
        reason = error.java_exception.getMessage() if isinstance(error, Py4JJavaError) else error
        raise InvalidPipeline(
            f"The source can't be read with these arguments: {reason} Nothing was enqueued."
        ) from error
    progress("messages", 0, None)
    published = enqueue_dataframe(
        messages,
        queue=config.queue,
        job_id=config.job_id,
        max_payload_bytes=config.max_payload_bytes,
        priority=config.priority,
        group=config.group,
        credentials_file=config.credentials_file,
        credentials_env=config.credentials_env,
        outage=config.outage,
        max_connections=config.max_connections,
    )
    progress("messages", published.created + published.ignored, published.created + published.ignored)
    return published


def _refuse_columns(config: IngestConfig) -> None:
    for name, times in Counter(name for name, _ in config.column).items():
        if name not in COLUMNS:
            raise InvalidPipeline(f"A message has no column {name!r}: map to {', '.join(COLUMNS)}.")
        if times > 1:
            raise InvalidPipeline(f"The column {name!r} is mapped {times} times: keep one of them.")


def _read(spark: SparkSession, config: IngestConfig) -> DataFrame:
    reader = spark.read.format(config.format).options(**dict(config.option))
    if config.schema is not None:
        reader = reader.schema(config.schema)
    source = reader.load() if config.source is None else reader.load(config.source)
    return source if config.where is None else source.where(config.where)


def _mapped(source: DataFrame, config: IngestConfig) -> DataFrame:
    """Return the columns of a message; without a body among them, the payload is the whole row."""
    columns = [functions.expr(expression).alias(name) for name, expression in config.column]
    if not {name for name, _ in config.column} & set(BODIES):
        columns.append(functions.struct("*").alias("payload"))
    return source.select(*columns)
