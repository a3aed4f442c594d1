"""A batch of a lake as its manifest describes it: which files, how many rows, which ids, and their checksum.

The manifest is what makes a batch part of the lake: a file that no manifest names is a leftover of a killed run. It is
named after its batch's first id, so of two runs that export the same ids only one can publish.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Any, Final

from django_dbqueue.exceptions import LakeDamaged

FORMAT: Final = 1
FOLDER: Final = "_manifests"


@dataclass(frozen=True, slots=True)
class LakeFile:
    """A Parquet file: its path below the lake's root, and its length."""

    path: str
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """A batch: every archived row from ``first_id`` to ``last_id``, both included, ``rows`` of them.

    ``checksum`` is the XOR of the rows' xxhash64, as 16 hexadecimal digits; ``columns`` are names and Spark's types
    in the order in which the rows were hashed. ``lake`` is the lake's name, ``written_at`` the database's clock (UTC).
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

    @property
    def name(self) -> str:
        """The name of its file."""
        return name_of(self.first_id)

    def to_json(self) -> str:
        """Return the text of its file, which ends with a seal over the rest."""
        said = {"format": FORMAT, **asdict(self)}
        return json.dumps({**said, "seal": _seal(said)}, indent=1) + "\n"

    @classmethod
    def parse(cls, text: str, *, where: str) -> Manifest:
        """Read what ``to_json`` has written; LakeDamaged if it is anything else."""
        try:
            said: dict[str, Any] = json.loads(text)
            seal, written_as = said.pop("seal"), said.get("format")
        except (ValueError, KeyError, TypeError, AttributeError):
            raise LakeDamaged(f"The manifest {where} is not a manifest, or only part of one. {_ADVICE}") from None
        if not isinstance(written_as, int) or written_as > FORMAT:
            raise LakeDamaged(
                f"The manifest {where} has the format {written_as!r}; this version of django_dbqueue reads formats up "
                f"to {FORMAT}. Update it here."
            )
        if seal != _seal(said):
            raise LakeDamaged(f"The manifest {where} was changed after it had been written. {_ADVICE}")
        del said["format"]
        files = tuple(LakeFile(**each) for each in said.pop("files"))
        columns = tuple((name, kind) for name, kind in said.pop("columns"))
        return cls(**said, files=files, columns=columns)


_ADVICE: Final = "Restore it from a backup of the lake; docs/spark/lake.md describes its content."


def name_of(first_id: int) -> str:
    """Return the name of the manifest of the batch that starts at this id; names sort like ids."""
    return f"{first_id:019d}.json"


def _seal(said: dict[str, object]) -> str:
    text = json.dumps(said, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()
