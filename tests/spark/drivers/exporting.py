"""An export that is killed: ``python -m tests.spark.drivers.exporting POINT LAKE CREDENTIALS_FILE``.

At the point it kills its JVM and itself, as ``kill -9`` does.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

from django_dbqueue.spark import batches, build_session
from django_dbqueue.spark.batches import Register
from django_dbqueue.spark.connection import Connection
from django_dbqueue.spark.files import Files
from django_dbqueue.spark.jobs.config import ExportConfig
from django_dbqueue.spark.jobs.export import Export, run

if TYPE_CHECKING:
    from collections.abc import Callable

BATCH_ROWS = 60
CHUNK = 20


def main(point: str, lake: str, credentials_file: str) -> None:
    spark = build_session("killed", master="local[2]", settings={"spark.driver.memory": "1g"})
    jvm = spark._jvm.java.lang.ProcessHandle.current().pid()

    def die() -> None:
        os.kill(jvm, signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)

    batches.PURGE_ROWS = CHUNK
    POINTS[point](die)
    run(spark, ExportConfig(credentials_file=credentials_file, lake=lake, older_than=0.0, batch_rows=BATCH_ROWS))


def after(owner: type, method: str, *, when: Callable[..., bool] = lambda *_: True) -> Callable[..., None]:
    """Die when the method has done its work, the second time."""

    def arrange(die: Callable[[], None]) -> None:
        work, times = getattr(owner, method), 0

        def last(*args: Any, **kwargs: Any) -> Any:
            nonlocal times
            result = work(*args, **kwargs)
            times += when(*args)
            if times == 2:
                die()
            return result

        setattr(owner, method, last)

    return arrange


def renaming(die: Callable[[], None]) -> None:
    """Die as soon as the first folder of the second batch stands where it belongs; others follow it."""
    save = Export.save

    def watched(self: Export, frame: Any, batch: Any) -> None:
        root = Path(self.config.lake)

        def watch() -> None:
            while not any(root.glob(f"queue=*/day=*/batch={batch.number}")):
                time.sleep(0.0005)
            die()

        if batch.number == 2:
            Thread(target=watch, daemon=True).start()
        save(self, frame, batch)

    Export.save = watched  # type: ignore[method-assign]


POINTS: dict[str, Callable[[Callable[[], None]], None]] = {
    "planned": after(Register, "plan"),
    "renaming": renaming,
    "written": after(Export, "write"),
    "published": after(Files, "publish", when=lambda _, name, *__: name.startswith("_manifests/")),
    "verified": after(Register, "verified"),
    "deleting": after(
        Connection, "run", when=lambda _, statement: statement.sql.startswith("DELETE FROM django_dbqueue_a")
    ),
    "purged": after(Register, "purge"),
}

if __name__ == "__main__":
    main(*sys.argv[1:])
