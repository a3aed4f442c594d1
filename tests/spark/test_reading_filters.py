"""Which rows are read: Spark's filters, pushed or not, and the options that say the same where they can't be."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from django.conf import settings
from django.db import connection
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    GreaterThan,
    In,
    IsNotNull,
    IsNull,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from django_dbqueue.spark.schemas import MESSAGES
from django_dbqueue.spark.table_reader import PushingReader, TableReader, reader_of
from tests.spark.table_readers import NOON, every, ids_of, stored

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.django_db(transaction=True)

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
PADS = settings.TEST_DATABASE in {"mariadb", "mysql"}
"""Whether the server takes 'a' and 'a ' for equal."""


def rows_of(credentials_file: str, filters: list[Any]) -> tuple[list[int], list[Any]]:
    """Read through a reader that was handed filters: the ids it gives, and the filters that Spark has to look at."""
    reader = PushingReader({"credentials_file": credentials_file}, MESSAGES.schema)
    left = list(reader.pushFilters(filters))
    return every(ids_of(reader)), left


# -- what the database is asked ---------------------------------------------------------------------------------------

EXACT = {
    "id equal": (EqualTo(("id",), 3), [3]),
    "id behind": (GreaterThan(("id",), 4), [5, 6]),
    "id up to": (LessThanOrEqual(("id",), 2), [1, 2]),
    "id in, with NULL": (In(("id",), (2, None, 5)), [2, 5]),
    "id not equal": (Not(EqualTo(("id",), 3)), [1, 2, 4, 5, 6]),
    "no key": (IsNull(("key",)), [4]),
    "a key": (IsNotNull(("key",)), [1, 2, 3, 5, 6]),
    "done": (EqualTo(("status",), "y"), [6]),
    "not done": (Not(EqualTo(("status",), "y")), [1, 2, 3, 4, 5]),
    "done or running": (In(("status",), ("y", "run")), [6]),
    "priority": (GreaterThan(("priority",), 0), [3]),
    "created up to the microsecond": (LessThanOrEqual(("created_at",), NOON), [1, 5, 6]),
    "created behind it": (GreaterThan(("created_at",), NOON), [2, 3, 4]),
    "a NULL is equal to no number": (EqualNullSafe(("max_reads",), 3), [5]),
}


@pytest.mark.parametrize("name", EXACT)
def test_what_means_the_same_in_sql_is_not_asked_of_spark_again(credentials_file: str, name: str) -> None:
    asked, expected = EXACT[name]
    stored()
    assert rows_of(credentials_file, [asked]) == (expected, [])


TEXTS = {
    "a queue in its case": (EqualTo(("queue",), "q1"), [1, 3], [1, 3]),
    "several queues": (In(("queue",), ("q2", "Q1")), [2, 4, 5], [2, 4, 5]),
    "a key in its case": (EqualTo(("key",), "k"), [1], [1, 3]),
    "a key with a blank behind it": (EqualTo(("key",), "k "), [3], [1, 3]),
    "a key of other letters": (EqualTo(("key",), "ключ"), [5], [5]),
    "a key without its accent": (EqualTo(("key",), "e"), [], []),
}


@pytest.mark.parametrize("name", TEXTS)
def test_texts_are_asked_of_spark_again_where_the_server_pads_them(credentials_file: str, name: str) -> None:
    asked, exactly, padded = TEXTS[name]
    stored()
    assert rows_of(credentials_file, [asked]) == ((padded, [asked]) if PADS else (exactly, []))


NOT_FOR_SQL = [
    StringStartsWith(("key",), "k"),
    GreaterThan(("status",), "n"),  # an enum is ordered by its index
    LessThanOrEqual(("queue",), "q1"),
    EqualTo(("status",), "2"),  # an enum has an index by that name
    EqualTo(("queue",), "ü"),
    EqualTo(("key",), "\0"),
    EqualTo(("created_at",), NOON.replace(tzinfo=None)),
    EqualTo(("lease_seconds",), 1.5),
    In(("id",), tuple(range(5_000))),
    In(("id",), (None,)),
    Not(In(("id",), (1, None))),
    Not(EqualNullSafe(("max_reads",), 3)),
    Not(StringStartsWith(("key",), "k")),
    EqualTo(("headers", "inner"), "x"),
]


@pytest.mark.parametrize("asked", NOT_FOR_SQL, ids=lambda asked: repr(asked)[:40])
def test_what_means_something_else_in_sql_is_left_to_spark(credentials_file: str, asked: Any) -> None:
    stored()
    assert rows_of(credentials_file, [asked]) == ([1, 2, 3, 4, 5, 6], [asked])


def test_a_text_is_never_excluded_by_a_server_that_pads(credentials_file: str) -> None:
    stored()
    asked = Not(EqualTo(("key",), "k"))
    assert rows_of(credentials_file, [asked]) == (([1, 2, 3, 4, 5, 6], [asked]) if PADS else ([2, 3, 5, 6], []))


def test_ids_out_of_all_bounds_read_nothing(credentials_file: str) -> None:
    stored()
    assert rows_of(credentials_file, [GreaterThan(("id",), 100)]) == ([], [])
    assert rows_of(credentials_file, [GreaterThan(("id",), 4), LessThanOrEqual(("id",), 4)]) == ([], [])


def test_a_reader_outside_of_the_planning_that_pushes_is_one_that_cannot(credentials_file: str) -> None:
    """Spark refuses a reader that could push where its session doesn't allow it."""
    for pushdown in ("true", "false"):
        said = {"credentials_file": credentials_file, "pushdown": pushdown}
        assert type(reader_of(said, MESSAGES.schema)) is TableReader


# -- in Spark ---------------------------------------------------------------------------------------------------------

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


@pytest.mark.spark
@pytest.mark.parametrize("allowed", ["true", "false"])
@pytest.mark.parametrize("pushdown", ["true", "false"])
def test_a_filter_means_the_same_pushed_or_not(
    spark: SparkSession, credentials_file: str, pushdown: str, allowed: str
) -> None:
    stored()
    said = spark.read.format("dbqueue").options(credentials_file=credentials_file, pageRows=2, pushdown=pushdown)
    said = said.schema("id bigint, queue string, key string, status string, priority smallint, created_at timestamp")
    spark.conf.set(PUSHDOWN, allowed)
    try:
        found = {asked: ids_in(said.load().where(asked)) for asked in IN_SPARK}
    finally:
        spark.conf.set(PUSHDOWN, "true")
    assert found == IN_SPARK


@pytest.mark.spark
def test_a_frame_may_be_used_in_several_ways(spark: SparkSession, credentials_file: str) -> None:
    stored()
    frame = spark.read.format("dbqueue").options(credentials_file=credentials_file).load()
    assert ids_in(frame.where("id <= 2")) == [1, 2]
    assert frame.count() == 6
    assert ids_in(frame.where("id = 1").union(frame.where("id = 6"))) == [1, 6]
    assert frame.where("id = 1").select("queue").join(frame.select("queue"), "queue").count() == 2


@pytest.mark.spark
def test_spark_answers_other_uses_of_a_frame_by_the_filters_that_one_of_them_pushed(
    spark: SparkSession, credentials_file: str
) -> None:
    """Pins why filters are not pushed unless that is asked for: when this fails, Spark has mended it."""
    stored()
    frame = spark.read.format("dbqueue").options(credentials_file=credentials_file, pushdown="true").load()
    assert frame.where("id <= 2").count() == 2
    assert frame.count() == 2, "there are 6"


def ids_in(frame: DataFrame) -> list[int]:
    return sorted(row.id for row in frame.select("id").collect())


@pytest.mark.spark
def test_a_limit_takes_some_rows_and_leaves_no_session_behind(spark: SparkSession, credentials_file: str) -> None:
    stored()
    frame = spark.read.format("dbqueue").options(credentials_file=credentials_file, pageRows=1).load()
    assert len(frame.limit(2).collect()) == 2
    assert frame.where("queue = 'q1'").limit(5).count() == 2
    assert frame.orderBy(frame.id.desc()).first()["id"] == 6


@pytest.mark.spark
def test_a_wrong_option_and_wrong_credentials_are_told_to_the_user(
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
