"""Parts of the tests that need more than the extra `test`. Where it misses, a run leaves them out and says so."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from tests.stress.cgroups import CPU, FREEZER

_ROOT = Path(__file__).resolve().parent.parent


DJANGOS_TESTS = Path(sys.prefix) / "djangos-tests"
"""Where `bin/test` puts Django's own tests of tasks."""


@dataclass(frozen=True, slots=True)
class Part:
    """Test files, by patterns from the root of the repository, and what they need; each program by all its names.

    ``directories``: those in which they can write.
    """

    name: str
    files: Sequence[str]
    packages: Sequence[str]
    programs: Sequence[Sequence[str]] = ()
    directories: Sequence[Path] = ()
    remedy: str = "`bin/test` without arguments installs it."

    def is_here(self) -> bool:
        """Whether all that it needs is installed."""
        return not self.missing()

    def missing(self) -> list[str]:
        """Name what is not installed."""
        packages = [name for name in self.packages if find_spec(name) is None]
        programs = [names[0] for names in self.programs if not any(map(shutil.which, names))]
        return packages + programs + [str(each) for each in self.directories if not os.access(each, os.W_OK)]

    def has(self, file: Path) -> bool:
        """Whether this file belongs to it."""
        return file.is_relative_to(_ROOT) and any(file.relative_to(_ROOT).match(pattern) for pattern in self.files)


BROWSER = Part(
    "in a browser",
    ("tests/admin/test_accessibility.py", "tests/admin/test_browser*.py", "tests/admin/test_*_browser.py"),
    packages=("selenium",),
    programs=(("chromium", "chromium-browser"), ("chromedriver",)),
)
THEMES = Part(
    "of the admin under other themes",
    ("tests/admin/test_themes_browser.py",),
    packages=("jazzmin", "unfold"),
)
SPARK = Part(
    "of the pipeline on Spark",
    ("tests/spark/test_*.py", "tests/streams/test_runner.py"),
    packages=("pyspark", "pyarrow", "duckdb", "pandas", "deltalake", "polars"),
)
DJANGOS = Part("Django's own of tasks", ("tests/tasks/test_djangos_own.py",), (), directories=(DJANGOS_TESTS,))
STRESS = Part(
    "of the tool for stress",
    ("tests/stress/test_*.py",),
    (),
    directories=(CPU, FREEZER),
    remedy="Root has it on Linux.",
)
PARTS = (BROWSER, THEMES, SPARK, DJANGOS, STRESS)


def sentences(parts: Iterable[Part] = PARTS) -> list[str]:
    """What the run leaves out, and what to install for it."""
    return [
        f"NOT TESTED: what is {part.name}; it needs {', '.join(missing)}. {part.remedy}"
        for part in parts
        if (missing := part.missing())
    ]
