"""``df.write.format("dbqueue")``: what goes in, what is refused, and how often."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from django_dbqueue.models import Message, PublishedJob, StagedMessage
from tests.factories import MessageFactory, rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

QUEUE = "written"
MOMENT = datetime(2031, 2, 3, 4, 5, 6, 789012, tzinfo=UTC)


def write(df: DataFrame, credentials_file: str, mode: str = "append", **options: str) -> None:
    given = {"credentials_file": credentials_file, "queue": QUEUE} | options
    df.write.format("dbqueue").mode(mode).options(**given).save()


def payloads() -> list[Any]:
    return [message.payload for message in Message.objects.order_by("pk")]


@pytest.mark.parametrize("direct", ["false", "true"])
def test_rows_arrive_as_enqueue_would_have_stored_them(spark: SparkSession, credentials_file: str, direct: str) -> None:
    items = [
        {"payload": "grüße 😀\n", "key": "k1", "delay": 90.5, "priority": 7, "max_reads": 3, "lease": 12.5},
        {"payload": "", "headers": {"trace": "abc", "none": None}},
        {"payload": "a\0b", "at": MOMENT},
        {"payload": "late", "at": MOMENT - timedelta(days=20_000)},
        {"payload": None},
        {"payload": "x" * 70_000, "key": "ключ"},
    ]
    names = ("payload", "key", "delay", "at", "priority", "max_reads", "lease", "headers")
    schema = "payload string, key string, delay double, at timestamp, priority int, max_reads long, lease double, "
    values = [tuple(each.get(name) for name in names) for each in items]
    frame = spark.createDataFrame(values, schema + "headers map<string, string>")
    write(frame.coalesce(1), credentials_file, direct=direct)
    written = rows()
    for each in items:
        MessageFactory(queue=QUEUE + "2", **each)
    enqueued = rows()[len(written) :]

    assert len(written) == len(items)
    for one, other in zip(written, enqueued, strict=True):
        assert comparable(one) == comparable(other)
        for row in (one, other):
            assert row["available_at"] == row["due_at"]
        if one["due_at"].year == 2031:
            assert one["due_at"] == other["due_at"]
        else:
            delays = [row["due_at"] - row["created_at"] for row in (one, other)]
            assert delays[0] == pytest.approx(delays[1], abs=timedelta(milliseconds=2))


def comparable(row: dict[str, Any]) -> dict[str, Any]:
    """A row without what differs between any two messages."""
    own = {"id", "queue", "key_hash", "created_at", "available_at", "due_at"}
    return {name: value for name, value in row.items() if name not in own} | {"keyed": row["key_hash"] is not None}


@pytest.mark.parametrize(
    ("expression", "payload"),
    [
        ("'text'", "text"),
        ("cast('00ff' as binary)", b"00ff"),
        ("7", 7),
        ("true", True),
        ("0.5d", 0.5),
        ("cast('12.50' as decimal(9,2))", "12.50"),
        ("date '2026-11-21'", "2026-11-21"),
        ("timestamp '2026-11-21 04:00:00.25+01:00'", "2026-11-21T03:00:00.250000+00:00"),
        ("timestamp_ntz '2026-11-21 04:00:00'", "2026-11-21T04:00:00"),
        ("array(1, null)", [1, None]),
        ("map('a', 1.5bd)", {"a": "1.5"}),
        ("named_struct('when', date '2026-11-21', 'n', 1, 'in', named_struct('x', array(0.10bd)))",
         {"when": "2026-11-21", "n": 1, "in": {"x": ["0.10"]}}),
        ("cast(null as string)", None),
    ],
)  # fmt: skip
def test_every_type_of_payload_comes_out_as_it_went_in(
    spark: SparkSession, credentials_file: str, expression: str, payload: Any
) -> None:
    write(spark.sql(f"select {expression} as payload"), credentials_file)
    assert payloads() == [payload]


def test_json_text_and_bodies_are_read_as_their_values(spark: SparkSession, credentials_file: str) -> None:
    write(spark.sql("""select '{"b": [1, 2.50], "a": "é"}' as json"""), credentials_file)
    bodies = [("aGk=", "bytes"), ("plain", "text"), ('{"x": 1}', "json")]
    write(spark.createDataFrame(bodies, "body string, content_type string").coalesce(1), credentials_file)
    assert payloads() == [{"b": [1, 2.5], "a": "é"}, b"hi", "plain", {"x": 1}]
    assert rows()[0]["body"] == '{"b":[1,2.5],"a":"é"}'


def test_intervals_are_lengths_of_time_and_headers_may_be_json(spark: SparkSession, credentials_file: str) -> None:
    frame = spark.sql(
        "select 1 as payload, interval 90 minutes as delay, 30.5bd as lease, "
        "'{\"a\": [1]}' as headers, 'other' as queue"
    )
    write(frame, credentials_file)
    [row] = rows()
    assert row["due_at"] - row["created_at"] == timedelta(minutes=90)
    assert (row["lease_seconds"], row["headers_text"], row["queue"]) == (30.5, '{"a":[1]}', "other")


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("1 as number", "no column 'number'"),
        ("1 as payload, 'a' as kye", "did you mean 'key'"),
        ("'k' as key", "needs a payload"),
        ("1 as payload, '1' as json", "'payload' and 'json'"),
        ("'x' as body", "go together"),
        ("1 as payload, 5 as key", "'key' must be a string"),
        ("1 as payload, timestamp_ntz '2026-01-01 00:00:00' as at", "which has none"),
        ("map(1, 2) as payload", "keys in JSON are strings"),
        ("named_struct('a', cast('x' as binary)) as payload", "'payload.a' is binary"),
        ("interval 1 month as payload", "JSON can't represent"),
    ],
)
def test_a_frame_that_can_not_be_messages_is_refused_before_any_task_runs(
    spark: SparkSession, credentials_file: str, expression: str, words: str
) -> None:
    with pytest.raises(Exception, match=words):
        write(spark.sql(f"select {expression}"), credentials_file, job_id="refused")
    assert not Message.objects.exists()
    assert not PublishedJob.objects.exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"job-id": "x"}, "did you mean 'job_id'|Did you mean 'job_id'"),
        ({"queue": "not a queue"}, "not a queue name"),
        ({"job_id": "ä"}, "'job_id'"),
        ({"direct": "true", "job_id": "x"}, "leave out one"),
        ({"priority": "101"}, "'priority'"),
        ({"password": "secret"}, "would appear in plans"),
    ],
)
def test_options_that_make_no_sense_are_refused(
    spark: SparkSession, credentials_file: str, options: dict[str, str], words: str
) -> None:
    with pytest.raises(Exception, match=words):
        write(spark.sql("select 1 as payload"), credentials_file, **options)
    assert not Message.objects.exists()


def test_overwriting_a_queue_is_refused(spark: SparkSession, credentials_file: str) -> None:
    MessageFactory(queue=QUEUE)
    with pytest.raises(Exception, match="append"):
        write(spark.sql("select 1 as payload"), credentials_file, mode="overwrite")
    assert Message.objects.count() == 1


@pytest.mark.once
@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ("if(id = 1700, '[1, ', '[]') as json", "not JSON"),
        ("if(id = 1700, '[NaN]', '[]') as json", "NaN"),
        ("if(id = 1700, double('nan'), 1d) as payload", "NaN"),
        ("if(id = 1700, repeat('x', 200), 'x') as payload", "limit is 100"),
        ("'x' as payload, if(id = 1700, repeat('k', 201), string(id)) as key", "201 characters"),
        ("'x' as payload, if(id = 1700, 101, 1) as priority", "priority"),
        ("'x' as payload, if(id = 1700, 0d, null) as lease", "lease must be a number of seconds above 0"),
        ("'x' as payload, if(id = 1700, 1d, null) as delay, if(id = 1700, now(), null) as at", "not both"),
        ("'x' as payload, if(id = 1700, 'no queue', 'q') as queue", "not a queue name"),
        ("string(if(id = 1700, X'22FF22', X'2222')) as json", "column 'json' can't be read .*0xff"),
        ("'x' as payload, string(if(id = 1700, X'FF', X'41')) as key", "column 'key' can't be read .*0xff"),
        (
            "if(id = 1700, date '+12345-01-01', date '9999-12-31') as payload",
            "'payload' can't be read .*years 1 to 9999",
        ),
        ("if(id = 1700, 'a\\0b', 'body') as body, 'text' as content_type", "NUL"),
    ],
)
def test_a_bad_row_fails_the_job_and_is_named_and_nothing_is_visible(
    spark: SparkSession, credentials_file: str, bad: str, words: str
) -> None:
    frame = spark.range(0, 2000, 1, 2).selectExpr(*split(bad))
    with pytest.raises(Exception, match=f"(?s)Row 701 of partition 1.*{words}"):
        write(frame, credentials_file, job_id="bad", max_payload_bytes="100", batchSize="100")
    assert not Message.objects.exists()
    assert not StagedMessage.objects.exists()
    assert not PublishedJob.objects.exists()


def split(text: str) -> list[str]:
    """The expressions between a select's outermost commas."""
    parts, depth, start = [], 0, 0
    for place, letter in enumerate(text):
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if letter == "," and not depth:
            parts.append(text[start:place])
            start = place + 1
    return [*parts, text[start:]]
