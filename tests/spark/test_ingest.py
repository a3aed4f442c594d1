"""The job ``ingest``: any source that Spark reads into a queue, by a mapping of its columns."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from django_dbqueue.exceptions import InvalidPipeline
from django_dbqueue.models import Message, PublishedJob
from django_dbqueue.spark.jobs import ingest
from django_dbqueue.spark.jobs.config import IngestConfig
from django_dbqueue.spark.publication import Published
from tests.factories import rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


pytestmark = [pytest.mark.spark, pytest.mark.once]

CSV = """flight,origin,delay,seen
DL1,JFK,30,2026-11-20
DL2,BOS,,2026-11-21
AA3,JFK,90,2026-11-21
"""


def run(spark: SparkSession, credentials_file: str, **fields: Any) -> Published:
    config = IngestConfig(credentials_file=credentials_file, **{"queue": "ingested", "job_id": "one"} | fields)
    return ingest.run(spark, config)


def payloads() -> list[Any]:
    return [message.payload for message in Message.objects.order_by("pk")]


@pytest.fixture
def csv(tmp_path: Path) -> dict[str, Any]:
    """A source of three flights."""
    (tmp_path / "flights.csv").write_text(CSV)
    return {"source": str(tmp_path / "flights.csv"), "option": (("header", "true"),)}


def test_without_a_mapping_each_row_is_a_payload(
    spark: SparkSession, credentials_file: str, csv: dict[str, Any]
) -> None:
    assert run(spark, credentials_file, **csv).created == 3
    assert payloads()[:2] == [
        {"flight": "DL1", "origin": "JFK", "delay": "30", "seen": "2026-11-20"},
        {"flight": "DL2", "origin": "BOS", "delay": None, "seen": "2026-11-21"},
    ]


def test_columns_are_mapped_by_expressions(spark: SparkSession, credentials_file: str, csv: dict[str, Any]) -> None:
    published = run(
        spark,
        credentials_file,
        **csv,
        schema="flight string, origin string, delay int, seen date",
        where="origin = 'JFK'",
        column=(
            ("payload", "struct(flight, seen)"),
            ("key", "lower(flight)"),
            ("delay", "delay"),
            ("priority", "if(delay > 60, -5, 5)"),
            ("headers", "map('from', origin)"),
        ),
    )
    assert published.created == 2
    one, other = rows()
    assert payloads() == [{"flight": "DL1", "seen": "2026-11-20"}, {"flight": "AA3", "seen": "2026-11-21"}]
    assert (one["key"], one["priority"], one["headers_text"]) == ("dl1", 5, '{"from":"JFK"}')
    assert other["due_at"] - other["created_at"] == timedelta(seconds=90)


def test_the_same_name_again_adds_nothing_and_reports_it(
    spark: SparkSession, credentials_file: str, csv: dict[str, Any]
) -> None:
    first, again = (run(spark, credentials_file, **csv) for _ in range(2))
    assert (first.again, again.again) == (False, True)
    assert (again.created, Message.objects.count()) == (3, 3)
    assert "nothing was added" in str(again)


@pytest.mark.parametrize("name", ["json", "parquet"])
def test_what_else_spark_reads_goes_in_too(
    spark: SparkSession, credentials_file: str, tmp_path: Path, name: str
) -> None:
    frame = spark.sql("select 1 as id, array('a', 'b') as tags, cast(2.50 as decimal(5, 2)) as price")
    frame.write.format(name).save(str(tmp_path / "source"))
    run(spark, credentials_file, source=str(tmp_path / "source"), format=name)
    assert payloads() == [{"id": 1, "tags": ["a", "b"], "price": "2.50" if name == "parquet" else 2.5}]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"column": (("kye", "flight"),)}, "no column 'kye'"),
        ({"column": (("key", "flight"), ("key", "origin"))}, "2 times"),
        ({"column": (("key", "nowhere"),)}, "nowhere"),
        ({"column": (("key", "((flight"),)}, "can't be read"),
        ({"where": "nowhere = 1"}, "nowhere"),
        ({"source": "missing.csv"}, "missing.csv"),
        ({"format": "nonsense"}, "nonsense"),
        ({"column": (("priority", "delay"),)}, "'priority' must be a whole number"),
    ],
)
def test_what_can_not_be_is_refused_and_nothing_is_enqueued(
    spark: SparkSession, credentials_file: str, csv: dict[str, Any], fields: dict[str, Any], words: str
) -> None:
    with pytest.raises(Exception, match=words) as refusal:
        run(spark, credentials_file, **csv | fields)
    if "priority" not in words:  # which the writer says, through Spark
        assert isinstance(refusal.value, InvalidPipeline)
    assert not Message.objects.exists()
    assert not PublishedJob.objects.exists()
