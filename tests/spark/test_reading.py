"""What stands in the tables is what Spark shows: every type, every NULL, every character, of both sources."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connection

from django_dbqueue.models import ArchivedMessage, Message
from django_dbqueue.spark.schemas import HISTORY, MESSAGES
from tests.factories import dead, done, held, waiting

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.django_db(transaction=True)]

STRANGE = {
    "four bytes": "🚚 → 𝒳",
    "newlines": 'one\ntwo\r\nthree,"four"\\',
    "tabs and backslashes": "a\tb\\N\\n\\\\",
    "what COPY says for NULL": "\\N",
    "the end of a COPY": "\\.",
    "quotes": "'\"`%s %% ?",
    "nothing": "",
    "the word NULL": "NULL",
}
MICROSECONDS = datetime(2026, 3, 29, 0, 59, 59, 999999, tzinfo=UTC)


def read(spark: SparkSession, credentials_file: str, schema: str | None = None, **options: Any) -> DataFrame:
    reader = spark.read.format("dbqueue").options(credentials_file=credentials_file, **options)
    return (reader.schema(schema) if schema else reader).load()


def as_django_has_it(model: Any, columns: list[str]) -> list[dict[str, Any]]:
    renamed = {"headers": "headers_text"}
    rows = model.objects.order_by("pk").values(*(renamed.get(name, name) for name in columns))
    return [{name: row[renamed.get(name, name)] for name in columns} for row in rows]


def as_spark_has_it(frame: DataFrame) -> list[dict[str, Any]]:
    moments = {name for name, kind in frame.dtypes if kind == "timestamp"}
    shown = frame.orderBy("id").selectExpr(
        *(f"unix_micros(`{name}`) AS `{name}`" if name in moments else f"`{name}`" for name in frame.columns)
    )
    return [
        {name: _moment(value) if name in moments else value for name, value in row.asDict().items()}
        for row in shown.collect()
    ]


def _moment(micros: int | None) -> datetime | None:
    if micros is None:
        return None
    whole, rest = divmod(micros, 1_000_000)
    return datetime.fromtimestamp(whole, UTC).replace(microsecond=rest)


def test_every_column_of_every_state_is_read_as_it_stands(spark: SparkSession, credentials_file: str) -> None:
    waiting(key="k", priority=-100, lease=0.25, max_reads=2_000_000_000, headers={"trace": "✓"})
    waiting(at=datetime(2038, 1, 19, 3, 14, 8, 1, tzinfo=UTC), queue="later")
    held(queue="held")
    done(queue="done")
    dead(queue="dead", reason="because\nof that")
    frame = read(spark, credentials_file)
    assert frame.columns == list(MESSAGES.columns)
    assert as_spark_has_it(frame) == as_django_has_it(Message, frame.columns)


def test_every_column_of_the_history_is_read_as_it_stands(spark: SparkSession, credentials_file: str) -> None:
    for number in range(3):
        done(payload={"number": number}, key=f"key {number}", headers={"n": number})
    dead(reason="unwanted")
    assert Message.objects.all().purge() == 4
    frame = read(spark, credentials_file, source="history")
    assert frame.columns == list(HISTORY.columns)
    rows = as_spark_has_it(frame)
    assert rows == as_django_has_it(ArchivedMessage, frame.columns)
    assert [row["outcome"] for row in rows].count("dead") == 1
    assert len(rows) == 4


def test_text_comes_out_as_it_went_in(spark: SparkSession, credentials_file: str) -> None:
    for text in STRANGE.values():
        Message.objects.create(queue="strange", body=text, content_type="text", key=text or None, error=text)
    Message.objects.create(queue="strange", body="text", content_type="text", key=None, error=None)
    rows = read(spark, credentials_file, "body string, key string, error string, id bigint").orderBy("id").collect()
    assert [row.body for row in rows] == [*STRANGE.values(), "text"]
    assert [row.error for row in rows] == [*STRANGE.values(), None]
    assert [row.key for row in rows] == [*(text or None for text in STRANGE.values()), None]


def test_a_column_alone_is_read_with_its_nulls(spark: SparkSession, credentials_file: str) -> None:
    for error in (None, "", "said", None):
        Message.objects.create(queue="alone", body="", error=error)
    frame = read(spark, credentials_file, "error string")
    assert frame.columns == ["error"]
    assert sorted(str(row.error) for row in frame.collect()) == ["", "None", "None", "said"]


def test_moments_are_the_same_instants_in_an_hour_that_a_zone_has_twice(
    spark: SparkSession, credentials_file: str
) -> None:
    twice = [datetime(2020, 10, 25, hour, 30, 0, 123456, tzinfo=UTC) for hour in (0, 1)]
    for moment in (*twice, MICROSECONDS):
        Message.objects.create(queue="clock", body="", created_at=moment)
    spark.conf.set("spark.sql.session.timeZone", "Europe/Madrid")
    try:
        frame = read(spark, credentials_file, "created_at timestamp, id bigint")
        assert [row["created_at"] for row in as_spark_has_it(frame)] == [*twice, MICROSECONDS]
        shown = [row[0] for row in frame.orderBy("id").selectExpr("date_format(created_at, 'HH:mm')").collect()]
        assert shown == ["02:30", "02:30", "01:59"]  # both are half past two in Madrid
        later = frame.where("created_at >= timestamp'2020-10-25 00:45:00 UTC'")
        assert [row["created_at"] for row in as_spark_has_it(later)] == [twice[1], MICROSECONDS]
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def test_an_empty_table_is_read_as_no_row(spark: SparkSession, credentials_file: str) -> None:
    assert read(spark, credentials_file).count() == 0
    assert read(spark, credentials_file, source="history").collect() == []


def test_one_row_with_the_highest_id_is_read(spark: SparkSession, credentials_file: str, ids_start_over: None) -> None:
    Message.objects.create(id=2**63 - 2, queue="high", body="")
    assert [row.id for row in read(spark, credentials_file, "id bigint").collect()] == [2**63 - 2]


def test_ids_with_gaps_are_each_read_once(spark: SparkSession, credentials_file: str, ids_start_over: None) -> None:
    ids = [*range(1, 400), *range(2**40, 2**40 + 700, 7), 2**62]
    Message.objects.bulk_create([Message(id=number, queue="gaps", body=str(number)) for number in ids])
    frame = read(spark, credentials_file, "id bigint, body string", numPartitions=4, pageRows=50, fetchRows=20)
    rows = frame.collect()
    assert sorted(row.id for row in rows) == ids
    assert all(row.body == str(row.id) for row in rows)
    assert frame.rdd.getNumPartitions() == (1 if connection.vendor == "sqlite" else 4)
