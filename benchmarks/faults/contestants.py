"""Who is on the scoreboard: what each promises, and with which settings it runs here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Contestant:
    """One row of the table."""

    adapter: str
    title: str
    promises: str
    settings: str
    would_change: str
    by_default: str
    """When what a killed worker held runs again, with its defaults."""


CONTESTANTS: Final = (
    Contestant(
        "dbqueue",
        "django_dbqueue, transactional",
        "exactly once in this database: the handler's rows and the ack are one commit",
        "`transactional=True`, `lease=5`, `--processes 2 --threads 2`",
        "a longer lease: a frozen worker's messages come later",
        "about 3 s: when its session has been gone for 2 s ([P9](promises.md#p9-redelivery-after-a-crash))",
    ),
    Contestant(
        "dbqueue_plain",
        "django_dbqueue, plain",
        "at least once",
        "the same, without `transactional`",
        "`transactional=True`: see the row above",
        "the same",
    ),
    Contestant(
        "django_ox",
        "django-ox",
        "at least once",
        "`LOCK_TIMEOUT` 8 (default 300), `MAX_ATTEMPTS` 20, `BACKOFF_INITIAL` 1, `BACKOFF_MAX` 2; one thread",
        "the default `LOCK_TIMEOUT`: what a killed worker held comes again after five minutes",
        "300 s (`LOCK_TIMEOUT`)",
    ),
    Contestant(
        "steady_queue",
        "steady-queue",
        "nothing is written; its README says that what a killed process held is recorded as failed",
        "`process_heartbeat_interval` 2 s, `process_alive_threshold` 8 s (defaults 60 and 300); three threads",
        "none that we found: it retries nothing, failed tasks wait for a person in the admin",
        "never: the task is failed, at once where its supervisor lives, else after 300 s",
    ),
    Contestant(
        "bullmq_python",
        "BullMQ on PostgreSQL, Python",
        "it tries exactly once; at least once in the worst case",
        "`lockDuration` 5 s, `stalledInterval` 4 s, `maxStalledCount` 20 (defaults 30, 30 and 1), 20 `attempts` "
        "(default 1); `concurrency` 32",
        "the defaults: what a killed worker held comes again once, and fails the second time",
        "30 to 60 s (`lockDuration`, `stalledInterval`), once; then failed",
    ),
    Contestant(
        "procrastinate",
        "procrastinate",
        "its documentation has a how-to for stalled jobs: a periodic task, which this one runs, retries them",
        "`retry` with 20 attempts; heartbeats each 2 s, stalled after 8 s (defaults 10 and 30); `concurrency` 20",
        "without that periodic task, jobs of killed workers stay `doing`",
        "never; with that periodic task when it comes next, after 30 s at the earliest",
    ),
    Contestant(
        "django_q2",
        "django-q2",
        "at least once: what is not acknowledged after `retry` seconds is given again",
        "`retry` 10, `timeout` 8 (defaults 60 and none), `bulk` 1, two workers, `max_attempts` 0",
        "a longer `retry`: what a killed worker held comes later; a `bulk` of many: what waits in memory longer than "
        "`retry` runs twice",
        "60 s (`retry`)",
    ),
    Contestant(
        "django_tasks_db",
        "django-tasks-db",
        "nothing is written about killed workers; it has no retries",
        "its defaults; two `db_worker`",
        "none that we found: a task that was running stays `RUNNING`, a failed one `FAILED`",
        "never: the task stays `RUNNING`",
    ),
    Contestant(
        "huey",
        "huey",
        "at most once: a task is deleted before it runs; failed ones are retried",
        "`PostgresHuey`, four threads, `retries` 10",
        "nothing here: the sender must notice the loss, and send the task again",
        "never: the task is lost",
    ),
)
"""In the order of the page."""
