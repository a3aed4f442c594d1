"""Which rows are read: Spark's filters, pushed or not, and the options that say the same where they can't be."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
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
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from django_dbqueue.exceptions import InvalidPipeline
from django_dbqueue.models import ArchivedMessage, Message
from django_dbqueue.spark.reading import PushingReader, TableReader, reader_of
from django_dbqueue.spark.schemas import HISTORY, MESSAGES
from tests.factories import dead, done, held, let_pass, stuck, waiting

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.django_db(transaction=True)

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
PADS = settings.TEST_DATABASE in {"mariadb", "mysql"}
"""Whether the server takes 'a' and 'a ' for equal."""

ROWS: list[dict[str, Any]] = [
    {"id": 1, "queue": "q1", "key": "k", "created_at": NOON},
    {"id": 2, "queue": "Q1", "key": "K", "created_at": NOON + timedelta(microseconds=1)},
    {"id": 3, "queue": "q1", "key": "k ", "created_at": NOON + timedelta(hours=1), "priority": 5},
    {"id": 4, "queue": "q2", "key": None, "created_at": NOON + timedelta(days=1), "priority": -5},
    {"id": 5, "queue": "q2", "key": "ключ", "created_at": NOON - timedelta(days=1), "max_reads": 3},
    {"id": 6, "queue": "q3", "key": "é", "status": "y", "finished_at": NOON, "created_at": NOON},
]


def stored() -> None:
    for row in ROWS:
        Message.objects.create(body=f"body {row['id']}", **row)


def rows_of(credentials_file: str, filters: list[Any]) -> tuple[list[int], list[Any]]:
    """Read through a reader that was handed filters: the ids it gives, and the filters that Spark has to look at."""
    reader = PushingReader({"credentials_file": credentials_file}, MESSAGES.schema)
    left = list(reader.pushFilters(filters))
    return ids_of(reader), left


def ids_of(reader: TableReader) -> list[int]:
    return sorted(
        number for part in reader.partitions() for batch in reader.read(part) for number in batch.column(0).to_pylist()
    )


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


# -- the options ------------------------------------------------------------------------------------------------------


def asked_for(credentials_file: str, source: Any = MESSAGES, **options: str) -> list[int]:
    said = {"credentials_file": credentials_file, "source": source.name, **options}
    return ids_of(TableReader(said, source.schema))


def test_queues_are_chosen_by_their_exact_names(credentials_file: str) -> None:
    stored()
    assert asked_for(credentials_file, queue="q1") == [1, 3]
    assert asked_for(credentials_file, queue="Q1, q3") == [2, 6]
    assert asked_for(credentials_file, queue="nobody") == []


def test_messages_are_chosen_by_where_they_stand(credentials_file: str) -> None:
    of = {
        "delayed": waiting(delay=3600),
        "ready": waiting(queue="ready"),
        "running": held(queue="running"),
        "stuck": stuck(queue="stuck"),
        "done": done(queue="done"),
        "dead": dead(queue="dead"),
    }
    let_pass(of["stuck"], 1)
    ids = {word: message.pk for word, message in of.items()}
    for word, number in ids.items():
        assert asked_for(credentials_file, status=word) == [number], word
    assert asked_for(credentials_file, status="n") == sorted([ids["delayed"], ids["ready"], ids["dead"]])
    assert asked_for(credentials_file, status="RUN, y") == sorted([ids["running"], ids["stuck"], ids["done"]])
    assert asked_for(credentials_file, status="dead,done", queue="dead,done") == sorted([ids["done"], ids["dead"]])
    assert asked_for(credentials_file, status="ready", queue="dead") == []


def test_the_history_is_chosen_by_how_messages_ended_and_when(credentials_file: str) -> None:
    done(queue="a")
    done(queue="b")
    dead(queue="b")
    Message.objects.all().purge()
    third, (first, second) = ArchivedMessage.objects.get(outcome="dead"), ArchivedMessage.objects.filter(outcome="done")
    for hour, row in enumerate((first, second, third)):
        row.finished_at = NOON + timedelta(hours=hour, microseconds=1)
        row.save(update_fields=["finished_at"])
    assert asked_for(credentials_file, HISTORY, status="dead") == [third.pk]
    assert asked_for(credentials_file, HISTORY, status="done,dead", queue="b") == sorted([second.pk, third.pk])
    since, until = second.finished_at.isoformat(), third.finished_at.isoformat()
    assert asked_for(credentials_file, HISTORY, since=since, until=until) == [second.pk]
    assert asked_for(credentials_file, HISTORY, since=until) == [third.pk]
    assert asked_for(credentials_file, HISTORY, until=since) == [first.pk]


def test_since_and_until_speak_of_when_a_message_was_created(credentials_file: str) -> None:
    stored()
    assert asked_for(credentials_file, since="2026-03-01T13:00:00+01:00") == [1, 2, 3, 4, 6]
    assert asked_for(credentials_file, since="2026-03-01T12:00:00.000001Z") == [2, 3, 4]
    assert asked_for(credentials_file, until="2026-03-01T12:00:00.000001Z") == [1, 5, 6]


WRONG = {
    "an unknown option": ({"page_rows": "5"}, "no option 'page_rows' here. Did you mean 'pageRows'"),
    "an unknown source": ({"source": "mesages"}, "'source' is 'mesages'; it can be history, messages. Did you mean"),
    "an unknown standing": ({"status": "redy"}, "'status' is 'redy'; it can be .*Did you mean 'ready'"),
    "a standing of the history": ({"status": "dropped"}, "'status' is 'dropped'; it can be"),
    "a standing that history doesn't have": ({"source": "history", "status": "n"}, "it can be dead, done, dropped"),
    "a queue that can't be": ({"queue": "a b"}, "'queue' names 'a b'"),
    "a number of partitions": ({"numPartitions": "0"}, "'numPartitions' is '0'"),
    "a moment without its offset": ({"since": "2026-03-01"}, "'since' is '2026-03-01'; it must be a moment with"),
    "an end before its beginning": (
        {"since": "2026-03-02T00:00:00Z", "until": "2026-03-01T00:00:00Z"},
        "'since' .* is not before 'until'",
    ),
    "a password": ({"password": "secret"}, "The option 'password' would travel in plans and logs"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_option_is_named_before_anything_is_read(credentials_file: str, name: str) -> None:
    options, text = WRONG[name]
    schema = HISTORY.schema if options.get("source") == "history" else MESSAGES.schema
    with pytest.raises(InvalidPipeline, match=text):
        reader_of({"credentials_file": credentials_file, **options}, schema)


SCHEMAS = {
    "id bigint, quue string": "messages have no column 'quue'. Did you mean 'queue'",
    "message_id bigint": "messages have no column 'message_id'",
    "id int": "column 'id' of the messages is bigint, not int: say 'id bigint' in the schema",
    "created_at string": "column 'created_at' of the messages is timestamp, not string",
    "key string not null": "column 'key' of the messages can be NULL",
}


@pytest.mark.parametrize("schema", SCHEMAS)
def test_a_schema_that_asks_for_what_there_is_not_is_refused(credentials_file: str, schema: str) -> None:
    kinds = {"bigint": LongType(), "int": IntegerType(), "string": StringType()}
    fields = []
    for said in schema.split(", "):
        name, kind, *not_null = said.split(" ")
        fields.append(StructField(name, kinds[kind], not not_null))
    with pytest.raises(InvalidPipeline, match=SCHEMAS[schema]):
        reader_of({"credentials_file": credentials_file}, StructType(fields))


def test_a_schema_without_columns_is_refused(credentials_file: str) -> None:
    with pytest.raises(InvalidPipeline, match=r"The schema names no column\. There are id bigint, queue string"):
        reader_of({"credentials_file": credentials_file}, StructType([]))


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
    with pytest.raises(Exception, match="Say where the database's credentials are"):
        spark.read.format("dbqueue").load().collect()
    elsewhere = tmp_path / "elsewhere.json"
    vendor = connection.vendor
    elsewhere.write_text(f'{{"vendor": "{vendor}", "name": "/nowhere/at/all", "host": "127.0.0.1", "port": 1}}')
    with pytest.raises(Exception, match="/nowhere/at/all") as caught:
        spark.read.format("dbqueue").options(credentials_file=str(elsewhere)).load().collect()
    assert "InvalidPipeline" in str(caught.value)
