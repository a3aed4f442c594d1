"""What the gate holds: which tests run in it, and where."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

import pytest

from tests.servers.change import ROOT
from tests.servers.parts import Part

MARKS = ("slow", "nightly", "spark", "once", "quarantined")
NO_SERVER = {
    "sqlite": "sqlite:///dev/shm",
    "mariadb": "mysql://nobody@127.0.0.1:9/none",
    "postgres": "postgres://nobody@127.0.0.1:9/none",
}


@dataclass(frozen=True, slots=True)
class Case:
    """A test as pytest names it, and those of its markers that decide when it runs."""

    name: str
    marks: frozenset[str]

    def is_in(self, part: Part) -> bool:
        """Whether it runs in this part of the gate."""
        if not any(_names(test, self.name) for test in part.tests):
            return False
        if "quarantined" in self.marks or any(_leaves_out(each, self.name) for each in part.left_out):
            return False
        return bool(eval(part.marks, {mark: mark in self.marks for mark in MARKS}))


def cases_on(database: str, scratch: Path) -> list[Case]:
    """Every test that there is on this database, as pytest collects them; no server is asked."""
    file = scratch / "cases.json"
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-n", "0", "-p", "tests.servers.held", "tests"]
    done = subprocess.run(
        [*command, f"--cases-to={file}"],
        cwd=ROOT,
        env=os.environ | {"DBQUEUE_TEST_DATABASE": database, "DBQUEUE_TEST_URL": NO_SERVER[database]},
        capture_output=True,
        text=True,
        check=False,
    )
    assert file.exists(), done.stdout + done.stderr
    return [Case(name, frozenset(marks)) for name, marks in json.loads(file.read_text())]


class Held:
    """Which tests each part of the gate runs on each database."""

    def __init__(self, parts: Sequence[Part], cases: Mapping[str, Sequence[Case]]) -> None:
        self._parts = parts
        self._names = {
            (number, database): [case.name for case in cases[database] if case.is_in(part)]
            for number, part in enumerate(parts)
            for database in part.databases
        }

    def on(self, database: str, changed: Sequence[str] = ()) -> list[str]:
        """The names of those that run on this database for a change of these files."""
        mine = [number for number, part in enumerate(self._parts) if part.runs_for(changed)]
        return [name for number in mine for name in self._names.get((number, database), ())]


def _names(test: str, case: str) -> bool:
    return case == test or case.startswith((f"{test}::", f"{test}[", f"{test}/"))


def _leaves_out(each: str, case: str) -> bool:
    path = case.partition("::")[0]
    return _names(each, case) if "::" in each else fnmatch(path, each)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--cases-to", help="where to write which tests there are")


def pytest_collection_finish(session: pytest.Session) -> None:
    cases = [(item.nodeid, sorted({mark.name for mark in item.iter_markers()} & {*MARKS})) for item in session.items]
    session.config.rootpath.joinpath(session.config.getoption("cases_to")).write_text(json.dumps(cases))
