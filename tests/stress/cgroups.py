"""A control group of processes, by either version of cgroups(7)."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

_MOUNT: Final = Path("/sys/fs/cgroup")
IS_V2: Final = (_MOUNT / "cgroup.controllers").exists()
CPU: Final = _MOUNT if IS_V2 else _MOUNT / "cpu"
FREEZER: Final = _MOUNT if IS_V2 else _MOUNT / "freezer"
_PERIOD: Final = 100_000
"""Microseconds in which a group may use its share."""
_PAUSE: Final = 0.01


class Group:
    """Processes, and all that they start; at the end of the block what is left of them is killed."""

    def __init__(self, root: Path) -> None:
        self._path = root / f"dbqueue-{os.getpid()}"

    def __enter__(self) -> Self:
        if IS_V2:
            (self._path.parent / "cgroup.subtree_control").write_text("+cpu")
        self._path.mkdir()
        return self

    def __exit__(self, *_: object) -> None:
        self.thaw()
        while pids := self.processes():
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(_PAUSE)  # until the kernel has taken them away
        self._path.rmdir()

    def start(self, command: Sequence[str], **how: Any) -> subprocess.Popen[bytes]:
        """Start a process that belongs to the group from its first instruction on."""
        return subprocess.Popen(command, preexec_fn=self._join, **how)

    def processes(self) -> list[int]:
        return [int(line) for line in (self._path / "cgroup.procs").read_text().split()]

    def limit(self, percent: float) -> None:
        """Let them have so much of one core, all together."""
        quota = int(_PERIOD * percent / 100)
        if IS_V2:
            (self._path / "cpu.max").write_text(f"{quota} {_PERIOD}")
        else:
            (self._path / "cpu.cfs_period_us").write_text(str(_PERIOD))
            (self._path / "cpu.cfs_quota_us").write_text(str(quota))

    def throttled(self) -> int:
        """Return in how many periods they wanted more than their share."""
        stat = dict(line.split() for line in (self._path / "cpu.stat").read_text().splitlines())
        return int(stat["nr_throttled"])

    def freeze(self) -> None:
        """Stop all of them; return when they stand."""
        self._turn("1", "FROZEN")
        while not self._is_frozen():
            time.sleep(_PAUSE)

    def thaw(self) -> None:
        """Let them go on."""
        self._turn("0", "THAWED")

    def _join(self) -> None:
        (self._path / "cgroup.procs").write_text(str(os.getpid()))

    def _turn(self, v2: str, v1: str) -> None:
        if IS_V2:
            (self._path / "cgroup.freeze").write_text(v2)
        elif (self._path / "freezer.state").exists():
            (self._path / "freezer.state").write_text(v1)

    def _is_frozen(self) -> bool:
        if IS_V2:
            return "frozen 1" in (self._path / "cgroup.events").read_text()
        return (self._path / "freezer.state").read_text().strip() == "FROZEN"
