"""What downloads tries three times, and says so where it could not: never another version in silence."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.conftest import ROOT

pytestmark = pytest.mark.once

CONFLICT = "ERROR: ResolutionImpossible: for help visit https://pip.pypa.io/"
RETRYING = "WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError()'"


def run(*command: str | Path, **more: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"DBQUEUE_FETCH_PAUSES": "0 0"} | more
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(("failures", "code"), [(0, 0), (2, 0), (3, 75)])
def test_a_download_is_tried_three_times(tmp_path: Path, failures: int, code: int) -> None:
    tries = tmp_path / "tries"
    command = f'echo >>"{tries}"; (($(wc -l <"{tries}") > {failures}))'
    done = run(ROOT / "bin/fetch", "what the tests need", "bash", "-c", command)
    assert done.returncode == code
    assert tries.read_text().count("\n") == min(failures + 1, 3)
    assert ("COULD NOT DOWNLOAD: what the tests need" in done.stderr) == (code == 75)


@pytest.mark.parametrize(
    ("printed", "pip_ends", "code", "tries"),
    [
        ([], 0, 0, 1),
        ([CONFLICT], 1, 3, 1),
        (["ERROR: No matching distribution found for six==999"], 1, 3, 1),
        ([RETRYING, CONFLICT], 1, 75, 3),
        (["ERROR: Failed to build 'mysqlclient'"], 1, 75, 3),
    ],
)
def test_versions_are_given_up_where_there_are_none_and_never_for_the_network(
    tmp_path: Path, printed: list[str], pip_ends: int, code: int, tries: int
) -> None:
    pip, calls = tmp_path / "pip", tmp_path / "calls"
    lines = "\n".join(f'echo "{line}" >&2' for line in printed)
    pip.write_text(f'#!/bin/sh\necho "$*" >>"{calls}"\n{lines}\nexit {pip_ends}\n')
    pip.chmod(0o755)
    done = run(ROOT / "bin/pinned", "constraints.txt", pip, "install", "-q", "six")
    assert done.returncode == code, done.stderr
    assert calls.read_text() == "install -q six --constraint constraints.txt\n" * tries
    assert all(line in done.stderr for line in printed)


def test_a_debian_that_could_not_be_downloaded_is_a_failure_and_no_lack_of_this_machine(tmp_path: Path) -> None:
    may = os.getuid() == 0 and run("unshare", "--mount", "--pid", "--fork", "true").returncode == 0
    fails = tmp_path / "debootstrap"
    fails.write_text("#!/bin/sh\necho 'E: Failed getting release file'\nexit 1\n")
    fails.chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    done = run(ROOT / "bin/debian", "trixie", "true", PATH=path, DBQUEUE_DEBIAN_TREES=str(tmp_path / "trees"))
    assert done.returncode == (75 if may else 69), done.stderr
    assert ("COULD NOT DOWNLOAD: Debian trixie" in done.stderr) == may


def test_a_newer_python_that_could_not_be_downloaded_leaves_nothing_to_take_for_it(
    tmp_path: Path,
) -> None:
    may = os.getuid() == 0
    for program in ("debootstrap", "patchelf"):
        (tmp_path / program).write_text("#!/bin/sh\necho 'E: Failed getting release file'\nexit 1\n")
        (tmp_path / program).chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    done = run(ROOT / "bin/newer-python", "forky", PATH=path, DBQUEUE_DEBIAN_TREES=str(tmp_path / "trees"))
    assert done.returncode == (75 if may else 69), done.stderr
    assert done.stdout == ""
    assert ("COULD NOT DOWNLOAD: Debian forky" in done.stderr) == may
    assert not (tmp_path / "trees/forky-python").exists()


def test_whatever_downloads_does_so_by_fetch() -> None:
    downloads = re.compile(r'apt-get (?:-\w+ )*(?:update|install)|pip"? (?:install|download)|debootstrap --')
    scripts = [*(ROOT / "bin").iterdir(), ROOT / ".ci/run"]
    code = [line.partition("# ")[0] for each in scripts for line in each.read_text().splitlines()]
    found = [line.strip() for line in code if downloads.search(line)]
    fetched = [line for line in found if re.search(r'bin/fetch |"\$fetch" ', line) or line.startswith("install=(")]
    assert len(fetched) >= 10
    prose = re.compile(r"^(?:fail|die|sudo|\(sudo) |Debian|could not")
    assert [line for line in found if line not in fetched and not prose.search(line)] == []
