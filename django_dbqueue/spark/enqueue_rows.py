"""The short way from a data frame into the queue."""

from __future__ import annotations

import math
import random
import secrets
from typing import TYPE_CHECKING, Final

from django_dbqueue.exceptions import DBQueueError, InvalidPipeline
from django_dbqueue.spark.credentials import ENVIRONMENT_OPTION, FILE_OPTION, MAX_CONNECTIONS_OPTION, Credentials
from django_dbqueue.spark.lasting import Lasting
from django_dbqueue.spark.outage import OPTION as OUTAGE
from django_dbqueue.spark.outage import SECONDS
from django_dbqueue.spark.publication import Published, find_published

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_LARGEST: Final = 2**62


def enqueue_dataframe(
    df: DataFrame,
    *,
    queue: str | None = None,
    job_id: str | None = None,
    credentials_file: str | None = None,
    credentials_env: str | None = None,
    priority: int | None = None,
    group: str | None = None,
    max_payload_bytes: int | None = None,
    batch_size: int | None = None,
    notify: bool | None = None,
    outage: float | None = None,
    max_connections: int | None = None,
) -> Published:
    """Write a frame into the queue, exactly once for each ``job_id``, and return the result.

    ``group``: that of messages without their own; ``"*"`` for a queue that is one group. ``outage``: seconds to wait
    for a database that goes away (60). ``max_connections``: sessions on it at once, of all its pipelines (8).

    Without a ``job_id`` one is drawn: then retried tasks and speculation still duplicate nothing, but a second call
    does.
    """
    job, run = job_id or f"write-{secrets.token_hex(8)}", random.randint(1, _LARGEST)
    if job_id == "":
        raise InvalidPipeline("job_id is empty: name the job, or leave it out.")
    given = {
        FILE_OPTION: credentials_file,
        ENVIRONMENT_OPTION: credentials_env,
        "queue": queue,
        "job_id": job,
        "run": run,
        "priority": priority,
        "group": group,
        "max_payload_bytes": max_payload_bytes,
        "batchSize": batch_size,
        MAX_CONNECTIONS_OPTION: max_connections,
        OUTAGE: None if outage is None else math.ceil(outage),
        "notify": None if notify is None else str(notify).lower(),
    }
    options = {name: str(value) for name, value in given.items() if value is not None}
    df.write.format("dbqueue").mode("append").options(**options).save()
    return _published(options, job, run, SECONDS if outage is None else outage)


def _published(options: dict[str, str], job: str, run: int, outage: float) -> Published:
    with Lasting(Credentials.load(options), outage=outage) as session:
        published = session.ask(lambda connection: find_published(connection, job, run=run))
    if published is None:
        raise DBQueueError(f"Job {job!r} was written, but its record is gone: somebody deleted it.")
    return published
