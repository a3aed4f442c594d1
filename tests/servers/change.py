"""What a change touches: the files that differ from what has landed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LANDED = ROOT / ".ci" / "landed"
"""The commit from which a change is reckoned; whoever begins one writes there what has landed."""


def base() -> str:
    """The commit that the change begins at: the caller's DBQUEUE_GATE_BASE, else the one in `.ci/landed`.

    Empty where neither is a commit of this clone.
    """
    named = os.environ.get("DBQUEUE_GATE_BASE") or LANDED.read_text().split()[0]
    return _git("rev-parse", "--verify", "--quiet", f"{named}^{{commit}}").strip()


def changed_files() -> list[str]:
    """Files that were added, edited or deleted since the base, committed or not, from the repository's root."""
    if not (begins := base()):
        return []
    changed = _git("diff", "--name-only", "--no-renames", begins).splitlines()
    return sorted({*changed, *_git("ls-files", "--others", "--exclude-standard").splitlines()})


def test_files(files: list[str]) -> list[str]:
    """Those among them that are there and that pytest collects."""
    tests = [file for file in files if file.startswith("tests/") and fnmatch(Path(file).name, "test_*.py")]
    return [file for file in tests if (ROOT / file).exists()]


def helpers(*folders: str) -> list[str]:
    """What is below these folders and holds no test: tests there stand on it."""
    files = [file for folder in folders for file in (ROOT / folder).rglob("*.py")]
    return sorted(str(file.relative_to(ROOT)) for file in files if not fnmatch(file.name, "test_*.py"))


def followed(*tests: str) -> dict[str, list[str]]:
    """The pages that tests name, by test."""
    pages = {}
    for test in sorted(path for glob in tests for path in ROOT.glob(glob)):
        named = re.findall(r"[\w./-]+\.md", test.read_text().replace('" / "', "/"))
        pages[str(test.relative_to(ROOT))] = sorted({page for page in named if (ROOT / page).exists()})
    return pages


def slow_files(files: list[str]) -> list[str]:
    """Those of these test files that have a test which no other part of the gate runs: a slow or nightly one."""
    return [file for file in files if re.search(r"\bmark\.(slow|nightly)\b", (ROOT / file).read_text())]


def most_changed(files: list[str], most: int) -> list[str]:
    """So many of them: those with the most lines added. A file that git doesn't know yet comes first."""
    numbers = [line.split("\t") for line in _git("diff", "--numstat", "--no-renames", base() or "HEAD").splitlines()]
    added = {file: int(lines) for lines, _, file in numbers if lines.isdigit()}
    return sorted(sorted(files, key=lambda file: -added.get(file, sys.maxsize))[:most])


def _git(*arguments: str) -> str:
    """What git prints, or nothing where it fails: an archive of the source has no history."""
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else ""
