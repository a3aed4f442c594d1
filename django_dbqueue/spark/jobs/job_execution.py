"""Running one job: parse its arguments, check for Spark and Java, create and end a session; report errors in one line.

Both ways to call a job go through here, so they take the same arguments and end with the same codes.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import signal
import threading
import traceback
from argparse import ArgumentParser
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

from django_dbqueue.exceptions import DatabaseAway, DBQueueError, ExportStopped, InvalidPipeline, SparkNotInstalled
from django_dbqueue.spark.connection import is_away
from django_dbqueue.spark.jobs.arguments import JobConfig, Progress, add_arguments, pair, quiet
from django_dbqueue.spark.jobs.config import JOBS, Job
from django_dbqueue.spark.outage import tried_on
from django_dbqueue.worker.late_signals import SIGNALS, Unheard, restore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXIT_FAILED: Final = 1
EXIT_WRONG: Final = 2
"""The arguments are invalid; nothing was done."""
CLEANUP: Final = 30.0
"""Seconds that the way out takes at most. Until then no further signal disturbs it."""
AWHILE: Final = 0.05
"""Seconds after which a signal comes again that came while a process was started."""
EXIT_INTERRUPTED: Final = 128 + signal.SIGINT
EXIT_TERMINATED: Final = 128 + signal.SIGTERM
_OURS: Final = re.compile(r"django_dbqueue\.exceptions\.(\w+): (.+)")
"""The form that an error raised by a task has inside Spark's own error."""


class Terminated(BaseException):
    """SIGTERM arrived; cleanup code runs as it propagates."""


# -- arguments --------------------------------------------------------------------------------------------------------


def add_jobs(parser: ArgumentParser, *also: Callable[[ArgumentParser, Job], None]) -> None:
    """Add a subcommand for each job to a parser; ``also`` declares what only one way to call it takes."""
    subparsers = parser.add_subparsers(dest="job", required=True, metavar="job", title="jobs")
    for job in JOBS.values():
        sub = subparsers.add_parser(job.name, help=job.help, description=job.help)
        add_arguments(sub, job.config)
        for add in also:
            add(sub, job)
        if job.needs_spark:
            sub.add_argument("--master", help="Spark's master (default: spark-submit's, else local[*])")
            sub.add_argument(
                "--conf",
                type=pair,
                action="append",
                default=[],
                metavar="NAME=VALUE",
                help="a setting of Spark's; may be repeated",
            )


# -- running ----------------------------------------------------------------------------------------------------------


def run_job(
    job: Job,
    config: JobConfig,
    *,
    master: str | None = None,
    settings: Sequence[tuple[str, str]] = (),
    progress: Progress = quiet,
    started: Callable[[SparkSession], None] = lambda _spark: None,
    ship_credentials: bool = False,
) -> Any:
    """Run a job, in a session of its own if it needs one; return its result. ``started`` gets the session.

    ``ship_credentials``: the credentials file exists only on this machine, and a cluster's executors need it.
    """
    if not job.needs_spark:
        return _again_after_outages(config, lambda: _module(job).run(None, config))
    refuse_without_spark()
    with session(f"django_dbqueue {job.name}", master=master, settings=dict(settings)) as spark:
        started(spark)
        shipped = _shipped(spark, config) if ship_credentials else config
        return _again_after_outages(config, lambda: _module(job).run(spark, shipped, progress=progress))


def _again_after_outages(config: JobConfig, run: Callable[[], object]) -> Any:
    """Run a job, again from its beginning if its driver loses the database: each job can be repeated."""

    def work() -> Any:
        try:
            return run()
        except ExportStopped as error:
            if error.__cause__ is not None and is_away(error.__cause__):
                raise DatabaseAway(str(error)) from error
            raise

    return tried_on(work, seconds=config.outage)


def refuse_without_spark() -> None:
    """Raise SparkNotInstalled, which says what to install, if PySpark or Java is missing."""
    for package in ("pyspark", "pyarrow"):
        if importlib.util.find_spec(package) is None:
            raise SparkNotInstalled(
                f"This job runs on Spark, but the package {package} is not installed: pip install "
                "'django-dbqueue[spark]'."
            )
    if "PYSPARK_GATEWAY_PORT" in os.environ:  # spark-submit has started the JVM
        return
    home = os.environ.get("JAVA_HOME")
    if home and not os.access(Path(home) / "bin" / "java", os.X_OK):
        raise SparkNotInstalled(f"JAVA_HOME is {home!r}, but it contains no bin/java: correct it, or unset it.")
    if not home and shutil.which("java") is None:
        raise SparkNotInstalled(
            "This job runs on Spark, which needs Java 17 or newer, but there is no java on the PATH and JAVA_HOME is "
            "not set. On Debian or Ubuntu: apt-get install default-jre-headless."
        )


def _shipped(spark: SparkSession, config: JobConfig) -> JobConfig:
    if str(spark.sparkContext.master).startswith("local") or config.credentials_file is None:
        return config
    spark.sparkContext.addFile(config.credentials_file)
    return replace(config, credentials_file=Path(config.credentials_file).name)


def _module(job: Job) -> Any:
    return import_module(f"django_dbqueue.spark.jobs.{job.module}")


@contextmanager
def session(
    app: str, *, master: str | None = None, settings: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """Yield the existing session, or one of our own, which ends with the block."""
    from pyspark.sql import SparkSession

    from django_dbqueue.spark.spark_session import build_session, register

    active = SparkSession.getActiveSession()
    if active is not None:
        register(active)
        yield active
        return
    with _own_interrupts():
        spark = build_session(app, master=master, settings=dict(settings or {}))
    try:
        if "spark.log.level" not in (settings or {}):
            spark.sparkContext.setLogLevel("OFF")  # the job prints its own error, once
        yield spark
    except BaseException:
        spark.sparkContext.cancelAllJobs()
        raise
    finally:
        spark.stop()


@contextmanager
def _own_interrupts() -> Iterator[None]:
    """Keep the handler of SIGINT: Spark's calls the JVM, although the signal may interrupt such a call."""
    handler = signal.getsignal(signal.SIGINT)
    yield
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, handler)


@contextmanager
def stop_signals() -> Iterator[None]:
    """Turn SIGTERM and SIGINT into exceptions, so that the way out is the usual one.

    What else is raised on the way out doesn't count: an exception in the middle of a call to the JVM leaves an answer
    unread, which the next call gets, so that Spark's own cleanup fails in odd ways. A signal that comes while a process
    is started, as Spark's JVM is, waits: until its starter knows it, nobody would end it.
    """
    raised: list[BaseException] = []
    before: dict[int, Any] = {each: signal.getsignal(each) for each in SIGNALS}

    def stop(number: int, frame: FrameType | None) -> None:
        if _is_starting_a_process(frame):
            threading.Timer(AWHILE, os.kill, (os.getpid(), number)).start()
            return
        for each, handler in before.items():  # a second one must not interrupt the cleanup
            signal.signal(each, Unheard(handler, seconds=CLEANUP))
        raised.append(Terminated() if number == signal.SIGTERM else KeyboardInterrupt())
        raise raised[0]

    for number, handler in before.items():
        if handler != signal.SIG_IGN:  # as a shell has SIGINT ignored by what it starts in the background
            signal.signal(number, stop)
    try:
        yield
    except BaseException as error:
        if raised and error is not raised[0]:
            raise raised[0] from error
        raise
    finally:
        restore(before)


def _is_starting_a_process(frame: FrameType | None) -> bool:
    return any(each.f_code.co_qualname == "Popen.__init__" for each, _line in traceback.walk_stack(frame))


# -- errors -----------------------------------------------------------------------------------------------------------


def in_one_sentence(error: Exception) -> tuple[str, int] | None:
    """Return a sentence about an error, and the exit code; None if only a traceback says enough."""
    if isinstance(error, InvalidPipeline):
        return str(error), EXIT_WRONG
    if isinstance(error, DBQueueError):
        return str(error), EXIT_FAILED
    if found := _OURS.findall(str(error)):
        name, sentence = found[-1]
        return sentence.strip(), EXIT_WRONG if name == InvalidPipeline.__name__ else EXIT_FAILED
    module = type(error).__module__.partition(".")[0]
    if module in {"MySQLdb", "psycopg", "sqlite3"}:
        return f"The database reported an error: {error}".strip(), EXIT_FAILED
    if module in {"pyspark", "py4j"}:
        return f"Spark aborted the job: {str(error).strip().splitlines()[0]}", EXIT_FAILED
    return None


def credential_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return where a command line says the credentials are; InvalidPipeline unless it names exactly one place."""
    given = {name: options[name] for name in ("credentials_file", "credentials_env") if options[name] is not None}
    if len(given) != 1:
        raise InvalidPipeline(
            "Name the place of the database's credentials, with either --credentials-file FILE or "
            "--credentials-env VARIABLE."
        )
    return given
