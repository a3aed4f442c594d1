"""The file system below a lake, any that Hadoop supports: list, read, delete, publish a file atomically."""

from __future__ import annotations

import os
import re
import secrets
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from django_dbqueue.exceptions import InvalidPipeline

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import SparkSession

_GLOB: Final = frozenset("*?[]{}\\")
_DELETED_AT_ONCE: Final = 16
"""Folders, of which a lake has thousands; a file system that isn't this machine's takes a while to answer for each."""


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
        # Py4J asks the JVM about each name on the way to a class
        self._jvm, hadoop = jvm, jvm.org.apache.hadoop.fs
        self._new_path, self._paths_of = hadoop.Path, hadoop.FileUtil.stat2Paths
        self._text_of, self._shown = jvm.org.apache.commons.io.IOUtils.toString, jvm.scala.runtime.ScalaRunTime.stringOf
        path = self._new_path(root)
        self._fs = path.getFileSystem(spark._jsc.hadoopConfiguration())
        self.root: str = self._fs.makeQualified(path).toString().rstrip("/")
        self._local = Path(path.toUri().getPath()).absolute() if self.root.startswith("file:") else None

    def _path(self, relative: str = "") -> Any:
        return self._new_path(self.root + ("/" + relative if relative else "/"))

    @property
    def place(self) -> str:
        """The root for libraries that know nothing of Hadoop: a local path, or the URL."""
        return self.root if self._local is None else str(self._local)

    def url(self, relative: str) -> str:
        """Return the full path, as Spark reads it."""
        return f"{self.root}/{relative}"

    def names(self, folder: str, prefix: str = "", suffix: str = "") -> list[str]:
        """List the names in a folder that begin and end so; nothing if the folder doesn't exist."""
        if not self._fs.exists(self._path(folder)):
            return []
        names = (path.rpartition("/")[2] for path in self._listed(self._fs.listStatus(self._path(folder))))
        return sorted(name for name in names if name.startswith(prefix) and name.endswith(suffix))

    def tree(self, folder: str = "", suffix: str = "") -> list[str]:
        """List the files in and below a folder that end so, by their paths below the root."""
        if self._local is not None:
            # Hadoop starts a process for each file of a local disk, to ask for its permissions
            walk = os.walk(self._local / folder, followlinks=True)
            paths = [Path(place, name).relative_to(self._local) for place, _, names in walk for name in names]
            return sorted(str(path) for path in paths if path.name.endswith(suffix))
        if not self._fs.exists(self._path(folder)):
            return []
        walk = self._jvm.org.apache.hadoop.util.functional.RemoteIterators.toList(
            self._fs.listFiles(self._path(folder), True)
        )
        # Py4J finds no method of Java's that makes an array of a list
        status = self._jvm.java.lang.Class.forName("org.apache.hadoop.fs.FileStatus")
        found = self._jvm.scala.jdk.javaapi.CollectionConverters.asScala(walk).toArray(
            self._jvm.scala.reflect.ClassTag.apply(status)
        )
        root = f"{self._path().toUri().getPath().rstrip('/')}/"
        return sorted(path.partition(root)[2] for path in self._listed(found) if path.endswith(suffix))

    def _listed(self, statuses: Any) -> list[str]:
        """Return the paths of files, by one call, however many there are: each call to the JVM takes its time."""
        # Py4J finds none of the methods that join an array of paths
        text = str(self._shown(self._paths_of(statuses))).removeprefix("Array(").removesuffix(")")
        scheme = self.root.partition(":")[0]
        return re.split(f", (?={re.escape(scheme)}:)", text) if text else []

    def move(self, folder: str, place: str) -> None:
        """Rename a folder to a place that doesn't exist; OSError if the file system refuses."""
        self._fs.mkdirs(self._path(place.rpartition("/")[0]))
        if not self._fs.rename(self._path(folder), self._path(place)):
            raise OSError(f"{self.url(folder)} could not be renamed to {self.url(place)}")

    def length(self, relative: str) -> int | None:
        """Return a file's length, or None if it doesn't exist."""
        path = self._path(relative)
        return int(self._fs.getFileStatus(path).getLen()) if self._fs.exists(path) else None

    def read(self, relative: str) -> str:
        """Return a file's text."""
        stream = self._fs.open(self._path(relative))
        try:
            return str(self._text_of(stream, "UTF-8"))
        finally:
            stream.close()

    def delete(self, *relatives: str) -> None:
        """Delete files, and folders with all that is in them, in any order; those that don't exist are gone already."""
        with ThreadPoolExecutor(_DELETED_AT_ONCE) as pool:
            list(pool.map(self._delete, relatives))

    def _delete(self, relative: str) -> None:
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
