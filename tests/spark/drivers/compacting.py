"""A compaction that is killed: ``python -m tests.spark.drivers.compacting POINT LAKE CREDENTIALS_FILE``.

At the point it kills its JVM and itself, as ``kill -9`` does.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from django_dbqueue.spark import lake_rewriting
from django_dbqueue.spark.export_batches import Register
from django_dbqueue.spark.files import Files
from django_dbqueue.spark.jobs import compact
from django_dbqueue.spark.jobs.config import CompactConfig
from tests.spark.drivers.dying import after, mortal_session

if TYPE_CHECKING:
    from collections.abc import Callable


def main(point: str, lake: str, credentials_file: str) -> None:
    spark, die = mortal_session()
    compact.AT_ONCE = 1
    POINTS[point](die)
    compact.run(spark, CompactConfig(credentials_file=credentials_file, lake=lake, grace=0.0))


POINTS: dict[str, Callable[[Callable[[], None]], None]] = {
    "planned": after(Register, "plan_rewrite"),
    "noted": after(Files, "publish", when=lambda _, name, *__: name.startswith("_writing/")),
    "moving": after(Files, "move"),
    "written": after(lake_rewriting, "write"),
    "published": after(Files, "publish", when=lambda _, name, *__: name.startswith("_manifests/")),
    "deleting": after(Files, "_delete", when=lambda _, name: name.startswith("queue=")),
    "forgetting": after(Files, "_delete", when=lambda _, name: name.startswith("_manifests/")),
}

if __name__ == "__main__":
    main(*sys.argv[1:])
