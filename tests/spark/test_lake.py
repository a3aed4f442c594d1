"""Whoever reads Parquet reads the lake, by the lines that its page in the documentation shows."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from django_dbqueue.exceptions import InvalidPipeline, LakeDamaged
from django_dbqueue.spark import read_lake
from django_dbqueue.spark.files import Files
from tests.spark.archives import NOON, archive, archive_every_outcome, ids
from tests.spark.lakes import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.once, pytest.mark.django_db(transaction=True)]
PAGE = Path(__file__).parents[2] / "docs" / "spark" / "lake.md"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _plain(row: dict[str, Any]) -> tuple[Any, ...]:
    """A row of any of them, by its columns' names."""
    return tuple((name, _value(row[name])) for name in sorted(row))


def _value(value: Any) -> Any:
    if isinstance(value, datetime):
        return (value.astimezone(UTC) - EPOCH) // timedelta(microseconds=1)
    return value


def test_plain_spark_duckdb_pandas_and_readers_of_delta_read_the_same_rows(lake: Lake) -> None:
    archive_every_outcome()
    for queue in ("12", "012", "Q1", "q1", "a:b", "null"):
        archive(2, queue=queue, finished_at=NOON + timedelta(microseconds=1))
    lake.export(batch_rows=9, delta=True)
    (lake.root / "queue=Q1" / "day=2026-03-29" / "batch=1" / "of-a-killed-run.parquet").write_bytes(b"PAR1")
    _require_the_same_rows(lake)
    lake.compact()
    archive(1, queue="12")
    lake.export()
    _require_the_same_rows(lake, more=1)


def _require_the_same_rows(lake: Lake, *, more: int = 0) -> None:
    names: dict[str, Any] = {"spark": lake.spark, "root": str(lake.root)}
    for block in re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL):
        exec(block, names)

    read = {
        "read_lake": [row.asDict() for row in names["rows"].collect()],
        "plain Spark": [row.asDict() for row in names["plain"].collect()],
        "DuckDB": names["in_duckdb"],
        "pandas": _records(names["in_pandas"]),
        "pandas by Delta": _records(names["delta_in_pandas"]),
        "Polars by Delta": names["delta_in_polars"].to_dicts(),
    }
    expected = sorted(map(_plain, read.pop("read_lake")))
    assert len(expected) == 15 + more
    assert {dict(row)["queue"] for row in expected} >= {"12", "012", "Q1", "q1", "a:b", "null"}
    for how, rows in read.items():
        assert sorted(map(_plain, rows)) == expected, how


def _records(in_pandas: Any) -> list[dict[str, Any]]:
    objects = in_pandas.astype(object)
    records: list[dict[str, Any]] = objects.where(objects.notna(), None).to_dict("records")
    return records


def test_a_file_that_no_manifest_names_is_not_read(lake: Lake) -> None:
    there = archive(3)
    lake.export()
    lake.a_file.with_name("copy.parquet").write_bytes(lake.a_file.read_bytes())

    assert lake.ids == there


def test_a_manifest_under_another_name_is_refused(lake: Lake) -> None:
    archive(3)
    lake.export()
    [manifest] = lake.manifests
    file = lake.root / "_manifests" / manifest.name
    file.with_name("0000000000000000009.json").write_text(file.read_text())

    with pytest.raises(LakeDamaged, match="should have the file name 0000000000000000001"):
        read_lake(lake.spark, str(lake.root))


def test_a_lake_that_has_lost_its_name_is_refused(lake: Lake) -> None:
    there = archive(3)
    lake.export(keep=True)
    name = (lake.root / "_lake.json").read_text()
    for text in (None, "{", '{"lake": "x"}'):
        (lake.root / "_lake.json").unlink()
        if text is not None:
            (lake.root / "_lake.json").write_text(text)
        with pytest.raises(LakeDamaged, match=r"_lake\.json"):
            lake.export()
        (lake.root / "_lake.json").touch()
    (lake.root / "_lake.json").write_text(name)

    assert ids() == there
    assert lake.export().purged == 3


@pytest.mark.parametrize("root", ["", "/srv/*", "/srv/{a,b}", "/srv/a?"])
def test_a_root_that_is_a_pattern_is_refused(spark: SparkSession, root: str) -> None:
    with pytest.raises(InvalidPipeline, match="must be a path or a URL"):
        read_lake(spark, root)


def test_a_file_system_that_is_not_the_local_disk_is_listed_and_cleared_the_same_way(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Hadoop's view of this disk under another scheme: to the lake it is as far away as any."""
    spark._jsc.hadoopConfiguration().set("fs.viewfs.mounttable.lakes.link./lake", tmp_path.as_uri())
    paths = ["queue=a%3Ab/day=2026-01-01/batch=1/part, 1.parquet", "_writing/batch=2/x.parquet", "note.json"]
    for root in (str(tmp_path), "viewfs://lakes/lake"):
        files = Files(spark, root)
        assert [files.publish(path, "text") for path in paths * 2] == [True] * 3 + [False] * 3
        assert files.tree() == sorted(paths)
        assert files.tree("_writing", ".parquet") == [paths[1]]
        assert files.names("queue=a%3Ab/day=2026-01-01/batch=1", suffix=".parquet") == ["part, 1.parquet"]
        files.delete(*paths, "not there")
        assert files.tree() == files.tree("not there") == []
