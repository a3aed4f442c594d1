"""Django's own tests of tasks, from its source distribution, with our backend where they name Django's.

On Django 5.2 they are those of the newest Django, and run against the backport. `bin/test` fetches them.
"""

from __future__ import annotations

import os
import re
import secrets
import subprocess
import sys
from pathlib import Path
from typing import Final

from django_dbqueue.tasks.compat import HOME
from tests.conftest import ROOT
from tests.left_out import DJANGOS_TESTS

NAMES: Final = {
    "django.tasks.backends.dummy import DummyBackend": "tests.tasks.standins import Recording as DummyBackend",
    "django.tasks.backends.immediate import ImmediateBackend": (
        "tests.tasks.standins import Immediate as ImmediateBackend"
    ),
    "django.tasks.backends.dummy.DummyBackend": "tests.tasks.standins.Recording",
    "django.tasks.backends.immediate.ImmediateBackend": "tests.tasks.standins.Immediate",
    "SimpleTestCase": "TestCase",  # they need no database with Django's backends
}
IN_THE_BACKPORT: Final = {
    r"from django\.tasks import Task, ": "from django_tasks.base import Task\nfrom django_tasks import ",
    r"\bInvalidTask\b": "InvalidTaskError",
    r"\bInvalidTaskBackend\b": "InvalidTaskBackendError",
    r"\bdjango\.tasks\b": "django_tasks",
}
NOT_OURS: Final = {
    "test_throws_keyboard_interrupt": "ImmediateBackend runs in the caller's process, where Ctrl-C is the caller's",
    "test_cannot_get_result": "ImmediateBackend keeps no results",
    "test_cannot_refresh_result": "ImmediateBackend keeps no results",
    "queue_with_invalid_argument": "it sends a datetime, which is an argument here, and comes back as one",
    "test_cannot_pass_run_after": "ImmediateBackend can't defer",
    "DummyBackendTestCase and test_refresh_result": "it changes a result in DummyBackend's memory",
    "DummyBackendTestCase and test_enqueue_task_async": "it lists DummyBackend's memory in async code, a query here",
    "TaskTestCase and test_enqueue_task_async": "it lists DummyBackend's memory in async code, a query here",
    "TaskTestCase and test_refresh_result": "it refreshes from DummyBackend's memory in async code, a query here",
    "ImmediateBackendTransactionTestCase": "ImmediateBackend runs inside the caller's transaction",
}
NOT_IN_THE_BACKPORT: Final = {
    "pickle": "the backport's tasks can't be pickled",
    "test_run_after_in_decorator": "the backport has another error",
    "test_enqueue_async_task_on_non_async_backend": "the backport has another text",
    "test_validate_disallowed_async_task": "the backport has another text",
    "test_no_enqueue": "Python 3.11 has another text",
}
AT_LEAST: Final = 60
"""Fewer would mean that they were not found."""


def test_djangos_own_tests_pass(tmp_path: Path) -> None:
    home = tmp_path / "tasks"
    home.mkdir()
    for file in DJANGOS_TESTS.glob("*.py"):
        text = file.read_text()
        for old, new in NAMES.items():
            text = text.replace(old, new)
        for pattern, new in IN_THE_BACKPORT.items() if HOME == "django_tasks" else ():
            text = re.sub(pattern, new, text)
        (home / file.name).write_text(text)
    left = NOT_OURS | (NOT_IN_THE_BACKPORT if HOME == "django_tasks" else {})
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", "-p", "no:cacheprovider", "-p", "no:xdist"]
    command += ["--rootdir", str(tmp_path), "-o", f"pythonpath={tmp_path} {ROOT}", "-o", "python_files=test_*.py"]
    command += ["-k", " and ".join(f"not ({name})" for name in left), str(home)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "COV_"))}
    environment |= {
        "DBQUEUE_TEST_RUN": secrets.token_hex(4),
        "DJANGO_SETTINGS_MODULE": "tests.settings",
        "DJANGO_ALLOW_ASYNC_UNSAFE": "1",  # they call from async tests what is no query with Django's backends
    }
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout[-6000:] + ran.stderr[-2000:]
    passed = re.search(r"(\d+) passed", ran.stdout)
    assert passed is not None, ran.stdout
    assert int(passed[1]) >= AT_LEAST
