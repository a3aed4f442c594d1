"""Runs the suite once for each database, and says at the end what was tested and what was not."""

from __future__ import annotations

import os
import secrets
import shutil
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from tests.left_out import BROWSER
from tests.servers import second_chance
from tests.servers.directory import ROOM, ROOM_FOR_THE_NIGHT, own_directory, roomy_directory
from tests.servers.mariadb import MariaDB
from tests.servers.mysql import mysql_url
from tests.servers.outcome import NO_TEST, TESTS_FAILED, Result, Session, counted, to_the_end, written_to
from tests.servers.postgres import Postgres
from tests.servers.private import NoServer, ServerError
from tests.servers.pytest_process import ROOT, ended, run_pytest, started_pytest
from tests.servers.version import server_version

DATABASES = ("sqlite", "mariadb", "postgres", "mysql")
KILLS = ("tests/process", "tests/operations/test_deaths.py", "tests/systems")
"""Where real workers run, and die."""


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
        left_out = tuple(f"--ignore-glob={ROOT}/{files}" for files in unwanted)
        without = Pass("testing", ("-m", " and ".join([*wanted, "not spark"]), *left_out))
        on_spark = Pass("testing on Spark", ("-m", " and ".join([*wanted, "spark"]), "-n", "0"))
        return [without, on_spark] if self.spark else [without]


@dataclass(frozen=True, slots=True)
class Pass:
    title: str
    arguments: tuple[str, ...]
    tests: tuple[str, ...] = ()


@contextmanager
def server_url(database: str, *, room: int = ROOM) -> Iterator[str]:
    parent = roomy_directory(room)
    if database == "sqlite":
        with own_directory("sqlite", parent) as directory:
            yield f"sqlite://{directory}"
    elif database == "mysql":
        with mysql_url(parent) as url:
            yield url
    else:
        kind = {"mariadb": MariaDB, "postgres": Postgres}[database]
        with kind.running(parent) as server:
            yield server.url


def run_suite(
    databases: Sequence[str], selection: Selection, pytest_arguments: Sequence[str], *, require_mysql: bool
) -> int:
    """The exit code: 0 only if every database that was asked for passed."""
    results: list[Result] = []
    pytest_arguments = [*pytest_arguments, *in_random_order(pytest_arguments)]
    for database in databases:
        passes = selection.passes(first=not any(result.tested for result in results))
        room = ROOM_FOR_THE_NIGHT if selection.nightly else ROOM
        results.append(run_on(database, passes, pytest_arguments, mysql_may_miss=not require_mysql, room=room))
    if any(word.startswith(("tests/", "-k")) for word in pytest_arguments):
        results = without_empty(results)
    return end_of(results)


def end_of(results: Sequence[Result]) -> int:
    """Print what was tested, and what was not; return the exit code."""
    _summarise(results)
    _keep_totals(results)
    return int(any(result.bad for result in results) or not any(result.tested for result in results))


def in_random_order(given: Sequence[str]) -> list[str]:
    """One seed for the whole run, printed, unless the caller has said one or wants the order of the files."""
    if any("randomly" in word for word in given):
        return []
    seed = f"--randomly-seed={secrets.randbelow(2**32)}"
    print(f"=== in random order; {seed} repeats it", flush=True)
    return [seed]


def without_empty(results: Sequence[Result]) -> list[Result]:
    """Whoever names tests may have named some that are asked once: the other databases then have none."""
    first = next((each for each in results if each.tested), None)
    if first is None or first.problem:
        return [*results]
    return [replace(each, problem="") if each.problem == NO_TEST else each for each in results]


def run_on(
    database: str,
    passes: Sequence[Pass],
    pytest_arguments: Sequence[str],
    *,
    mysql_may_miss: bool = False,
    sound: Collection[str] | None = None,
    at_once: bool = False,
    room: int = ROOM,
) -> Result:
    """Run these passes on one database, on a server that they have for themselves, one by one or at once.

    ``sound``: what fails in passes one by one has a second chance, but for these files. Without it nothing has one.
    """
    print(f"\n=== {database}: starting", flush=True)
    try:
        with server_url(database, room=room) as url:
            version = server_version(url)
            if at_once:
                return _together(_run_at_once(passes, database, version, url, pytest_arguments))
            run = partial(_run_pass, database=database, version=version, url=url, given=pytest_arguments, sound=sound)
            return _together([run(each) for each in passes])
    except ServerError as error:
        print(f"=== {database}: NOT TESTED: {error}", flush=True)
        missing = database == "mysql" and mysql_may_miss and isinstance(error, NoServer)
        return Result(database, tested=False, problem="" if missing else str(error))


def _run_pass(
    which: Pass, *, database: str, version: str, url: str, given: Sequence[str], sound: Collection[str] | None
) -> Result:
    start = time.monotonic()
    print(f"=== {database} {version}: {which.title}", flush=True)
    with own_directory("report") as report:
        arguments = [*given, *which.arguments, *second_chance.cached_in(report)]
        with second_chance.among_others():
            sessions = [*to_the_end(report, lambda more: run_pytest(database, url, [*arguments, *which.tests, *more]))]
        result = counted(sessions, database, version, time.monotonic() - start)
        failed = second_chance.last_failed(report)
        only_tests_failed = [each.code for each in sessions] == [TESTS_FAILED]
        if only_tests_failed and sound is not None and second_chance.may_be_accidents(failed, sound):
            print(f"=== {database}: once more, alone: {', '.join(failed)}", flush=True)
            flaky = second_chance.once_more(report, failed, arguments, partial(run_pytest, database, url))
            still = len(failed) - len(flaky)
            passed = result.passed + result.failed - still
            result = replace(result, passed=passed, failed=still, seconds=time.monotonic() - start, flaky=tuple(flaky))
        for each in sessions:
            _keep_report(each.report, which, database)
        return result


def _run_at_once(passes: Sequence[Pass], database: str, version: str, url: str, given: Sequence[str]) -> list[Result]:
    """Each beside the others, which are its noise; their outputs are shown in turn."""
    start = time.monotonic()
    with ExitStack() as stack:
        stack.enter_context(second_chance.among_others())
        reports = [stack.enter_context(own_directory("report")) for _ in passes]
        running = []
        for each, report in zip(passes, reports, strict=True):
            print(f"=== {database} {version}: {each.title}", flush=True)
            arguments = [*given, *each.arguments, *each.tests, *written_to(report)]
            output = stack.enter_context((report / "output").open("wb"))
            running.append(stack.enter_context(started_pytest(database, url, arguments, output)))
        codes = [ended(process, database) for process in running]
        for report in reports:
            print((report / "output").read_text(errors="replace"), flush=True)
        seconds = (time.monotonic() - start) / len(passes)
        sessions = [Session(report, code) for report, code in zip(reports, codes, strict=True)]
        return [counted([each], database, version, seconds) for each in sessions]


def _keep_report(report: Path, which: Pass, database: str) -> None:
    """For who wants every test's seconds."""
    if (directory := os.environ.get("DBQUEUE_TEST_REPORTS")) and report.exists():
        Path(directory).mkdir(parents=True, exist_ok=True)
        name = f"{database}-{which.title.replace(' ', '-')}-{os.getpid()}-{report.parent.name}.xml"
        shutil.copy(report, Path(directory) / name)


def _together(passes: Sequence[Result]) -> Result:
    """A selection of the caller's may leave one of the passes without a test."""
    ran = [each for each in passes if each.problem != NO_TEST] or passes[:1]
    return Result(
        ran[0].database,
        ran[0].version,
        sum(each.passed for each in ran),
        sum(each.failed for each in ran),
        sum(each.skipped for each in ran),
        sum(each.seconds for each in passes),
        "; ".join(each.problem for each in ran if each.problem),
        flaky=tuple(flaky for each in ran for flaky in each.flaky),
    )


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
    _print_flaky(results)
    passed, skipped = sum(result.passed for result in results), sum(result.skipped for result in results)
    print(f"\n{passed} passed, {_failures(results)} failed, {skipped} skipped", flush=True)


def _print_flaky(results: Sequence[Result]) -> None:
    for database, flaky in [(result.database, each) for result in results for each in result.flaky]:
        print(
            f"\nFLAKY: {database}: {flaky.test} failed, and passed alone ({flaky.noise}). It said:\n{flaky.traceback}"
        )


def _failures(results: Sequence[Result]) -> int:
    """A database that could not be tested to the end counts as one."""
    return sum(result.failed or int(bool(result.problem)) for result in results)


def _keep_totals(results: Sequence[Result]) -> None:
    """For a caller that runs several suites: a line "passed failed skipped" for each, and a line for each database."""
    if path := os.environ.get("DBQUEUE_TEST_TABLE"):
        with Path(path).open("a") as table:
            for each in results:
                where = f"{each.database} {each.version.split(' ')[0]}"
                table.write(f"{where}|{each.passed}|{each.failed or int(bool(each.problem))}|{each.skipped}|")
                table.write(f"{each.seconds / 60:.1f}|{each.problem if each.tested else 'NOT TESTED'}\n")
    if path := os.environ.get("DBQUEUE_TEST_TOTALS"):
        passed, skipped = sum(result.passed for result in results), sum(result.skipped for result in results)
        with Path(path).open("a") as totals:
            totals.write(f"{passed} {_failures(results)} {skipped}\n")
