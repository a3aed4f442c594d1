"""Processes in which peers run: each with a session of its own, so that all that it starts can be counted and ended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.queue.peers.environments import ROOT
from benchmarks.queue.processes import ChildFailed
from tests.servers.lifeline import ends_with_its_starter

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_PATIENCE_SECONDS = 3.0
_TICK = os.sysconf("SC_CLK_TCK")


class Child:
    """One operation of `child.py`. See there for what the two say to each other."""

    def __init__(self, command: Sequence[str], environ: Mapping[str, str], log: Path) -> None:
        self._command, self._log = command, log
        with log.open("ab") as words:
            self._process = subprocess.Popen(
                command,
                cwd=ROOT,
                env=environ,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=words,
                text=True,
                start_new_session=True,
                preexec_fn=ends_with_its_starter(signal.SIGKILL),
            )

    @property
    def pid(self) -> int:
        """The process that was started, which leads its session."""
        return self._process.pid

    def heard(self) -> dict[str, Any]:
        """What it says next. Raises ChildFailed if it ends instead."""
        assert self._process.stdout is not None
        if line := self._process.stdout.readline():
            words: dict[str, Any] = json.loads(line)
            return words
        self.end()
        raise ChildFailed(self._last_words())

    def go(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def still_alive(self) -> None:
        """Raises ChildFailed if it has ended."""
        if self._process.poll() is not None:
            raise ChildFailed(self._last_words())

    def _last_words(self) -> str:
        return f"{' '.join(self._command)} ended ({self._process.poll()}):\n{self._log.read_text()[-3000:]}"

    def members(self) -> list[int]:
        """It, and whatever it started and that still runs."""
        return [process for process, _ in self._stats()]

    def cpu_seconds(self) -> float:
        """Used so far by it and all that it started."""
        return sum(int(ticks) for _, fields in self._stats() for ticks in fields[_TIMES]) / _TICK

    def _stats(self) -> list[tuple[int, list[str]]]:
        found = ((process, _stat(process)) for process in _processes())
        return [(process, fields) for process, fields in found if fields and fields[_SESSION] == str(self._process.pid)]

    def end(self) -> None:
        """Asks all of the session to stop, and after some patience leaves none of it."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGTERM)
        end = time.monotonic() + _PATIENCE_SECONDS
        while self.members() and time.monotonic() < end:
            self._process.poll()
            time.sleep(0.02)
        for process in self.members():
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with suppress(BrokenPipeError):
                    stream.close()


# Where proc(5) has them, counted from the field after the name.
_SESSION = 3
_TIMES = slice(11, 15)


def _processes() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]


def _stat(process: int) -> list[str]:
    """No fields for a process that is gone, or that has ended and only not been waited for."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []
    return [] if fields[0] == "Z" else fields
