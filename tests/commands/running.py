"""Running a command as operators do: in this process for what it says, in one of its own for how it ends."""

from __future__ import annotations

import io
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from django.core.management import CommandError, call_command
from django.db import connection

from tests.patience import patience


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)


def run(name: str, *arguments: str) -> Ended:
    """Its exit code, what it printed, and what it complained of."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    try:
        call_command(name, *arguments, stdout=out, stderr=err)
    except SystemExit as end:
        code = int(end.code or 0)
    except CommandError as error:
        code = error.returncode
        err.write(f"{error}\n")
    return Ended(code, out.getvalue(), err.getvalue())


def run_alone(env: dict[str, str], *arguments: str, **options: Any) -> Ended:
    """The same in a process of its own, which is the only way to see a traceback."""
    options = options if "input" in options else {"stdin": subprocess.DEVNULL} | options
    ended = subprocess.run(
        [sys.executable, "-m", "django", *arguments],
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=patience(120),
        **options,
    )
    return Ended(ended.returncode, ended.stdout, ended.stderr)


def start(env: dict[str, str], *arguments: str, **options: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "django", *arguments],
        env=env,
        text=True,
        start_new_session=True,
        preexec_fn=heed_interrupts,
        **options,
    )


def heed_interrupts() -> None:
    """Begin as from a terminal: what a script has started in the background ignores SIGINT, and so do its children."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@contextmanager
def hidden(table: str) -> Iterator[None]:
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE {table} RENAME TO hidden")
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute(f"ALTER TABLE hidden RENAME TO {table}")
