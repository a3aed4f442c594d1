"""Which rows are read: Spark's filters, which Spark alone evaluates, and what a user is told of a wrong read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connection

from tests.spark.table_readers import stored

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.django_db(transaction=True)]

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


@pytest.fixture(params=["true", "false"])
def spark_that_pushes(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[SparkSession]:
    """A session that would push filters, and one that wouldn't."""
    spark.conf.set(PUSHDOWN, request.param)
    yield spark
    spark.conf.unset(PUSHDOWN)


IN_SPARK = {
    "queue = 'q1'": [1, 3],
    "queue = 'q1' AND key = 'k'": [1],
    "queue = 'q1 '": [],
    "queue IN ('q2', 'Q1')": [2, 4, 5],
    "key IS NULL": [4],
    "key <> 'k'": [2, 3, 5, 6],
    "key LIKE 'k%'": [1, 3],
    "key <=> NULL": [4],
    "id > 2 OR queue = 'Q1'": [2, 3, 4, 5, 6],
    "(id = 1 OR id = 4) AND status = 'n'": [1, 4],
    "status > 'n'": [6],
    "status = 'y' OR priority < 0": [4, 6],
    "id + 0 < 3 AND NOT (priority = 5)": [1, 2],
    "created_at >= timestamp'2026-03-01 12:00:00.000001'": [2, 3, 4],
}


def test_a_filter_means_the_same_in_every_session(spark_that_pushes: SparkSession, credentials_file: str) -> None:
    stored()
    read = spark_that_pushes.read.format("dbqueue").options(credentials_file=credentials_file, pageRows=2)
    read = read.schema("id bigint, queue string, key string, status string, priority smallint, created_at timestamp")
    assert {condition: ids_in(read.load().where(condition)) for condition in IN_SPARK} == IN_SPARK


def test_a_frame_may_be_used_in_several_ways(spark_that_pushes: SparkSession, credentials_file: str) -> None:
    stored()
    frame = spark_that_pushes.read.format("dbqueue").options(credentials_file=credentials_file).load()
    assert ids_in(frame.where("id <= 2")) == [1, 2]
    assert frame.count() == 6
    assert ids_in(frame.where("id = 1").union(frame.where("id = 6"))) == [1, 6]
    assert frame.where("id = 1").select("queue").join(frame.select("queue"), "queue").count() == 2


def ids_in(frame: DataFrame) -> list[int]:
    return sorted(row.id for row in frame.select("id").collect())


def test_a_limit_takes_some_rows_and_leaves_no_session_behind(spark: SparkSession, credentials_file: str) -> None:
    stored()
    frame = spark.read.format("dbqueue").options(credentials_file=credentials_file, pageRows=1).load()
    assert len(frame.limit(2).collect()) == 2
    assert frame.where("queue = 'q1'").limit(5).count() == 2
    assert frame.orderBy(frame.id.desc()).first()["id"] == 6


def test_a_wrong_option_and_wrong_credentials_are_reported_to_the_user(
    spark: SparkSession, credentials_file: str, tmp_path: Any
) -> None:
    with pytest.raises(Exception, match=r"no option 'quue' here\. Did you mean 'queue'"):
        spark.read.format("dbqueue").options(credentials_file=credentials_file, quue="q").load().collect()
    with pytest.raises(Exception, match="The database's credentials are missing"):
        spark.read.format("dbqueue").load().collect()
    elsewhere = tmp_path / "elsewhere.json"
    vendor = connection.vendor
    server = {} if vendor == "sqlite" else {"host": "127.0.0.1", "port": 1}
    elsewhere.write_text(json.dumps({"vendor": vendor, "name": "/nowhere/at/all", **server}))
    with pytest.raises(Exception, match="/nowhere/at/all") as caught:
        spark.read.format("dbqueue").options(credentials_file=str(elsewhere), outage=0).load().collect()
    assert ("InvalidPipeline" if vendor == "sqlite" else "DatabaseAway") in str(caught.value)
