"""How files get into a lake: written aside, listed, and moved to where they belong; what a killed run left is deleted.

``_writing/batch=N`` holds what attempt N has written, and a note of the folders it goes to, which is complete before
the first of them is moved. So what an attempt wrote is known without a look at the rest of the lake.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from django_dbqueue.spark.files import Files
from django_dbqueue.spark.manifest import LakeFile

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

WRITING: Final = "_writing"
_BATCH: Final = "batch="
_NOTE: Final = "_folders.json"


@dataclass(frozen=True, slots=True)
class LakeAttempt:
    """What an attempt has left in ``_writing``: its number, and where its folders have gone, or were to go.

    ``sequence`` is the number of the snapshot that it was made for; 0 if it was made for a batch.
    """

    number: int
    sequence: int = 0
    folders: tuple[str, ...] = ()


def write(files: Files, frame: DataFrame, number: int, *, sequence: int = 0) -> tuple[LakeFile, ...]:
    """Write a frame as the files of an attempt, and flush them; return them by path."""
    aside = _place(number)
    frame.write.option("compression", "zstd").partitionBy("queue", "day").parquet(files.url(aside))
    written = (path.removeprefix(f"{aside}/") for path in files.tree(aside, ".parquet"))
    targets = {path: _target(path, number) for path in written}
    folders = {path.rpartition("/")[0]: target.rpartition("/")[0] for path, target in targets.items()}
    files.publish(f"{aside}/{_NOTE}", json.dumps({"sequence": sequence, "folders": sorted(folders.values())}))
    for folder, target in folders.items():
        files.move(f"{aside}/{folder}", target)
    files.sync(targets.values())
    return tuple(LakeFile(target, files.length(target) or 0) for target in targets.values())


def _place(number: int) -> str:
    return f"{WRITING}/{_BATCH}{number}"


def _target(path: str, number: int) -> str:
    folder, _, name = path.rpartition("/")
    return f"{folder}/{_BATCH}{number}/{name}"


def attempts(files: Files) -> Iterator[LakeAttempt]:
    """Yield what attempts have left, each as its note says it."""
    for name in files.names(WRITING, prefix=_BATCH):
        number = int(name.removeprefix(_BATCH))
        note = f"{_place(number)}/{_NOTE}"
        content: Mapping[str, Any] = json.loads(files.read(note)) if files.length(note) is not None else {}
        yield LakeAttempt(number, content.get("sequence", 0), tuple(content.get("folders", ())))


def forget(files: Files, attempt: LakeAttempt, *, published: bool) -> None:
    """Delete an attempt's note, and its files if no manifest names them or ever will."""
    files.delete(*(() if published else attempt.folders))
    files.delete(_place(attempt.number))
