"""An erasure that is killed: ``python -m tests.spark.drivers.erasing POINT LAKE CREDENTIALS_FILE``.

At the point it kills its JVM and itself, as ``kill -9`` does.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from django_dbqueue.spark import lake_rewriting
from django_dbqueue.spark.files import Files
from django_dbqueue.spark.jobs import erase
from django_dbqueue.spark.jobs.config import EraseConfig
from tests.spark.drivers.dying import after, mortal_session

if TYPE_CHECKING:
    from collections.abc import Callable

KEY = "jane@example.org"


def main(point: str, lake: str, credentials_file: str) -> None:
    spark, die = mortal_session()
    erase.AT_ONCE = 1
    POINTS[point](die)
    erase.run(spark, EraseConfig(credentials_file=credentials_file, lake=lake, key=(KEY,)))


POINTS: dict[str, Callable[[Callable[[], None]], None]] = {
    "forgetting": after(erase.Erasure, "forget"),
    "deleting": after(erase.Erasure, "delete"),
    "written": after(lake_rewriting, "write", times=1),
    "published": after(Files, "publish", when=lambda _, name, *__: name.startswith("_manifests/"), times=1),
    "vacuuming": after(Files, "_delete", when=lambda _, name: name.startswith("queue="), times=1),
}

if __name__ == "__main__":
    main(*sys.argv[1:])
