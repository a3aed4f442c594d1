"""Schemas of one column, whose values are NULL, empty or strange: every reader gives every row, on every database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from django.conf import settings
from pyspark.sql.types import StringType, StructField, StructType

from django_dbqueue.exceptions import DBQueueError
from django_dbqueue.models import Message
from django_dbqueue.spark.arrow import Pages
from django_dbqueue.spark.consuming import ClaimStreamReader
from django_dbqueue.spark.credentials import Credentials
from django_dbqueue.spark.following import HistoryStreamReader
from django_dbqueue.spark.schemas import HISTORY, MESSAGES, Source, arrow_schema
from django_dbqueue.spark.table_reader import TableReader
from tests.patience import patience
from tests.spark.archives import archive

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.django_db(transaction=True)
QUEUE = "tests"
TEXTS = [None, "", None, None, "\ufeffa mark", "two\nlines", "\n", "", '""', "\\.", "\\N", ",", " ", "NULL", None, ""]


def schema_of(source: Source, name: str) -> StructType:
    return StructType([StructField(name, source.columns[name])])


def stored() -> None:
    """Messages whose texts are each of TEXTS: NULL stands where a column can be NULL."""
    for place, text in enumerate(TEXTS):
        key = text and f"{text}{place}"
        Message.objects.create(
            queue=QUEUE, key=key, body=text or "", headers_text=text, error=text, content_type="text"
        )


def archived() -> None:
    for text in TEXTS:
        archive(1, key=text, headers_text=text, error=text)


def read(one: Any, parts: Any) -> list[dict[str, Any]]:
    return [row for part in parts for batch in one.read(part) for row in batch.to_pylist()]


def read_table(credentials_file: str, source: Source, schema: StructType) -> list[dict[str, Any]]:
    one = TableReader({"credentials_file": credentials_file, "source": source.name, "fetchRows": "3"}, schema)
    return read(one, one.partitions())


@pytest.mark.parametrize("source", [MESSAGES, HISTORY], ids=lambda source: source.name)
def test_the_batch_reader_gives_each_column_alone_as_it_gives_all_together(
    credentials_file: str, source: Source
) -> None:
    (archived if source is HISTORY else stored)()
    every = read_table(credentials_file, source, source.schema)
    assert len(every) == len(TEXTS)
    assert [row["error"] for row in every] == TEXTS
    for name in source.columns:
        alone = read_table(credentials_file, source, schema_of(source, name))
        assert alone == [{name: row[name]} for row in every], name


def test_the_history_stream_gives_each_column_alone(credentials_file: str) -> None:
    archived()
    every = read_table(credentials_file, HISTORY, HISTORY.schema)
    for name in HISTORY.columns:
        one = HistoryStreamReader(
            {"credentials_file": credentials_file, "source": "history", "reader": "r"}, schema_of(HISTORY, name)
        )
        try:
            begin = one.initialOffset()
            parts = one.partitions(begin, one.latestOffset(begin, one.getDefaultReadLimit()))
            assert read(one, parts) == [{name: row[name]} for row in every], name
        finally:
            one.stop()


@pytest.fixture
def consuming(credentials_file: str) -> Iterator[Callable[[StructType], ClaimStreamReader]]:
    """The reader of a consuming stream, whose run ends with the test."""
    begun: list[ClaimStreamReader] = []

    def consuming(schema: StructType) -> ClaimStreamReader:
        options = {"credentials_file": credentials_file, "queue": QUEUE, "stream": "s", "numPartitions": "2"}
        begun.append(ClaimStreamReader(options, schema))
        return begun[-1]

    yield consuming
    for each in begun:
        each.stop()


def test_a_consuming_stream_gives_each_column_alone(
    consuming: Callable[[StructType], ClaimStreamReader],
) -> None:
    stored()
    first = consuming(MESSAGES.schema)
    begin = first.initialOffset()
    parts = first.partitions(begin, first.latestOffset(begin, first.getDefaultReadLimit()))
    every = read(first, parts)
    assert [row["error"] for row in every] == TEXTS
    for name in MESSAGES.columns:
        alone = ClaimStreamReader(first.options, schema_of(MESSAGES, name))
        assert read(alone, parts) == [{name: row[name]} for row in every], name


def test_a_claim_that_is_read_in_part_fails_its_batch_and_acks_nothing(
    consuming: Callable[[StructType], ClaimStreamReader], monkeypatch: pytest.MonkeyPatch
) -> None:
    stored()
    one = consuming(schema_of(MESSAGES, "key"))
    begin = one.initialOffset()
    end = one.latestOffset(begin, one.getDefaultReadLimit())
    real = Pages.read
    monkeypatch.setattr(
        Pages, "read", lambda pages, statement: (batch.slice(1) for batch in real(pages, statement))
    )  # a defect such as pyarrow's empty lines were
    for part in one.partitions(begin, end):
        with pytest.raises(DBQueueError, match=r"Claim 1 of the stream 's' was not read in full: of 8 messages 7 "):
            list(one.read(part))
    assert set(Message.objects.values_list("status", flat=True)) == {"run"}


def test_a_claim_of_which_an_operator_moved_some_is_no_claim_read_in_part(
    consuming: Callable[[StructType], ClaimStreamReader],
) -> None:
    stored()
    one = consuming(schema_of(MESSAGES, "key"))
    begin = one.initialOffset()
    parts = one.partitions(begin, one.latestOffset(begin, one.getDefaultReadLimit()))
    moved = Message.objects.order_by("pk").first()
    assert moved is not None
    assert Message.objects.filter(pk=moved.pk).drop_all("unwanted") == 1
    assert len(read(one, parts)) == len(TEXTS) - 1


@pytest.mark.spark
@pytest.mark.once
def test_a_stream_with_a_schema_of_one_column_puts_every_row_into_the_sink(
    spark: SparkSession, credentials_file: str, tmp_path: Path
) -> None:
    keys = [None if number % 2 else f"k{number}" for number in range(1_000)]
    Message.objects.bulk_create([Message(queue=QUEUE, key=key, body="1") for key in keys])
    options = {"credentials_file": credentials_file, "queue": QUEUE, "stream": "s"}
    frame: DataFrame = spark.readStream.format("dbqueue").options(**options).schema("key string").load()
    writer = frame.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
    assert writer.trigger(availableNow=True).start(str(tmp_path / "out")).awaitTermination(patience(120))
    found = [row.key for row in spark.read.schema("key string").parquet(str(tmp_path / "out")).collect()]
    assert sorted(found, key=str) == sorted(keys, key=str)
    assert set(Message.objects.values_list("status", flat=True)) == {"y"}
    for source in ("messages", "history"):
        whole = spark.read.format("dbqueue").options(credentials_file=credentials_file, source=source)
        assert whole.schema("key string").load().count() == (1_000 if source == "messages" else 0)


if settings.TEST_DATABASE == "postgres":

    def test_lines_that_become_more_or_fewer_rows_are_refused(credentials_file: str) -> None:
        schema = arrow_schema(StructType([StructField("key", StringType())]))
        with Pages(Credentials.load({"credentials_file": credentials_file}), schema, fetch_rows=9, outage=0) as pages:
            assert pages._parsed([b"\n", b'""\n', b"a\n"]).column(0).to_pylist() == [None, "", "a"]
            with pytest.raises(DBQueueError, match=r"PostgreSQL sent 1 rows, and pyarrow .* made 2 of them"):
                pages._parsed([b"a\nb\n"])
