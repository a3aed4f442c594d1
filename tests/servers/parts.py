"""A part of the gate: which tests, where, and how."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatch

from tests.servers.change import ROOT
from tests.servers.suite import Pass

SEED = 20_261_126
"""One order for every run: a gate that draws another one each time refuses the innocent. The night draws."""

SECONDS = 180
"""What a test may take, its fixtures included; past this it hangs."""

LEFT_OPEN = "default::pytest.PytestUnraisableExceptionWarning"
"""What somebody has left open is found when the collector comes, while somebody else runs: a warning. By night, and in
the tests that a change adds or edits, it is an error."""

TIMES = 3
"""How often the gate runs a test file that the change adds or edits, each time in another order."""

QUICK = "not slow and not nightly and not spark"
SLOW = "(slow or nightly) and not spark and not downloads"
ON_A_SERVER = f"{QUICK} and not once"


@dataclass(frozen=True, slots=True)
class Part:
    """Tests, by paths and node ids, on some databases.

    ``left_out``: paths and beginnings of node ids for which the gate has no time. ``touched``: it runs only for a
    change of a file below one of these. ``at_once``: processes; none runs the tests one by one in one session.
    """

    title: str
    databases: Sequence[str]
    tests: Sequence[str]
    left_out: Sequence[str] = ()
    marks: str = QUICK
    at_once: int = 2
    touched: Sequence[str] = ()

    def runs_for(self, changed: Iterable[str]) -> bool:
        """Whether such a change has this part run."""
        touched = tuple(self.touched)
        return not touched or any(
            file.startswith(touched) or any(fnmatch(file, each) for each in touched) for file in changed
        )

    def only(self, files: Iterable[str]) -> Part:
        """What it holds of these test files."""
        roots = {test.partition("::")[0] for test in self.tests}
        held = [file for file in files if any(file == root or file.startswith(f"{root}/") for root in roots)]
        return replace(self, tests=held)

    def one_pass(self, seed: int = SEED, *, strict: bool = False) -> Pass:
        """Pytest's arguments; ``strict``: these tests are to leave nothing open."""
        left_out = [f"--deselect={each}" if "::" in each else f"--ignore-glob={ROOT}/{each}" for each in self.left_out]
        workers = ("-n", str(self.at_once), "--dist", "loadfile") if self.at_once else ("-n", "0")
        order, limit = f"--randomly-seed={seed}", f"--timeout={SECONDS}"
        lenient = () if strict else ("-W", LEFT_OPEN)
        return Pass(
            self.title,
            ("-m", f"({self.marks}) and not quarantined", *left_out, *workers, *lenient, order, limit),
            tuple(self.tests),
        )
