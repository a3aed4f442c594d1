"""The test files that take the most seconds of a run, as `--durations` lists them."""

from __future__ import annotations

from pathlib import Path

_LONG = (
    "tests/admin/test_accessibility.py",
    "tests/admin/*browser*.py",
    "tests/admin/test_contents.py",
    "tests/admin/test_in_german.py",
    "tests/admin/test_markup.py",
    "tests/admin/test_plans.py",
    "tests/admin/test_scale.py",
    "tests/operations/test_deaths.py",
    "tests/concurrency/test_*.py",
    "tests/doctor/test_examining.py",
    "tests/doctor/test_interrupted.py",
    "tests/liveness/test_guardian.py",
    "tests/monitors/test_scrape_at_scale.py",
    "tests/otel/test_across_processes.py",
    "tests/plans/test_*.py",
    "tests/process/test_*.py",
    "tests/schedules/test_timetable.py",
    "tests/stepper/test_*.py",
    "tests/systems/test_*.py",
    "tests/tools/test_benchmark_queue.py",
    "tests/test_docs.py",
    "tests/tools/test_mutants.py",
    "tests/testing/test_strange_project.py",
    "tests/torture/test_queue_torture.py",
)


def takes_long(file: Path) -> bool:
    return any(file.match(pattern) for pattern in _LONG)
