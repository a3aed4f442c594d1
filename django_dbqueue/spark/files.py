"""The file system below a lake, any that Hadoop supports: list, read, delete, publish a file atomically."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from django_dbqueue.exceptions import InvalidPipeline

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import SparkSession

_GLOB: Final = frozenset("*?[]{}\\")


class Files:
    """A directory, and relative paths below it. Driver only: it uses the session's JVM."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        if not root or _GLOB & set(root):
            raise InvalidPipeline(
                f"The lake's root {root!r} must be a path or a URL without the characters * ? [ ] {{ }} \\."
            )
        jvm: Any = getattr(spark, "_jvm", None)
        if jvm is None:
            raise InvalidPipeline(
                "A lake is listed through the driver's JVM, which a session of Spark Connect doesn't have. Run the "
                "job where the driver is, by spark-submit or manage.py queue_pipeline."
            )
        self._jvm = jvm
        path = jvm.org.apache.hadoop.fs.Path(root)
        self._fs = path.getFileSystem(spark._jsc.hadoopConfiguration())
        self.root: str = self._fs.makeQualified(path).toString().rstrip("/")
        self._local = Path(path.toUri().getPath()).absolute() if self.root.startswith("file:") else None

    def _path(self, relative: str = "") -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self.root + ("/" + relative if relative else "/"))

    def url(self, relative: str) -> str:
        """Return the full path, as Spark reads it."""
        return f"{self.root}/{relative}"

    def names(self, folder: str = "") -> list[str]:
        """List the names in a folder; nothing if the folder doesn't exist."""
        if not self._fs.exists(self._path(folder)):
            return []
        return sorted(each.getPath().getName() for each in self._fs.listStatus(self._path(folder)))

    def find(self, pattern: str) -> dict[str, int]:
        """Return the files below the root that match a pattern, and their lengths."""
        found = self._fs.globStatus(self._path(pattern)) or []
        start = len(self._path().toUri().getPath().rstrip("/")) + 1
        return {each.getPath().toUri().getPath()[start:]: each.getLen() for each in found if each.isFile()}

    def folders(self, pattern: str) -> list[str]:
        """Return the folders below the root that match a pattern."""
        found = self._fs.globStatus(self._path(pattern)) or []
        start = len(self._path().toUri().getPath().rstrip("/")) + 1
        return [each.getPath().toUri().getPath()[start:] for each in found if each.isDirectory()]

    def length(self, relative: str) -> int | None:
        """Return a file's length, or None if it doesn't exist."""
        path = self._path(relative)
        return int(self._fs.getFileStatus(path).getLen()) if self._fs.exists(path) else None

    def read(self, relative: str) -> str:
        """Return a file's text."""
        stream = self._fs.open(self._path(relative))
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def delete(self, relative: str) -> None:
        """Delete a file, or a folder with all that is in it."""
        self._fs.delete(self._path(relative), True)

    def publish(self, relative: str, text: str) -> bool:
        """Make a file appear with its whole text; False, with nothing changed, if there is one already."""
        folder, _, name = relative.rpartition("/")
        self._fs.mkdirs(self._path(folder))
        draft = f"{folder}/.{name}.{secrets.token_hex(4)}.tmp".lstrip("/")
        if self._local is not None:
            return self._publish_here(self._local / draft, self._local / relative, text)
        stream = self._fs.create(self._path(draft), False)
        try:
            stream.write(text.encode())
            stream.hsync()
        finally:
            stream.close()
        if not self._fs.exists(self._path(relative)) and self._fs.rename(self._path(draft), self._path(relative)):
            return True
        self.delete(draft)
        return False

    def sync(self, names: Iterable[str]) -> None:
        """Flush these files and their folders to the disk, if the disk is this machine's."""
        if self._local is None:
            return
        files = [self._local / name for name in names]
        folders = {folder for file in files for folder in file.parents if folder.is_relative_to(self._local)}
        for path in (*files, *sorted(folders, reverse=True)):
            _sync(path)

    @staticmethod
    def _publish_here(draft: Path, file: Path, text: str) -> bool:
        # Hadoop's local rename overwrites, and its streams aren't flushed to the disk; a hard link avoids both
        try:
            draft.write_text(text, encoding="utf-8")
            _sync(draft)
            try:
                os.link(draft, file)
            except FileExistsError:
                return False
            _sync(file.parent)
            return True
        finally:
            draft.unlink(missing_ok=True)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
