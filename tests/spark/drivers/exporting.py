"""An export that is killed: ``python -m tests.spark.drivers.exporting POINT LAKE CREDENTIALS_FILE``.

At the point it kills its JVM and itself, as ``kill -9`` does.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

from django_dbqueue.spark import export_batches
from django_dbqueue.spark.connection import Connection
from django_dbqueue.spark.export_batches import Register
from django_dbqueue.spark.files import Files
from django_dbqueue.spark.jobs import export
from django_dbqueue.spark.jobs.config import ExportConfig
from django_dbqueue.spark.jobs.export import Export, run
from tests.spark.drivers.dying import after, mortal_session

if TYPE_CHECKING:
    from collections.abc import Callable

BATCH_ROWS = 60
CHUNK = 20


def main(point: str, lake: str, credentials_file: str) -> None:
    spark, die = mortal_session()
    export_batches.PURGE_ROWS = CHUNK
    POINTS[point](die)
    config = ExportConfig(
        credentials_file=credentials_file, lake=lake, older_than=0.0, batch_rows=BATCH_ROWS, delta=True
    )
    run(spark, config)


def renaming(die: Callable[[], None]) -> None:
    """Die as soon as the first folder of the second batch stands where it belongs; others follow it."""
    write = export.write

    def watched(files: Files, frame: Any, number: int) -> Any:
        root = Path(files.root.removeprefix("file:"))

        def watch() -> None:
            while not any(root.glob(f"queue=*/day=*/batch={number}")):
                time.sleep(0.0005)
            die()

        if number != 2:
            return write(files, frame, number)
        watcher = Thread(target=watch, daemon=True)
        watcher.start()
        write(files, frame, number)
        return watcher.join()  # never: it dies in there, at the latest

    export.write = watched  # type: ignore[assignment]


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
