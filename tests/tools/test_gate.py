"""The gate: what has a second chance, and what is in quarantine."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.quarantine import DAYS, MOST, quarantined
from tests.servers import pytest_process, second_chance, suite
from tests.servers.outcome import NO_TEST, Result
from tests.servers.parts import Part
from tests.servers.suite import Pass, run_on

pytestmark = pytest.mark.once

TOY = """
import pathlib
import pytest

def first_time(name):
    seen = pathlib.Path(__file__).with_name(name)
    there = seen.exists()
    seen.touch()
    return not there

def test_sound():
    pass

@pytest.mark.parametrize("which", {flaky})
def test_flaky(which):
    assert not first_time(f"flaky-{{which}}"), "the neighbours are noisy"

@pytest.fixture
def server():
    if first_time("server"):
        raise OSError("Address already in use")

def test_whose_set_up_is_flaky(server):
    pass
"""
DEFECT = """
def test_defect():
    assert 1 == 2, "the change is broken"
"""


def written(toy: Path, *, flaky: Sequence[str] = ("one",), more: str = "") -> None:
    (toy / "tests" / "test_toy.py").write_text(TOY.format(flaky=list(flaky)) + more)


def run_toy(*arguments: str, sound: Sequence[str] = (), tests: tuple[str, ...] = ("tests",)) -> Result:
    return run_on("sqlite", [Pass("testing", arguments or ("-n", "0"), tests)], (), sound=sound)


def test_what_fails_among_others_and_passes_alone_is_reported_as_flaky_and_is_no_failure(
    toy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written(toy)
    result = run_toy("-n", "2", "--randomly-seed=5")
    assert (result.passed, result.failed, result.bad) == (3, 0, False)
    names = ["tests/test_toy.py::test_flaky[one]", "tests/test_toy.py::test_whose_set_up_is_flaky"]
    assert [each.test for each in result.flaky] == names
    capsys.readouterr()
    assert suite.end_of([result]) == 0
    output = capsys.readouterr().out
    assert f"FLAKY: sqlite: {names[0]} failed, and passed alone (load " in output
    assert "AssertionError: the neighbours are noisy" in output, "its first traceback"
    assert "OSError: Address already in use" in output
    assert output.rstrip().endswith("3 passed, 0 failed, 0 skipped")


def test_a_part_that_names_its_tests_one_by_one_has_a_second_chance_too(toy: Path) -> None:
    written(toy)
    (toy / "tests" / "test_other.py").write_text("def test_other():\n    pass\n")
    result = run_toy(tests=("tests/test_other.py::test_other", "tests/test_toy.py"))
    assert (result.passed, result.failed, len(result.flaky)) == (4, 0, 2)


def test_what_fails_twice_is_a_failure_among_what_is_flaky(toy: Path) -> None:
    written(toy, more=DEFECT)
    result = run_toy()
    assert (result.passed, result.failed, result.bad, len(result.flaky)) == (3, 1, True, 2)


def test_a_file_that_the_change_touches_has_no_second_chance(toy: Path) -> None:
    written(toy)
    result = run_toy(sound=["tests/test_toy.py"])
    assert (result.passed, result.failed, result.flaky) == (1, 2, ())


def test_many_failures_at_once_have_no_second_chance(toy: Path) -> None:
    written(toy, flaky=[str(number) for number in range(second_chance.MOST)])
    result = run_toy()
    assert (result.failed, result.flaky) == (second_chance.MOST + 1, ())


def test_a_run_that_ended_otherwise_than_by_failed_tests_has_no_second_chance(toy: Path) -> None:
    written(toy)
    (toy / "conftest.py").write_text("def pytest_sessionfinish(session):\n    session.exitstatus = 3\n")
    result = run_toy()
    assert result.bad
    assert result.flaky == ()


def test_of_passes_at_once_each_is_shown_and_counted_and_none_has_a_second_chance(
    toy: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (toy / "tests" / "test_toy.py").write_text(DEFECT + "\ndef test_sound():\n    pass\n")
    passes = [Pass(f"testing, {number}", ("-n", "0"), ("tests",)) for number in range(3)]
    result = run_on("sqlite", passes, (), sound=(), at_once=True)
    assert (result.passed, result.failed, result.flaky) == (3, 3, ())
    assert capfd.readouterr().out.count("the change is broken") >= 3


def test_outside_the_gate_nothing_has_a_second_chance(toy: Path) -> None:
    written(toy)
    result = run_on("sqlite", [Pass("testing", ("-n", "0"), ("tests",))], ())
    assert (result.failed, result.flaky) == (2, ())


def test_alone_a_test_has_more_patience(toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DBQUEUE_TEST_PATIENCE", "3")
    (toy / "tests" / "test_toy.py").write_text(
        "import os\ndef test_patience():\n    assert float(os.environ['DBQUEUE_TEST_PATIENCE']) == 6\n"
    )
    assert len(run_toy().flaky) == 1


def test_nothing_runs_alongside_a_second_chance(toy: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    shared = tmp_path / "alone"
    monkeypatch.setenv("DBQUEUE_TEST_ALONE", str(shared))
    others_may_run: list[bool] = []

    def run_pytest(*arguments: object) -> int:
        with shared.open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                others_may_run.append(True)
            except BlockingIOError:
                others_may_run.append(False)
        return pytest_process.run_pytest(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(suite, "run_pytest", run_pytest)
    written(toy)
    assert len(run_toy().flaky) == 2
    assert others_may_run == [True, False]


def test_an_interrupt_reaches_a_suite_that_a_shell_has_started_in_the_background() -> None:
    program = (
        "import signal; from tests.servers import __main__ as m; m._parser = lambda: exit(str(signal.getsignal(2)))"
    )
    command = f'"{sys.executable}" -c "{program}; m.main()" & wait $!'
    done = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert "default_int_handler" in done.stderr, done


def test_who_is_in_quarantine_is_known_and_leaves_it_soon() -> None:
    held = quarantined(ROOT / "tests")
    assert len(held) <= MOST, f"mend some: {held}"
    late = [each for each in held if each.since < datetime.now(UTC).date() - timedelta(days=DAYS)]
    assert not late, "mend these today"


def test_a_quarantine_has_a_reason_and_a_date_or_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "test_some.py"
    mark = "import pytest\n\n@pytest.mark.quarantined{}\ndef test_it():\n    pass\n"
    file.write_text(mark.format('("the port is taken at times", "2026-11-26")'))
    (found,) = quarantined(tmp_path)
    assert (found.file, found.reason, found.since) == (file, "the port is taken at times", date(2026, 11, 26))
    for wrong in ("", '("2026-11-26")', '("the port is taken", "soon")'):
        file.write_text(mark.format(wrong))
        with pytest.raises(ValueError, match=r"quarantined\(reason, date\)"):
            quarantined(tmp_path)


def test_who_is_in_quarantine_is_in_no_part_of_the_gate(toy: Path) -> None:
    (toy / "tests" / "test_toy.py").write_text(
        "import pytest\n\n@pytest.mark.quarantined('noise', '2026-11-26')\ndef test_it():\n    assert False\n"
    )
    assert run_on("sqlite", [Part("all", ["sqlite"], ["tests"], at_once=0).one_pass()], ()).problem == NO_TEST


def test_what_somebody_has_left_open_refuses_no_other_but_a_test_that_the_change_edits(toy: Path) -> None:
    (toy / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    (toy / "tests" / "test_toy.py").write_text("def test_it():\n    open(__file__)\n")
    part = Part("all", ["sqlite"], ["tests"], at_once=0)
    results = [
        run_on("sqlite", [part.one_pass(strict=strict)], (), sound=["tests/test_toy.py"]) for strict in (False, True)
    ]
    assert [(each.passed, each.failed) for each in results] == [(1, 0), (0, 1)]
