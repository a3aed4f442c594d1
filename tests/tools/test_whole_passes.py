"""A pass of the suite loses no test to one that hangs, and says how many came to no result."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.servers import suite
from tests.servers.outcome import Result
from tests.servers.suite import Pass, run_on

pytestmark = pytest.mark.once

SOUND = """
import pytest

@pytest.mark.parametrize("number", range(4))
def test_sound(number):
    pass
"""
SLOW_REPORT = """
import time
import pytest

@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    if item.name == "test_sound[3]" and call.when == "call":
        time.sleep(3)
    return (yield)
"""
HANGS_TWICE = """
import threading
import pytest

@pytest.fixture
def server():
    yield
    threading.Event().wait()

def test_hangs_twice(server):
    threading.Event().wait()
"""
DEADLY = """
import pathlib
import pytest

@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    if item.name == "test_deadly" and not (spent := pathlib.Path(__file__).with_name("spent")).exists():
        {once}
        raise ValueError("the report can not be made")
    return (yield)
"""
BY_TWOS = ("-n", "2", "--dist", "loadfile", "-p", "no:randomly")


def ran(toy: Path, *arguments: str, at_once: bool = False) -> Result:
    for name in "abcd":
        (toy / "tests" / f"test_sound_{name}.py").write_text(SOUND)
    return run_on("sqlite", [Pass("testing", arguments, ("tests",))], (), at_once=at_once)


def deadly(toy: Path, *, once: bool) -> None:
    (toy / "conftest.py").write_text(DEADLY.format(once="spent.touch()" if once else "pass"))
    (toy / "tests" / "test_deadly.py").write_text("def test_deadly():\n    pass\n" + SOUND)


def test_an_alarm_never_rings_while_a_report_is_made(toy: Path) -> None:
    (toy / "conftest.py").write_text(SLOW_REPORT)
    result = ran(toy, *BY_TWOS, "--timeout=1")
    assert (result.passed, result.failed, result.problem) == (16, 0, "")


def test_a_test_that_hangs_in_its_teardown_too_is_ended_twice_and_no_other_is_lost(toy: Path) -> None:
    (toy / "tests" / "test_hangs_twice.py").write_text(HANGS_TWICE)
    result = ran(toy, *BY_TWOS, "--timeout=1")
    assert (result.passed, result.failed, result.problem) == (16, 2, "")


@pytest.mark.parametrize("arguments", [BY_TWOS, ("-n", "0", "-p", "no:randomly")])
def test_what_a_session_that_died_has_left_runs_in_another(toy: Path, arguments: tuple[str, ...]) -> None:
    deadly(toy, once=True)
    result = ran(toy, *arguments)
    assert result.passed == 21, result
    assert result.bad, "whatever ended it is to be mended"
    assert result.problem.startswith("pytest ended with exit code 3; its rest ran in ")
    assert "no result" not in result.problem


def test_what_ends_every_session_costs_no_other_test_and_is_counted(
    toy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    deadly(toy, once=False)
    result = ran(toy, *BY_TWOS)
    assert result.passed == 20, result
    text = r"pytest ended with exit code 3; its rest ran in \d more; 1 of 21 tests came to no result"
    assert re.fullmatch(text, result.problem), result
    assert suite.end_of([result]) == 1
    assert f"20 passed, {result.failed} failed, 0 skipped" in capsys.readouterr().out


def test_what_came_to_no_result_is_counted_as_failed(toy: Path) -> None:
    deadly(toy, once=False)
    result = ran(toy, "-n", "0", "-p", "no:randomly", at_once=True)
    assert "; 21 of 21 tests came to no result" in result.problem
    assert (result.passed, result.failed >= 21) == (0, True)


def test_what_fills_a_million_rows_has_a_limit_that_fits_them() -> None:
    files = [file.read_text() for file in (ROOT / "tests").glob("*/*.py")]
    marks = [marks for text in files for marks in re.findall(r'id="(?:ten )?million", marks=(.*)', text)]
    assert len(marks) >= 5
    assert [each for each in marks if "OF_A_MILLION" not in each and "timeout(" not in each] == []
