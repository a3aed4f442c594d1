"""A copy of the checkout, in which bugs are planted and tests run; the working tree is only read."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from tests.mutants.planted import Mutant, NotPlanted
from tests.servers.lifeline import ends_with_its_starter

_LEFT_OUT = shutil.ignore_patterns(".git", ".venv*", "__pycache__", ".*_cache", "*.egg-info", "*.sqlite3*", "var")
_OF_THE_CALLER = {"DBQUEUE_TEST_NAME", "DBQUEUE_TEST_RUN", "DJANGO_SETTINGS_MODULE", "PYTEST_ADDOPTS", "PYTHONPATH"}
_WINDING_UP = 60


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run of tests ended: each case by pytest's name, and what it said if it failed."""

    passed: frozenset[str]
    failed: dict[str, str]
    broken: dict[str, str]
    """Cases that came to no verdict: errors of fixtures, and of collection."""
    code: int | None
    """pytest's exit code; None: it came to no end in time."""
    output: str


class Checkout:
    """The copy."""

    def __init__(self, root: Path, directory: Path) -> None:
        self._directory = directory
        self.root = directory / "checkout"
        shutil.copytree(root, self.root, ignore=_LEFT_OUT)
        self._ticks = itertools.count(1)

    @contextmanager
    def planted(self, mutant: Mutant) -> Iterator[None]:
        """Keep the bug in the copy for the block."""
        path = self.root / mutant.file
        changed, before = mutant.source(self.root), path.read_text()
        self._write(path, changed)
        try:
            yield
        finally:
            self._write(path, before)

    def _write(self, path: Path, text: str) -> None:
        """Python takes compiled code for that of a file by its size and its second: each writing has a second."""
        moment = path.stat().st_mtime + next(self._ticks)
        path.write_text(text)
        os.utime(path, (moment, moment))

    def check_import(self, package: str) -> None:
        """Raise NotPlanted where tests would import the package from elsewhere than the copy."""
        find = f"import importlib.util as u; print(u.find_spec({package!r}).origin)"
        environ = _environment(self.root)
        ran = subprocess.run([sys.executable, "-c", find], cwd=self.root, env=environ, capture_output=True, text=True)
        if not ran.stdout.startswith(str(self.root)):
            raise NotPlanted(f"{package} would not come from the copy, but from {ran.stdout or ran.stderr}")

    def run(self, tests: Sequence[str], database: str, url: str, *, seconds: float, first_only: bool) -> Outcome:
        """Run these tests on a database, up to the first failure if only that is asked for."""
        report, printed = self._directory / "report.xml", self._directory / "output"
        report.unlink(missing_ok=True)
        more = ["-x"] if first_only else []
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}", *more]
        environ = _environment(self.root) | {"DBQUEUE_TEST_DATABASE": database, "DBQUEUE_TEST_URL": url}
        with printed.open("wb") as output:
            process = subprocess.Popen(
                [*command, *tests],
                cwd=self.root,
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                preexec_fn=ends_with_its_starter(signal.SIGINT),
            )
            code = _ended(process, seconds)
        return _read(report, code, printed.read_text(errors="replace"))


def _environment(root: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in _OF_THE_CALLER}
    return kept | {"PYTHONPATH": str(root)}


def _ended(process: subprocess.Popen[bytes], seconds: float) -> int | None:
    """Return the exit code, None where it had to be ended: first so that tests end what they have started."""
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        return None
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                process.wait(_WINDING_UP)
            process.kill()
            process.wait()


def _read(report: Path, code: int | None, output: str) -> Outcome:
    passed: set[str] = set()
    failed: dict[str, str] = {}
    broken: dict[str, str] = {}
    with suppress(OSError, ElementTree.ParseError):
        for case in ElementTree.parse(report).iter("testcase"):
            name = f"{case.get('classname', '').replace('.', '/')}.py::{case.get('name')}"
            if (failure := case.find("failure")) is not None:
                failed[name] = failure.get("message", "")
            elif (error := case.find("error")) is not None:
                broken[name] = error.get("message", "")
            elif case.find("skipped") is None:
                passed.add(name)
    return Outcome(frozenset(passed), failed, broken, code, output)
