"""The progress of a job on Spark, as a bar on a terminal with ``rich`` installed (extra ``progress``); else nothing."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from rich.progress import Progress

INTERVAL: Final = 0.5
"""Seconds between checks of Spark's tasks."""


class JobProgress:
    """A display of what the job reports and, in between, how many of Spark's running tasks are done."""

    def __init__(self, bar: Progress | None) -> None:
        self._bar = bar
        self._task = None if bar is None else bar.add_task("", total=None)
        self._counted = False
        self._end = Event()
        self._thread: Thread | None = None

    def show(self, what: str, done: int, total: int | None) -> None:
        """Show what the job is doing."""
        if self._bar is None or self._task is None:
            return
        self._counted = total is not None
        self._bar.update(self._task, description=what, completed=done, total=total)

    def watch(self, spark: Any) -> None:
        """Watch the tasks of a session until the end."""
        if self._bar is not None:
            self._thread = Thread(target=self._poll, args=(spark.sparkContext.statusTracker(),), daemon=True)
            self._thread.start()

    def end(self) -> None:
        """Stop watching; a check may still be running when the session is stopped, and finds out by itself."""
        self._end.set()
        if self._thread is not None:
            self._thread.join()

    def _poll(self, tracker: Any) -> None:
        assert self._bar is not None
        assert self._task is not None
        while not self._end.wait(INTERVAL):
            try:
                stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
            except Exception:  # the session ended between two checks
                return
            stages = [stage for stage in stages if stage is not None]
            if stages and not self._counted:
                done, total = (
                    sum(getattr(each, name) for each in stages) for name in ("numCompletedTasks", "numTasks")
                )
                self._bar.update(self._task, completed=done, total=total)


@contextmanager
def shown_progress() -> Iterator[JobProgress]:
    """Show a bar while the block runs, on a terminal."""
    if not sys.stderr.isatty():
        yield JobProgress(None)
        return
    try:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
    except ImportError:
        yield JobProgress(None)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        progress = JobProgress(bar)
        try:
            yield progress
        finally:
            progress.end()
