"""Whoever reads Parquet reads the lake, by the lines that its page in the documentation shows."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from django_dbqueue.exceptions import InvalidPipeline, LakeDamaged
from django_dbqueue.spark import read_lake
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


def test_plain_spark_duckdb_and_pandas_read_the_same_rows(lake: Lake) -> None:
    archive_every_outcome()
    for queue in ("12", "012", "Q1", "q1", "a:b", "null"):
        archive(2, queue=queue, finished_at=NOON + timedelta(microseconds=1))
    lake.export(batch_rows=9)
    (lake.root / "queue=Q1" / "day=2026-03-29" / "batch=1" / "of-a-killed-run.parquet").write_bytes(b"PAR1")
    said: dict[str, Any] = {"spark": lake.spark, "root": str(lake.root)}

    for block in re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL):
        exec(block, said)

    in_pandas = said["in_pandas"].astype(object)
    in_pandas = in_pandas.where(in_pandas.notna(), None)
    read = {
        "read_lake": [row.asDict() for row in said["rows"].collect()],
        "plain Spark": [row.asDict() for row in said["plain"].collect()],
        "DuckDB": said["in_duckdb"],
        "pandas": in_pandas.to_dict("records"),
    }
    expected = sorted(map(_plain, read.pop("read_lake")))
    assert len(expected) == 15
    assert {dict(row)["queue"] for row in expected} >= {"12", "012", "Q1", "q1", "a:b", "null"}
    for how, rows in read.items():
        assert sorted(map(_plain, rows)) == expected, how


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
