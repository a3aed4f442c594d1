"""Lakes made without Spark or a database, as large as a test or a measurement wants them, and quickly."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow
import pyarrow.parquet

from django_dbqueue.spark.lake import COLUMNS
from django_dbqueue.spark.manifest import FOLDER, Facts, LakeFile, Manifest, total

KINDS = {
    "bigint": pyarrow.int64(),
    "int": pyarrow.int32(),
    "smallint": pyarrow.int16(),
    "string": pyarrow.string(),
    "timestamp": pyarrow.timestamp("us", tz="UTC"),
}
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class MadeLake:
    """How many batches of how many queues, one after the other; each has a file of ``rows`` rows for each queue.

    Messages end ``step`` apart from ``begin`` on, so that a batch takes up ``queues * rows * step``. ``stated`` is how
    many rows its manifest says for each file, if that is to be more than there are. The checksums are wrong.
    """

    root: Path
    batches: int
    queues: int = 5
    rows: int = 20
    step: timedelta = timedelta(seconds=40)
    stated: int | None = None
    begin: datetime = BEGIN

    def make(self, *, first: int = 0) -> MadeLake:
        """Write the files and manifests of the batches from the first on."""
        (self.root / FOLDER).mkdir(parents=True, exist_ok=True)
        (self.root / "_lake.json").write_text(json.dumps({"format": 1, "lake": "lake:made:00000000"}))
        for batch in range(first, self.batches):
            self._write(batch)
        return self

    def moment(self, batch: int) -> datetime:
        """When the first message of a batch ended."""
        return self.begin + batch * self.queues * self.rows * self.step

    def _write(self, batch: int) -> None:
        stated = self.stated or self.rows
        files = tuple(self._file(batch, queue, stated) for queue in range(self.queues))
        rows, checksum = total(files)
        span = self.queues * stated
        manifest = Manifest(
            lake="lake:made:00000000",
            batch=batch + 1,
            first_id=batch * span + 1,
            last_id=(batch + 1) * span,
            rows=rows,
            checksum=checksum,
            columns=COLUMNS,
            files=files,
            written_at=self.moment(batch + 1).isoformat(),
        )
        (self.root / FOLDER / manifest.name).write_text(manifest.to_json())

    def _file(self, batch: int, queue: int, stated: int) -> LakeFile:
        first = batch * self.queues * stated + queue * stated + 1
        begin = self.moment(batch) + queue * self.rows * self.step
        moments = [begin + row * self.step for row in range(self.rows)]
        folder = f"queue=q{queue}/day={begin.date()}/batch={batch + 1}"
        path = self.root / folder / "part-0.zstd.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        ids = list(range(first, first + self.rows))
        pyarrow.parquet.write_table(_table(ids, moments), path, compression="zstd")
        facts = Facts(
            stated, f"{first:016x}", first, first + stated - 1,
            *(each.isoformat(timespec="microseconds") for each in (moments[0], moments[-1])),
        )  # fmt: skip
        return LakeFile(f"{folder}/{path.name}", path.stat().st_size, facts)


def _table(ids: list[int], moments: list[datetime]) -> pyarrow.Table:
    constants = {"outcome": "done", "priority": 0, "read_count": 1, "crashes": 0, "body": "{}", "content_type": "json"}
    columns = {}
    for name, kind in COLUMNS:
        if name in ("queue", "day"):
            continue
        values = {"id": ids, "message_id": ids}.get(name)
        if values is None:
            values = moments if kind == "timestamp" else [constants.get(name)] * len(ids)
        columns[name] = pyarrow.array(values, KINDS[kind])
    return pyarrow.table(columns)
