"""Which files hold which archive ids of a lake: the manifest of a batch, and the snapshot that replaces many of them.

A manifest is what makes files part of the lake: a file that no manifest names is a leftover of a killed run. A batch's
is named after its first id, so of two runs that export the same ids only one can publish. A snapshot names the files of
*all* ids up to its last one. Snapshots are numbered, and the highest number counts: one rename replaces every manifest
and snapshot before it, and of two runs that work on the same state only one can publish.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime, time
from functools import reduce
from operator import xor
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from django_dbqueue.exceptions import LakeDamaged

if TYPE_CHECKING:
    from collections.abc import Iterable

FORMAT: Final = 2
"""Format 1 had neither snapshots nor a file's facts."""
FOLDER: Final = "_manifests"
SNAPSHOT: Final = "snapshot-"


@dataclass(frozen=True, slots=True)
class Facts:
    """What a file holds, as it was read back: ``checksum`` is the XOR of its rows' hashes, moments are ISO 8601 (UTC).

    Ids and moments are the lowest and the highest of its rows.
    """

    rows: int
    checksum: str
    first_id: int
    last_id: int
    first_finished_at: str
    last_finished_at: str


@dataclass(frozen=True, slots=True)
class LakeFile:
    """A Parquet file: its path below the lake's root, its length, and its facts, which format 1 does not have."""

    path: str
    bytes: int
    facts: Facts | None = None

    @property
    def folder(self) -> str:
        """The folder it is in."""
        return self.path.rpartition("/")[0]

    @property
    def queue(self) -> str:
        """The queue of all its rows."""
        return unquote(self._part(0))

    @property
    def day(self) -> date:
        """The day (UTC) on which all its messages were finished."""
        return date.fromisoformat(self._part(1))

    @property
    def batch(self) -> int:
        """The attempt that wrote it."""
        return int(self._part(2))

    @property
    def first_moment(self) -> datetime:
        """When the first of its messages was finished; without facts, the beginning of their day."""
        if self.facts is None:
            return datetime.combine(self.day, time.min, UTC)
        return datetime.fromisoformat(self.facts.first_finished_at)

    @property
    def last_moment(self) -> datetime:
        """When the last of its messages was finished; without facts, the end of their day."""
        if self.facts is None:
            return datetime.combine(self.day, time.max, UTC)
        return datetime.fromisoformat(self.facts.last_finished_at)

    def _part(self, place: int) -> str:
        return self.path.split("/")[place].partition("=")[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """Every archived row from ``first_id`` to ``last_id``, both included, ``rows`` of them.

    ``checksum`` is the XOR of the rows' xxhash64, as 16 hexadecimal digits; ``columns`` are names and Spark's types
    in the order in which the rows were hashed. ``lake`` is the lake's name, ``written_at`` the database's clock (UTC).
    ``batch`` is the number in the names of the folders that were written for it; ``sequence`` is a snapshot's number,
    and 0 in the manifest of a batch.
    """

    lake: str
    batch: int
    first_id: int
    last_id: int
    rows: int
    checksum: str
    columns: tuple[tuple[str, str], ...]
    files: tuple[LakeFile, ...]
    written_at: str
    sequence: int = 0

    @property
    def name(self) -> str:
        """The name of its file."""
        return snapshot_name(self.sequence) if self.sequence else name_of(self.first_id)

    def having(self, first_id: int, last_id: int) -> tuple[LakeFile, ...]:
        """Return the files that may have rows of these ids; those without facts may have any."""
        return tuple(
            each
            for each in self.files
            if each.facts is None or (each.facts.first_id <= last_id and each.facts.last_id >= first_id)
        )

    def to_json(self) -> str:
        """Return the text of its file, which ends with a seal over the rest."""
        document = {"format": FORMAT, **asdict(self)}
        return json.dumps({**document, "seal": _seal(document)}, indent=1) + "\n"

    @classmethod
    def parse(cls, text: str, *, where: str) -> Manifest:
        """Read what ``to_json`` has written; LakeDamaged if it is anything else."""
        try:
            document: dict[str, Any] = json.loads(text)
            seal, written_as = document.pop("seal"), document.get("format")
        except (ValueError, KeyError, TypeError, AttributeError):
            raise LakeDamaged(f"The manifest {where} is not a manifest, or only part of one. {_ADVICE}") from None
        if not isinstance(written_as, int) or written_as > FORMAT:
            raise LakeDamaged(
                f"The manifest {where} has the format {written_as!r}; this version of django_dbqueue reads formats up "
                f"to {FORMAT}. Update it here."
            )
        if seal != _seal(document):
            raise LakeDamaged(f"The manifest {where} was changed after it had been written. {_ADVICE}")
        del document["format"]
        files = tuple(_file(**each) for each in document.pop("files"))
        columns = tuple((name, kind) for name, kind in document.pop("columns"))
        return cls(**document, files=files, columns=columns)


def _file(path: str, bytes: int, facts: dict[str, Any] | None = None) -> LakeFile:  # noqa: A002 - the name in JSON
    return LakeFile(path, bytes, Facts(**facts) if facts is not None else None)


def total(files: Iterable[LakeFile]) -> tuple[int, str]:
    """Return how many rows files with facts hold, and their checksum."""
    facts = [each.facts for each in files if each.facts is not None]
    checksum = reduce(xor, (int(each.checksum, 16) for each in facts), 0)
    return sum(each.rows for each in facts), f"{checksum:016x}"


_ADVICE: Final = "Restore it from a backup of the lake; docs/spark/lake.md describes its content."


def name_of(first_id: int) -> str:
    """Return the name of the manifest of the batch that starts at this id; names sort like ids."""
    return f"{first_id:019d}.json"


def snapshot_name(sequence: int) -> str:
    """Return the name of the snapshot with this number; names sort like numbers."""
    return f"{SNAPSHOT}{sequence:010d}.json"


def _seal(document: dict[str, object]) -> str:
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()
