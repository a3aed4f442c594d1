"""Runs the suite once for each database, and says at the end what was tested and what was not."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from tests.left_out import BROWSER
from tests.servers.directory import own_directory
from tests.servers.lifeline import ends_with_its_starter
from tests.servers.mariadb import MariaDB
from tests.servers.mysql import mysql_url
from tests.servers.postgres import Postgres
from tests.servers.private import NoServer, ServerError
from tests.servers.times import dearest_folders
from tests.servers.version import server_version

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

DATABASES = ("sqlite", "mariadb", "postgres", "mysql")
_ROOT = Path(__file__).resolve().parents[2]
# Past this something hangs; pytest has said where by then (faulthandler_timeout).
_LIMIT_SECONDS = 40 * 60
_NO_TEST_RAN = 5
_NO_TEST = "no test ran"
KILLS = ("tests/process", "tests/bulk/test_deaths.py", "tests/systems")
"""Where real workers run, and die."""


@dataclass(frozen=True, slots=True)
class Result:
    database: str
    version: str = ""
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: float = 0
    problem: str = ""
    tested: bool = True

    @property
    def bad(self) -> bool:
        return bool(self.failed or self.problem)


@dataclass(frozen=True, slots=True)
class Selection:
    """Which tests run, by their markers. `marks` is what the caller said by pytest's own -m."""

    marks: str = ""
    slow: bool = True
    spark: bool = True
    browser: bool = True
    kills: bool = True
    nightly: bool = False

    def passes(self, *, first: bool) -> list[Pass]:
        """The tests on Spark come last and by themselves: one after the other, all in one session. What is marked
        `once` is asked on the first database alone."""
        wanted = [f"({self.marks})"] if self.marks else []
        wanted += [] if first else ["not once"]
        wanted += [] if self.slow else ["not slow"]
        wanted += [] if self.nightly else ["not nightly"]
        unwanted = (() if self.browser else tuple(BROWSER.files)) + (() if self.kills else KILLS)
        left_out = tuple(f"--ignore-glob={_ROOT}/{files}" for files in unwanted)
        without = Pass("testing", ("-m", " and ".join([*wanted, "not spark"]), *left_out))
        on_spark = Pass("testing on Spark", ("-m", " and ".join([*wanted, "spark"]), "-n", "0"))
        return [without, on_spark] if self.spark else [without]


@dataclass(frozen=True, slots=True)
class Pass:
    title: str
    arguments: tuple[str, ...]


@contextmanager
def server_url(database: str) -> Iterator[str]:
    if database == "sqlite":
        with own_directory("sqlite") as directory:
            yield f"sqlite://{directory}"
    elif database == "mysql":
        with mysql_url() as url:
            yield url
    else:
        kind = {"mariadb": MariaDB, "postgres": Postgres}[database]
        with kind.running() as server:
            yield server.url


def run_suite(
    databases: Sequence[str], selection: Selection, pytest_arguments: Sequence[str], *, require_mysql: bool
) -> int:
    """The exit code: 0 only if every database that was asked for passed."""
    results: list[Result] = []
    pytest_arguments = [*pytest_arguments, *in_random_order(pytest_arguments)]
    for database in databases:
        passes = selection.passes(first=not any(result.tested for result in results))
        results.append(_run(database, passes, pytest_arguments, mysql_may_miss=not require_mysql))
    if any(word.startswith(("tests/", "-k")) for word in pytest_arguments):
        results = without_empty(results)
    _summarise(results)
    _keep_totals(results)
    return int(any(result.bad for result in results) or not any(result.tested for result in results))


def in_random_order(said: Sequence[str]) -> list[str]:
    """One seed for the whole run, printed, unless the caller has said one or wants the order of the files."""
    if any("randomly" in word for word in said):
        return []
    seed = f"--randomly-seed={secrets.randbelow(2**32)}"
    print(f"=== in random order; {seed} repeats it", flush=True)
    return [seed]


def without_empty(results: Sequence[Result]) -> list[Result]:
    """Whoever names tests may have named some that are asked once: the other databases then have none."""
    first = next((each for each in results if each.tested), None)
    if first is None or first.problem:
        return [*results]
    return [replace(each, problem="") if each.problem == _NO_TEST else each for each in results]


def _run(database: str, passes: Sequence[Pass], pytest_arguments: Sequence[str], *, mysql_may_miss: bool) -> Result:
    print(f"\n=== {database}: starting", flush=True)
    try:
        with server_url(database) as url:
            version = server_version(url)
            return _together([_run_pass(each, database, version, url, pytest_arguments) for each in passes])
    except ServerError as error:
        print(f"=== {database}: NOT TESTED: {error}", flush=True)
        missing = database == "mysql" and mysql_may_miss and isinstance(error, NoServer)
        return Result(database, tested=False, problem="" if missing else str(error))


def _run_pass(which: Pass, database: str, version: str, url: str, pytest_arguments: Sequence[str]) -> Result:
    start = time.monotonic()
    print(f"=== {database} {version}: {which.title}", flush=True)
    with own_directory("report") as report:
        code = _pytest(database, url, [*pytest_arguments, *which.arguments, f"--junitxml={report}/report.xml"])
        return _counted(report / "report.xml", code, database, version, time.monotonic() - start)


def _together(passes: Sequence[Result]) -> Result:
    """A selection of the caller's may leave one of the passes without a test."""
    ran = [each for each in passes if each.problem != _NO_TEST] or passes[:1]
    return Result(
        ran[0].database,
        ran[0].version,
        sum(each.passed for each in ran),
        sum(each.failed for each in ran),
        sum(each.skipped for each in ran),
        sum(each.seconds for each in passes),
        "; ".join(each.problem for each in ran if each.problem),
    )


def _pytest(database: str, url: str, arguments: list[str]) -> int:
    environ = {
        name: value for name, value in os.environ.items() if name not in {"DBQUEUE_TEST_NAME", "DBQUEUE_TEST_RUN"}
    } | {
        "DBQUEUE_TEST_DATABASE": database,
        "DBQUEUE_TEST_URL": url,
        "DJANGO_SETTINGS_MODULE": "tests.settings",
    }
    process = subprocess.Popen(
        # The files keep the order of tests/conftest.py: pytest-xdist would begin with those of the most tests.
        [sys.executable, "-m", "pytest", "-q", "--no-loadscope-reorder", *arguments],
        cwd=_ROOT,
        env=environ,
        preexec_fn=ends_with_its_starter(signal.SIGINT),
    )
    try:
        return process.wait(_LIMIT_SECONDS)
    except subprocess.TimeoutExpired:
        print(f"=== {database}: stopped after {_LIMIT_SECONDS} s", flush=True)
        return -1
    finally:
        _interrupt(process)


def _interrupt(process: subprocess.Popen[bytes]) -> None:
    """Lets pytest take its test database away; without effect on one that has ended."""
    if process.poll() is not None:
        return
    process.send_signal(signal.SIGINT)
    with suppress(subprocess.TimeoutExpired):
        process.wait(30)
    process.kill()
    process.wait()


def _counted(report: Path, code: int, database: str, version: str, seconds: float) -> Result:
    try:
        suite = ElementTree.parse(report).getroot().find("testsuite")
        assert suite is not None
        total, failures, errors, skipped = (
            int(suite.get(name, 0)) for name in ("tests", "failures", "errors", "skipped")
        )
    except (OSError, ElementTree.ParseError):
        return Result(database, version, seconds=seconds, problem=f"pytest ended with exit code {code}")
    failed = failures + errors
    if spent := dearest_folders(suite):
        print(f"=== {database}: {spent}", flush=True)
    problem = ""
    if code == _NO_TEST_RAN:
        problem = _NO_TEST
    elif code and not failed:
        problem = f"pytest ended with exit code {code}"
    return Result(database, version, total - failed - skipped, failed, skipped, seconds, problem)


def _summarise(results: Sequence[Result]) -> None:
    print(f"\n{'database':<10}{'version':<34}{'passed':>8}{'failed':>8}{'skipped':>9}{'seconds':>9}")
    for result in results:
        numbers = f"{result.passed:>8}{result.failed:>8}{result.skipped:>9}{result.seconds:>9.0f}"
        note = result.problem if result.tested else "NOT TESTED"
        print(f"{result.database:<10}{result.version.split(' ')[0]:<34}{numbers}  {note}".rstrip())
    if any(result.database == "mysql" and not result.tested for result in results):
        print("\n" + "!" * 78)
        print("!!  MySQL was NOT tested (why: see above). What is green here says nothing of it.")
        print("!" * 78)
    passed, skipped = sum(result.passed for result in results), sum(result.skipped for result in results)
    print(f"\n{passed} passed, {_failures(results)} failed, {skipped} skipped", flush=True)


def _failures(results: Sequence[Result]) -> int:
    """A database that could not be tested to the end counts as one."""
    return sum(result.failed or int(bool(result.problem)) for result in results)


def _keep_totals(results: Sequence[Result]) -> None:
    """For a caller that runs several suites: a line "passed failed skipped" for each."""
    if path := os.environ.get("DBQUEUE_TEST_TOTALS"):
        passed, skipped = sum(result.passed for result in results), sum(result.skipped for result in results)
        with Path(path).open("a") as totals:
            totals.write(f"{passed} {_failures(results)} {skipped}\n")
