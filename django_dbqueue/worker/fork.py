"""How the supervisor forks a child: a failed fork leaves nothing behind, and the child knows its line to its parent.

Each end of the line becomes readable when the other process has ended, or has closed its end.
"""

from __future__ import annotations

import multiprocessing
import os
from contextlib import suppress
from multiprocessing import popen_fork, util
from multiprocessing.process import BaseProcess
from typing import Any, Final

from django_dbqueue.worker import last_words

CAN_FORK: Final = hasattr(os, "fork")
"""Whether workers can run here: Windows has no fork. All else can, so this module is imported there, too."""


class ChildProcess(BaseProcess):
    """A multiprocessing process with another fork; ``line`` has the descriptors it shares with its supervisor."""

    _start_method = "fork"  # so that what its handlers start by multiprocessing is forked, as it was itself
    line: tuple[int, ...] = ()

    @staticmethod
    def _Popen(process_obj: Any) -> Any:  # noqa: N802
        return _Fork(process_obj)


class _Fork(popen_fork.Popen):
    """A fork that cleans up if it fails; multiprocessing's own leaks four descriptors each time until none are left."""

    def _launch(self, process_obj: Any) -> None:
        ends: list[int] = []
        try:
            ends += os.pipe()
            ends += os.pipe()
            last_words.write_out()
            self.pid = os.fork()
        except OSError:
            close(ends)
            raise
        death_of_child, held_by_child, death_of_parent, held_by_parent = ends
        if self.pid == 0:
            code = 1
            try:
                close([death_of_child, held_by_parent])
                process_obj.line = (held_by_child, death_of_parent)
                code = process_obj._bootstrap(parent_sentinel=death_of_parent)
            finally:
                try:
                    last_words.flush()
                finally:
                    os._exit(code)
        close([held_by_child, death_of_parent])
        self.finalizer = util.Finalize(self, close, ([death_of_child, held_by_parent],))
        self.sentinel = death_of_child


def close(descriptors: list[int]) -> None:
    """Close them, even if some are closed already."""
    for descriptor in descriptors:
        with suppress(OSError):
            os.close(descriptor)


def current_line() -> tuple[int, ...]:
    """Return the descriptors that a child shares with its supervisor; nothing in any other process."""
    return getattr(multiprocessing.current_process(), "line", ())
