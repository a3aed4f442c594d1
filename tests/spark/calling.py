"""Calling ``queue_pipeline``: in this process, as the shell does there, and in a process of its own."""

from __future__ import annotations

import io
import signal
import subprocess
import sys
from unittest.mock import patch

from django.core.management import CommandError, call_command, load_command_class

from django_dbqueue.worker import late_signals


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
    """Run the command as the shell does, in this process, which does not end with it, and return its exit code."""
    before = {number: signal.getsignal(number) for number in late_signals.SIGNALS}
    try:
        with patch.object(late_signals, "_is_ending", []):
            load_command_class("django_dbqueue", "queue_pipeline").run_from_argv(
                ["manage.py", "queue_pipeline", *arguments]
            )
    except SystemExit as end:
        return int(end.code or 0)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return 0
