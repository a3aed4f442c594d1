"""Trying bugs: their tests must pass without them, and one must fail with each."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from tests.mutants.checkout import Checkout, Outcome
from tests.mutants.planted import Mutant, NotPlanted
from tests.patience import patience

SECONDS = patience(300)
"""How long the tests of one bug may take; they are ended then."""
_NO_BUGS = ("SyntaxError", "IndentationError", "ImportError", "ModuleNotFoundError", "NameError")
_LINES_SHOWN = 15
ServerUrl = Callable[[str], AbstractContextManager[str]]


@dataclass(frozen=True, slots=True)
class Result:
    """What came of a bug on a database."""

    mutant: Mutant
    database: str
    verdict: str
    """caught, NOT CAUGHT or broken"""
    why: str = ""

    @property
    def is_caught(self) -> bool:
        return self.verdict == "caught"


class Trial:
    """All bugs, one after the other, each on its databases; says how far it has come."""

    def __init__(self, root: Path, directory: Path, server_url: ServerUrl, *, seconds: float = SECONDS) -> None:
        self._checkout = Checkout(root, directory)
        self._server_url = server_url
        self._seconds = seconds

    def run(self, mutants: Sequence[Mutant], databases: Sequence[str]) -> list[Result]:
        """Try each; a bug that can't be planted is told before anything is started."""
        results: list[Result] = []
        plantable = []
        for mutant in mutants:
            try:
                mutant.source(self._checkout.root)
                mutant.check_tests(self._checkout.root)
                plantable.append(mutant)
            except NotPlanted as error:
                results.append(self._reported(Result(mutant, "", "broken", str(error)), 0))
        for package in sorted({mutant.file.split("/")[0].removesuffix(".py") for mutant in plantable}):
            self._checkout.check_import(package)
        for database in databases:
            if here := [mutant for mutant in plantable if database in mutant.on]:
                with self._server_url(database) as url:
                    results += self._run_on(database, url, here)
        return results

    def _run_on(self, database: str, url: str, mutants: Sequence[Mutant]) -> list[Result]:
        tests = sorted({test for mutant in mutants for test in mutant.tests})
        print(f"=== {database}: {len(mutants)} bugs; their tests without them first", flush=True)
        began = time.monotonic()
        clean = self._checkout.run(tests, database, url, seconds=SECONDS * len(mutants), first_only=False)
        print(f"=== {database}: {len(clean.passed)} tests passed in {time.monotonic() - began:.0f} s", flush=True)
        return [self._try(mutant, database, url, clean) for mutant in mutants]

    def _try(self, mutant: Mutant, database: str, url: str, clean: Outcome) -> Result:
        began = time.monotonic()
        verdict, why = "broken", _unfit(mutant, clean)
        if not why:
            with self._checkout.planted(mutant):
                outcome = self._checkout.run(mutant.tests, database, url, seconds=self._seconds, first_only=True)
            verdict, why = judge(mutant, outcome)
        return self._reported(Result(mutant, database, verdict, why), time.monotonic() - began)

    @staticmethod
    def _reported(result: Result, seconds: float) -> Result:
        place = f"{result.database}, {seconds:.0f} s" if result.database else "not planted"
        print(f"{result.verdict:<11}{result.mutant.promise:<5}{result.mutant.name} ({place})", flush=True)
        if not result.is_caught:
            print("\n".join(f"    {line}" for line in result.why.splitlines()), flush=True)
        return result


def judge(mutant: Mutant, outcome: Outcome) -> tuple[str, str]:
    """Say whether the tests have seen the bug, and else why not: who can't run the tests has seen nothing."""
    if outcome.code is None:
        return ("caught", "hung") if mutant.hangs else ("broken", "its tests came to no end; if that is right: hangs")
    for case, message in outcome.failed.items():
        if message.startswith(_NO_BUGS):
            return "broken", f"{case}: {message}"
        return "caught", case
    if outcome.code == 0:
        return "NOT CAUGHT", "none of these failed with it: " + ", ".join(mutant.tests)
    return "broken", _last_lines(outcome.output)


def _unfit(mutant: Mutant, clean: Outcome) -> str:
    """Say why its tests, as they ended without a bug, can't show this one; '' where they can."""
    wrong = {**clean.failed, **clean.broken}
    if failed := [case for case in wrong if mutant.is_seen_by(case)]:
        return f"fails without the bug: {failed[0]}: {wrong[failed[0]]}"
    for test in mutant.tests:
        if not any(_is_of(test, case) for case in clean.passed):
            return f"{test} did not run without the bug:\n{_last_lines(clean.output)}"
    return ""


def _is_of(test: str, case: str) -> bool:
    return case == test or case.startswith((f"{test}::", f"{test}["))


def _last_lines(output: str) -> str:
    return "\n".join(output.splitlines()[-_LINES_SHOWN:])
