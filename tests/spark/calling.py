"""Calling ``queue_pipeline``: in this process, as the shell does there, and in a process of its own."""

from __future__ import annotations

import io
import subprocess
import sys

from django.core.management import CommandError, call_command, load_command_class


def call(*arguments: str) -> tuple[int, str, str]:
    """Run the command in this process: its exit code, what it printed, and what it complained of."""
    out = io.StringIO()
    try:
        call_command("queue_pipeline", *arguments, stdout=out)
    except CommandError as error:
        return error.returncode, out.getvalue(), str(error)
    except SystemExit as end:
        return int(end.code or 0), out.getvalue(), ""
    return 0, out.getvalue(), ""


def shell(worker_env: dict[str, str], *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "django", "queue_pipeline", *arguments],
        env=worker_env | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def typed(*arguments: str) -> int:
    """Run the command as the shell does, in this process, and return its exit code."""
    try:
        load_command_class("django_dbqueue", "queue_pipeline").run_from_argv(
            ["manage.py", "queue_pipeline", *arguments]
        )
    except SystemExit as end:
        return int(end.code or 0)
    return 0
