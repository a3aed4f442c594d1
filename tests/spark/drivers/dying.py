"""Where a driver of the tests is to die, and how."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django_dbqueue.spark import build_session

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession


POINT = "DBQUEUE_TEST_POINT"
"""Names the point in each process: those that Spark starts inherit it."""
_PROCESSES = "DBQUEUE_TEST_PROCESSES"


def mortal_everywhere(place: Path, point: str) -> SparkSession:
    """Return a session that any of its processes can kill (``die_everywhere``), a task's too."""
    os.environ[_PROCESSES], os.environ[POINT] = str(place / "processes"), point
    settings = {"spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "1"}
    spark = build_session("mortal", master="local[2]", settings=settings)
    assert spark._jvm is not None
    (place / "processes").write_text(f"{spark._jvm.java.lang.ProcessHandle.current().pid()} {os.getpid()}")
    return spark


def die_everywhere() -> None:
    """End the JVM and this process, neither of which gets a word in; and the driver, that nobody waits for it."""
    jvm, driver = map(int, Path(os.environ[_PROCESSES]).read_text().split())
    for process in (jvm, driver, os.getpid()):
        os.kill(process, signal.SIGKILL)


def wait_for_death() -> None:
    """Wait until somebody has killed the JVM, and end as well: this process may be in another group."""
    jvm, _driver = Path(os.environ[_PROCESSES]).read_text().split()
    while Path(f"/proc/{jvm}/exe").exists():  # one that nobody has waited for has none
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGKILL)


def mortal_session() -> tuple[SparkSession, Callable[[], None]]:
    """Return a session, and what kills its JVM and this process as ``kill -9`` does."""
    spark = build_session("killed", master="local[2]", settings={"spark.driver.memory": "1g"})
    jvm = spark._jvm.java.lang.ProcessHandle.current().pid()

    def die() -> None:
        os.kill(jvm, signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)

    return spark, die


def after(
    owner: Any, method: str, *, when: Callable[..., bool] = lambda *_: True, times: int = 2
) -> Callable[..., None]:
    """Return what makes a process die once this method, or function of a module, has returned ``times`` times."""

    def arrange(die: Callable[[], None]) -> None:
        work, done = getattr(owner, method), 0

        def last(*args: Any, **kwargs: Any) -> Any:
            nonlocal done
            result = work(*args, **kwargs)
            done += when(*args)
            if done >= times:  # several threads may delete at once
                die()
            return result

        setattr(owner, method, last)

    return arrange
