"""Makes every Python of a driver, Spark's own among them, die with it at a named point of a publication.

On the path of such a driver only. ``DYING_AT`` names the point, ``DYING_FILE`` the file that says it was reached:
a run that finds it there lives.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

POINT, REACHED, DRIVER = (os.environ.get(f"DYING_{name}", "") for name in ("AT", "FILE", "DRIVER"))


def _die() -> None:
    if Path(REACHED).exists():
        return
    Path(REACHED).touch()
    os.killpg(int(Path(DRIVER).read_text()), signal.SIGKILL)  # the driver and its JVM
    os.kill(os.getpid(), signal.SIGKILL)


def _patch() -> None:
    from django_dbqueue.spark import publication, writing
    from django_dbqueue.spark.connection import Connection

    publish, transaction, is_publishing = publication._publish, Connection.transaction, False

    def before(*args: Any, **keywords: Any) -> Any:
        nonlocal is_publishing
        if POINT == "before":
            _die()
        is_publishing = True  # tasks have transactions, too
        published = publish(*args, **keywords)
        if POINT == "after":
            _die()
        return published

    @contextmanager
    def dying_before_its_commit(self: Connection) -> Iterator[None]:
        with transaction(self):
            yield
            if POINT == "inside" and is_publishing:
                _die()

    def dying_when_all_is_staged(*args: Any, **keywords: Any) -> Any:
        if POINT == "staged":
            _die()
        return real_publish(*args, **keywords)

    real_publish = writing.publish
    publication._publish, Connection.transaction = before, dying_before_its_commit  # type: ignore[method-assign]
    writing.publish = dying_when_all_is_staged


if POINT:
    _patch()
