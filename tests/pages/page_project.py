"""A project in a directory of its own, for the pages of the documentation that are followed by real workers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from django.conf import settings

from tests.patience import patience

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).resolve().parents[2]
ON_SQLITE = [
    pytest.mark.once,
    pytest.mark.skipif(settings.TEST_DATABASE != "sqlite", reason="its project is on SQLite"),
]
SETTINGS = """
SECRET_KEY = "of a test"
USE_TZ = True
INSTALLED_APPS = ["django_dbqueue", "{app}"]
DATABASES = {{
    "default": {{
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": "db.sqlite3",
        "OPTIONS": {{"init_command": "PRAGMA journal_mode=WAL", "transaction_mode": "IMMEDIATE", "timeout": 20}},
    }},
}}
"""


def make_project(directory: Path, app: str, modules: Mapping[str, str], *, configured: str = "") -> None:
    """Make a project of one app with these modules, and migrate it."""
    (directory / app).mkdir()
    for name, text in {"__init__": "", **modules}.items():
        (directory / app / f"{name}.py").write_text(text)
    (directory / "of_page.py").write_text(SETTINGS.format(app=app) + configured)
    if "models" in modules:
        run_there(directory, "makemigrations", app, "-v", "0")
    run_there(directory, "migrate", "-v", "0")


def environment_there(directory: Path) -> dict[str, str]:
    """The environment in which Python runs this project."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("DBQUEUE_")}
    return environment | {"PYTHONPATH": f"{directory}:{ROOT}", "DJANGO_SETTINGS_MODULE": "of_page"}


def run_there(directory: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "django", *arguments],
        cwd=directory,
        env=environment_there(directory),
        capture_output=True,
        text=True,
        check=False,
        timeout=patience(120),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def shell(directory: Path, *lines: str) -> str:
    return run_there(directory, "shell", "-v", "0", "-c", "\n".join(lines))
