"""Runs parts of the gate (``tests/gate.py``)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tests import gate, gate_changed
from tests.servers.change import base, changed_files, most_changed, slow_files, test_files
from tests.servers.parts import SEED, TIMES, Part
from tests.servers.suite import NO_TEST, Pass, end_of, run_on


def run(name: str, databases: Sequence[str], arguments: Sequence[str]) -> int:
    """Run the parts of this name on those of their databases that are wanted; return the exit code."""
    if name in {"touched", "touched-spark", "changed"} and not base():
        print("NOT TESTED: what the change touches: neither DBQUEUE_GATE_BASE nor .ci/landed is a commit of this clone")
    changed = changed_files()
    sound = frozenset(test_files(changed))
    results = [
        run_on(database, passes, arguments, sound=sound, at_once=name == "changed")
        for part, passes in _planned(name, changed)
        for database in part.databases
        if database in databases
    ]
    if name == "changed":  # a file may hold nothing but what is slow, or for another server
        results = [replace(each, problem="") if each.problem == NO_TEST else each for each in results]
    if not results:
        print("=== the change touches nothing of this")
        return 0
    return end_of(results)


def run_quick() -> int:
    """Run these parts, on their only database; return the exit code. It is for who writes, so nothing is forgiven."""
    passes = [part.one_pass(strict=True) for name in gate.QUICK for part in gate.PARTS[name]]
    return end_of([run_on("sqlite", passes, ())])


def _planned(name: str, changed: Sequence[str]) -> list[tuple[Part, list[Pass]]]:
    if name != "changed":
        return [(part, [part.one_pass()]) for part in gate.PARTS[name] if part.runs_for(changed)]
    tests = test_files(list(changed))
    files = _at_most(gate_changed.MOST_FILES, tests, f"{TIMES} times each")
    slow = _at_most(gate_changed.MOST_SLOW_FILES, slow_files(tests), "what is slow, once each")
    orders = range(SEED, SEED + TIMES)
    every = [part.only(files) for part in gate_changed.PARTS]
    planned = [(part, [part.one_pass(seed, strict=True) for seed in orders]) for part in every if part.tests]
    once = gate_changed.ONCE.only(slow)
    return [*planned, (once, [once.one_pass(strict=True)])] if slow else planned


def _at_most(most: int, files: list[str], how: str) -> list[str]:
    """Those for which there is time; the rest is named."""
    some = most_changed(files, most)
    print(f"=== {how}, of {len(some)} test files that the change adds or edits: {' '.join(some)}")
    if rest := sorted({*files} - {*some}):
        print(f"NOT TESTED {how}: {len(rest)} more of them: {' '.join(rest)}")
    return some
