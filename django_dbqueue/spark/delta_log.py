"""A Delta Lake log beside a lake's manifests, so that whatever reads Delta tables reads the same files.

It is derived: each commit is the difference between the files of its newest version and those that the manifests name,
made after a manifest was published. What a killed run has not committed, the next one does. A commit is refused if
another one came after the version that was read, so a run that was frozen and has lost its lock changes nothing.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from django_dbqueue.exceptions import DBQueueError, ExportStopped, InvalidPipeline, LakeDamaged
from django_dbqueue.spark.manifests import first_line

if TYPE_CHECKING:
    from datetime import datetime

    from deltalake import DeltaTable, Schema

    from django_dbqueue.spark.files import Files
    from django_dbqueue.spark.manifest import LakeFile

FOLDER: Final = "_delta_log"
PARTITIONS: Final = ("queue", "day", "batch")
_TYPES: Final = {"bigint": "long", "int": "integer", "smallint": "short"}
"""Delta's names of Spark's types, where they differ."""
_AGAIN: Final = f"The log is derived from the manifests: delete {FOLDER}, and export with --delta to make it again."


@dataclass(frozen=True, slots=True)
class _Logged:
    """A file of the log's newest version; ``rows`` is None if the log doesn't say how many it has."""

    path: str
    bytes: int
    rows: int | None
    partition: dict[str, str | None]


def has_log(files: Files) -> bool:
    """Return whether there is a Delta log at a lake's root, whosever it is."""
    return bool(files.names(FOLDER, suffix=".json"))


def require_deltalake(root: str) -> None:
    """Raise InvalidPipeline if the package that writes the log is missing."""
    try:
        import deltalake  # noqa: F401
    except ImportError as error:
        raise InvalidPipeline(
            f"The Delta log of {root} is written by the package deltalake, which is not installed ({error}): pip "
            "install 'django-dbqueue[delta]' where Spark's driver runs. Nothing was done."
        ) from error


class DeltaLog:
    """The log of one lake. Its methods are called under the exporters' lock."""

    def __init__(self, files: Files, lake: str) -> None:
        """Open the log, or make one without files; an error says why that can't be, and nothing was done then."""
        from deltalake import DeltaTable

        from django_dbqueue.spark.lake import COLUMNS  # which imports PySpark

        self._root = files.root
        schema = _schema(COLUMNS)
        with _opening(files):
            if not has_log(files):
                DeltaTable.create(files.place, schema, mode="error", partition_by=list(PARTITIONS), name=lake)
            self._table = DeltaTable(files.place)
            self._require_own(files, lake, schema)
            there = {each.name for each in self._table.schema().fields}
            if missing := [each for each in schema.fields if each.name not in there]:
                self._table.alter.add_columns(missing)

    def _require_own(self, files: Files, lake: str, schema: Schema) -> None:
        metadata = self._table.metadata()
        if metadata.name != lake:
            raise InvalidPipeline(
                f"{files.url(FOLDER)} is the log of another Delta table, {metadata.name!r}, and not that of the lake "
                f"{lake!r}. Nothing was done. Export to another root, or move the log away."
            )
        others = [each for each in self._table.schema().fields if each not in schema.fields]
        # What a higher version allows, such as rows that count as deleted, is not visible in the list of files
        if others or metadata.partition_columns != list(PARTITIONS) or self._table.protocol().min_reader_version > 1:
            raise LakeDamaged(
                f"Somebody changed the columns or the protocol of {files.url(FOLDER)}. Nothing was done. {_AGAIN}"
            )

    def match(self, named: Iterable[LakeFile]) -> None:
        """Make these files, and no others, those of the newest version, by one commit, or none if they are already."""
        there = {each.path: each for each in _logged(self._table)}
        lake = {each.path: each for each in named}
        added = [each for path, each in lake.items() if path not in there]
        gone = [each for path, each in there.items() if path not in lake]
        if added or gone:
            self.commit(added, gone)

    def commit(self, added: Sequence[LakeFile], gone: Sequence[_Logged] = ()) -> None:
        """Add files to the newest version, and take others out."""
        from deltalake.transaction import AddAction, CommitProperties, RemoveAction

        now = int(time.time() * 1_000)
        # A stream of a reader skips a commit that only puts the same rows into other files
        before = _sum([each.rows for each in gone])
        changed = before is None or before != _sum([None if each.facts is None else each.facts.rows for each in added])
        actions: list[Any] = [
            RemoveAction(each.path, changed, now, size=each.bytes, partition_values=each.partition) for each in gone
        ]
        actions += [
            AddAction(each.path, each.bytes, _partition(each), now, changed, json.dumps(_statistics(each)))
            for each in added
        ]
        try:
            self._table.create_write_transaction(
                actions,
                "append",
                self._table.schema(),
                list(PARTITIONS),
                commit_properties=CommitProperties(max_commit_retries=0),
            )
            self._table.update_incremental()
        except Exception as error:
            raise ExportStopped(
                f"The Delta log of {self._root} could not be written, or somebody else wrote to it in the meantime: "
                f"{first_line(error)}. The lake itself is whole, and nothing more was purged. Run the job again: it "
                "begins by making the log match the lake."
            ) from error


@contextmanager
def _opening(files: Files) -> Iterator[None]:
    try:
        yield
    except DBQueueError:
        raise
    except Exception as error:
        raise ExportStopped(
            f"The Delta log of {files.root} can't be opened by the package deltalake: {first_line(error)}. Nothing was "
            f"done. If it is damaged: {_AGAIN} If the lake is not on a local disk, see docs/spark/lake.md."
        ) from error


def _sum(rows: Sequence[int | None]) -> int | None:
    return None if None in rows else sum(each or 0 for each in rows)


def _schema(columns: Iterable[tuple[str, str]]) -> Schema:
    from deltalake import Field, Schema
    from deltalake.schema import PrimitiveType

    typed = (*columns, ("batch", "bigint"))
    return Schema([Field(name, PrimitiveType(_TYPES.get(kind, kind))) for name, kind in typed])


def _logged(table: DeltaTable) -> list[_Logged]:
    import pyarrow

    actions = pyarrow.table(table.get_add_actions(flatten=True))
    partition = [f"partition.{name}" for name in PARTITIONS]
    names = {"path", "size_bytes", "num_records", *partition} & set(actions.column_names)
    return [
        _Logged(
            unquote(row["path"]),
            row["size_bytes"],
            row.get("num_records"),
            {
                name: None if row.get(key) is None else str(row[key])
                for name, key in zip(PARTITIONS, partition, strict=True)
            },
        )
        for row in actions.select(sorted(names)).to_pylist()
    ]


def _partition(file: LakeFile) -> dict[str, str | None]:
    return {"queue": file.queue, "day": file.day.isoformat(), "batch": str(file.batch)}


def _statistics(file: LakeFile) -> dict[str, object]:
    """Return what readers choose files by. Nothing in it is a message's: it outlives an erasure."""
    if file.facts is None:
        return {}
    return {
        "numRecords": file.facts.rows,
        "minValues": {"id": file.facts.first_id, "finished_at": _moment(file.first_moment)},
        "maxValues": {"id": file.facts.last_id, "finished_at": _moment(file.last_moment)},
    }


def _moment(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
