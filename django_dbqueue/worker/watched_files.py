"""What ``--reload`` watches: what was imported, the Python files of the project's apps, templates and translations.

Django's reloader says where templates and translations are. How it compares is for a server that imports everything
again by itself: it misses a file that is new, gone or replaced by an older one (``mv``), and takes a directory's time
for a save, which an editor changes when it opens a file there. So files are compared here.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from stat import S_ISREG
from typing import Final

from django.apps import apps
from django.utils import autoreload

_NOT_OF_THE_PROJECT: Final = {"site-packages", "dist-packages"}
_WITHOUT_SOURCES: Final = {"node_modules", "__pycache__"}


class WatchedFiles:
    """All that is watched, as of now: nothing that is imported later; and when each file was saved."""

    def __init__(self) -> None:
        self._folders = [
            path for app in apps.get_app_configs() if _NOT_OF_THE_PROJECT.isdisjoint((path := Path(app.path)).parts)
        ]
        self._reloader = autoreload.BaseReloader()
        autoreload.autoreload_started.send_robust(sender=self._reloader)
        self._imported = frozenset(autoreload.iter_all_python_module_files())  # once: later ones would look new
        self._saved_at = self._times()

    def saved(self) -> Path | None:
        """Return a file that was saved, created or removed since the last call; None: there is none."""
        before, self._saved_at = self._saved_at, self._times()
        return min((path for path, _ in before.items() ^ self._saved_at.items()), default=None)

    def _times(self) -> dict[Path, int]:
        found = {}
        for path in self._paths():
            with suppress(OSError):
                stat = path.stat()
                if S_ISREG(stat.st_mode):
                    found[path] = stat.st_mtime_ns
        return found

    def _paths(self) -> Iterator[Path]:
        yield from self._imported
        yield from self._reloader.extra_files
        for folder in self._folders:
            yield from python_files(folder)
        for folder, patterns in self._reloader.directory_globs.items():
            for pattern in patterns:
                with suppress(OSError):  # a folder went away meanwhile
                    yield from (path for path in folder.glob(pattern) if not _is_of_an_editor(path.name))


def python_files(folder: Path) -> Iterator[Path]:
    """Yield the Python files in a folder, but none of a virtualenv in it; a glob, which enters all, is slower."""
    for within, folders, files in os.walk(folder):
        if "pyvenv.cfg" in files:
            folders.clear()
            continue
        folders[:] = [name for name in folders if name not in _WITHOUT_SOURCES and not name.startswith(".")]
        yield from (Path(within, name) for name in files if name.endswith(".py") and not _is_of_an_editor(name))


def _is_of_an_editor(name: str) -> bool:
    """Return whether this is what editors write beside a file that is open: swap, lock and back-up files."""
    return name.startswith((".", "#")) or name.endswith("~")
