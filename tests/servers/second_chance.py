"""What has failed runs once more, alone; what passes then is FLAKY, which is shown and is no failure.

A test that fails for the noise of its neighbours passes when it has none. One that a change has broken fails again.
More than a handful at once are no accident, and a file that the change itself touches has to be sound.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

MOST = 5
"""Failures of one pass that may be accidents."""

PATIENCE = 2
"""How much longer deadlines are when a test is alone, beside those of the first time."""

ALONE = ("-n", "0", "-p", "no:randomly", "--timeout=360")


@dataclass(frozen=True, slots=True)
class Flaky:
    """A test that failed, and passed alone; what it said the first time, and what the machine did meanwhile."""

    test: str
    traceback: str
    noise: str


@contextmanager
def among_others() -> Iterator[None]:
    """Beside the other passes of a gate, and never beside a second chance of one."""
    with _holding(fcntl.LOCK_SH):
        yield


@contextmanager
def _holding(how: int) -> Iterator[None]:
    """On the file that all passes of a gate share, where there is one; nobody waits for it while holding it."""
    if not (shared := os.environ.get("DBQUEUE_TEST_ALONE")):
        yield
        return
    with Path(shared).open("a") as file:
        fcntl.flock(file, how)
        yield


def cached_in(report: Path) -> tuple[str, ...]:
    """Arguments that let pytest keep what failed beside its report, of all of pytest-xdist's processes."""
    return ("-o", f"cache_dir={report}/cache")


def last_failed(report: Path) -> list[str]:
    """The node ids that failed in the last run and have not passed since, set-ups and crashes among them."""
    file = report / "cache" / "v" / "cache" / "lastfailed"
    return sorted(json.loads(file.read_text())) if file.exists() else []


def may_be_accidents(failed: Sequence[str], changed: Collection[str]) -> bool:
    """Whether these failures get a second chance."""
    return 0 < len(failed) <= MOST and not {each.partition("::")[0] for each in failed} & set(changed)


def once_more(
    report: Path, failed: Sequence[str], arguments: Sequence[str], run: Callable[[list[str]], object]
) -> list[Flaky]:
    """Run what has failed alone, and return what passed. ``run`` starts pytest; no argument names tests.

    Waits until the other passes of the gate have ended theirs.
    """
    tracebacks, noise = dict(_tracebacks(report / "report.xml")), noise_now()
    before = os.environ.get("DBQUEUE_TEST_PATIENCE", "1")
    os.environ["DBQUEUE_TEST_PATIENCE"] = str(float(before) * PATIENCE)
    try:
        with _holding(fcntl.LOCK_EX):
            run([*_without_seed(arguments), *ALONE, *failed, f"--junitxml={report}/again.xml"])
    finally:
        os.environ["DBQUEUE_TEST_PATIENCE"] = before
    passed = sorted(set(failed) - set(last_failed(report)))
    return [Flaky(test, tracebacks.get(_as_reported(test), ""), noise) for test in passed]


def noise_now() -> str:
    """How busy the machine is, as a sentence's end; what the kernel doesn't tell is left out."""
    words = [f"load {os.getloadavg()[0]:.1f}"]
    pressure = Path("/proc/pressure/cpu")
    if pressure.exists():
        some = pressure.read_text().split()
        words += [f"CPU pressure {word.partition('=')[2]} %" for word in some[:2] if word.startswith("avg10=")]
    return ", ".join(words)


def _without_seed(arguments: Sequence[str]) -> list[str]:
    """Without the plugin of the random order, its option would be unknown."""
    return [word for word in arguments if not word.startswith("--randomly")]


def _tracebacks(report: Path) -> Iterator[tuple[tuple[str, str], str]]:
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        for found in (*case.iter("failure"), *case.iter("error")):
            yield (case.get("classname", ""), case.get("name", "")), found.text or found.get("message", "")


def _as_reported(test: str) -> tuple[str, str]:
    """A node id as the report's class and name."""
    path, bracket, values = test.partition("[")
    file, *classes, name = path.split("::") if "::" in path else (path, "")
    return ".".join([file.removesuffix(".py").replace("/", "."), *classes]), name + bracket + values
