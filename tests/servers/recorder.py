"""A plugin for pytest: keeps which tests there are, which began and which ended, for who wants the rest of a session
that came to no end.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest


@dataclass(frozen=True, slots=True)
class Record:
    """Node ids of a session's tests."""

    collected: frozenset[str]
    begun: frozenset[str]
    ended: frozenset[str]

    @classmethod
    def read(cls, file: Path) -> Record:
        """What a session has written; one that came to nothing has written nothing."""
        lines = file.read_text().splitlines() if file.exists() else []
        rows = [line.partition(" ") for line in lines]
        return cls(*(frozenset(test for kind, _, test in rows if kind == each) for each in cls.__slots__))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--record", help="where to write which tests there are, began and ended")
    parser.addoption("--without", help="a file with the node ids of tests that are not to run")


def pytest_configure(config: pytest.Config) -> None:
    if (file := config.getoption("record")) and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Recorder(Path(file)))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not (file := config.getoption("without")):
        return
    without = frozenset(Path(file).read_text().splitlines())
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in without])
    items[:] = [item for item in items if item.nodeid not in without]


class _Recorder:
    """In the process that pytest-xdist's workers report to; without them, in the only one."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._write("collected", [item.nodeid for item in session.items])

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: Any, ids: Sequence[str]) -> None:
        self._write("collected", ids)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._write("begun", [nodeid])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when != "setup" or not report.passed:  # as the report in JUnit's format counts them
            self._write("ended", [report.nodeid])

    def _write(self, kind: str, tests: Collection[str]) -> None:
        with self._file.open("a") as file:
            file.writelines(f"{kind} {test}\n" for test in tests)
