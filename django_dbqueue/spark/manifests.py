"""The manifests of a lake: listed, resolved and read. What they cost grows with what is new since the last snapshot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django_dbqueue.exceptions import LakeDamaged
from django_dbqueue.spark.manifest import FOLDER, SNAPSHOT, Manifest, name_of

if TYPE_CHECKING:
    from django_dbqueue.spark.files import Files


@dataclass(frozen=True, slots=True)
class Listed:
    """A lake's newest snapshot, and the names of the manifests of the batches after it, by their ids."""

    snapshot: Manifest | None
    names: tuple[str, ...]

    @property
    def sequence(self) -> int:
        """The snapshot's number; 0 if there is none."""
        return 0 if self.snapshot is None else self.snapshot.sequence

    @property
    def folded_to(self) -> int:
        """The last id that the snapshot covers; 0 if there is none."""
        return 0 if self.snapshot is None else self.snapshot.last_id


def listed(files: Files) -> Listed:
    """List the manifests that count; LakeDamaged if the snapshot can't be what was written."""
    names = manifest_names(files)
    newest = next((name for name in reversed(names) if name.startswith(SNAPSHOT)), None)
    snapshot = None if newest is None else read_manifest(files, newest)
    start = "" if snapshot is None else name_of(snapshot.last_id)
    return Listed(snapshot, tuple(name for name in names if not name.startswith(SNAPSHOT) and name > start))


def manifests(files: Files) -> list[Manifest]:
    """Return the manifests that count, by id; LakeDamaged if one can't be what was written."""
    found = listed(files)
    batches = [read_manifest(files, name) for name in found.names]
    return batches if found.snapshot is None else [found.snapshot, *batches]


def manifest_names(files: Files) -> list[str]:
    """Return the names of all manifests, those of the batches by their ids, then the snapshots by their numbers."""
    return [name for name in files.names(FOLDER, suffix=".json") if not name.startswith(".")]


def read_manifest(files: Files, name: str) -> Manifest:
    """Read one; its name must match its content."""
    relative = f"{FOLDER}/{name}"
    try:
        text = files.read(relative)
    except Exception as error:
        raise LakeDamaged(f"The manifest {files.url(relative)} can't be read: {first_line(error)}") from error
    manifest = Manifest.parse(text, where=files.url(relative))
    if manifest.name != name:
        raise LakeDamaged(f"The manifest {files.url(relative)} should have the file name {manifest.name}: rename it.")
    return manifest


def first_line(error: BaseException) -> str:
    """Return the text of a Spark or Java error, without its stack trace."""
    java: Any = getattr(error, "java_exception", None)
    while java is not None and java.getCause() is not None:
        java = java.getCause()
    text = str(java.toString() if java is not None else error) or type(error).__name__
    return text.strip().splitlines()[0]
