"""``python -m django_dbqueue.spark <job>``: the jobs without Django, and what ``spark-submit`` starts.

Exit codes: 0 done; 1 failed, try again: the database was away, a row was refused, Spark, Java or a driver is missing;
2 can't be done as asked, nothing was done; 130 SIGINT; 143 SIGTERM.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Sequence

from django_dbqueue.spark.jobs.arguments import config_of
from django_dbqueue.spark.jobs.config import JOBS, Job
from django_dbqueue.spark.jobs.job_execution import (
    EXIT_INTERRUPTED,
    EXIT_TERMINATED,
    Terminated,
    add_jobs,
    credential_options,
    in_one_sentence,
    run_job,
    stop_signals,
)
from django_dbqueue.worker.late_signals import ends_with_its_command


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a job and return the exit code."""
    parser = ArgumentParser("python -m django_dbqueue.spark", description=__doc__)
    add_jobs(parser, _add_credentials)
    options = vars(parser.parse_args(arguments))
    job = JOBS[options["job"]]
    try:
        with stop_signals():
            config = config_of(job.config, options, credentials=credential_options(options))
            master, settings = options.get("master"), options.get("conf", ())
            print(run_job(job, config, master=master, settings=settings, progress=_report), flush=True)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except Terminated:
        return EXIT_TERMINATED
    except Exception as error:
        if (failure := in_one_sentence(error)) is None:
            raise
        print(f"{parser.prog}: {failure[0]}", file=sys.stderr)
        return failure[1]
    return 0


def _add_credentials(parser: ArgumentParser, _job: Job) -> None:
    parser.add_argument("--credentials-file", metavar="FILE", help="file that holds the database's URL, or JSON")
    parser.add_argument("--credentials-env", metavar="VARIABLE", help="environment variable that holds the URL or JSON")


def _report(what: str, done: int, total: int | None) -> None:
    count = f": {done:,} of {total:,}" if total else f": {done:,}" if done else ""
    print(f"{what}{count}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    ends_with_its_command()
    sys.exit(main())
