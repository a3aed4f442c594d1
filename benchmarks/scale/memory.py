"""What the processes of a job hold in memory at most: this one, its JVM, and the largest of Spark's Python workers."""

from __future__ import annotations

import re
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from benchmarks.queue.memory import megabytes
from benchmarks.scale.polling import polling

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

HELD: Final = ("driver MB", "heap MB", "worker MB")
_EVERY: Final = 0.05


class Memory:
    """``held`` has the highest points of the last job, by HELD."""

    def __init__(self, spark: SparkSession) -> None:
        java: Any = spark._jvm
        self._pools = java.java.lang.management.ManagementFactory.getMemoryPoolMXBeans()
        self._collect = java.java.lang.System.gc
        self._jvm = int(java.java.lang.ProcessHandle.current().pid())
        self.held: dict[str, float] = {}

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Forget the highest points until now, and find out those from now on."""
        self._collect()
        for pool in self._pools:
            pool.resetPeakUsage()
        for process in ("self", *self._workers()):
            with suppress(OSError):
                Path(f"/proc/{process}/clear_refs").write_text("5")
        largest = 0.0

        def watch() -> None:
            nonlocal largest
            largest = max(largest, self._largest())

        try:
            with polling(watch, _EVERY):
                yield
        finally:
            heap = sum(pool.getPeakUsage().getUsed() for pool in self._pools if pool.getType().name() == "HEAP")
            found = (megabytes("self", "VmHWM"), heap / 2**20, max(largest, self._largest()))
            self.held = dict(zip(HELD, found, strict=True))

    def _largest(self) -> float:
        found = [0.0]
        for process in self._workers():
            with suppress(OSError, ValueError):  # it has just ended
                found.append(megabytes(process, "VmHWM"))
        return max(found)

    def _workers(self) -> list[str]:
        """The Python processes below the JVM; a shell that it begins looks as large as the JVM for a moment."""
        parents, names = dict[str, str](), dict[str, str]()
        for status in Path("/proc").glob("[0-9]*/status"):
            with suppress(OSError):
                text, process = status.read_text(), status.parent.name
                [parents[process]] = re.findall(r"^PPid:\s+(\d+)$", text, re.MULTILINE)
                [names[process]] = re.findall(r"^Name:\s+(.*)$", text, re.MULTILINE)
        found, last = list[str](), {str(self._jvm)}
        while last := {process for process, parent in parents.items() if parent in last}:
            found += [process for process in last if names[process].startswith(("python", "pypy"))]
        return found
