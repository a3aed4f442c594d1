"""Which rows are read: the options, and the schema."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from django_dbqueue.exceptions import InvalidPipeline
from django_dbqueue.models import ArchivedMessage, Message
from django_dbqueue.spark.schemas import HISTORY, MESSAGES
from django_dbqueue.spark.table_reader import TableReader
from tests.factories import dead, done, held, let_pass, stuck, waiting
from tests.spark.table_readers import NOON, every, ids_of, stored

pytestmark = pytest.mark.django_db(transaction=True)


def ids_read(credentials_file: str, source: Any = MESSAGES, **options: str) -> list[int]:
    given = {"credentials_file": credentials_file, "source": source.name, **options}
    return every(ids_of(TableReader(given, source.schema)))


def test_queues_are_chosen_by_their_exact_names(credentials_file: str) -> None:
    stored()
    assert ids_read(credentials_file, queue="q1") == [1, 3]
    assert ids_read(credentials_file, queue="Q1, q3") == [2, 6]
    assert ids_read(credentials_file, queue="nobody") == []


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
        assert ids_read(credentials_file, status=word) == [number], word
    assert ids_read(credentials_file, status="n") == sorted([ids["delayed"], ids["ready"], ids["dead"]])
    assert ids_read(credentials_file, status="RUN, y") == sorted([ids["running"], ids["stuck"], ids["done"]])
    assert ids_read(credentials_file, status="dead,done", queue="dead,done") == sorted([ids["done"], ids["dead"]])
    assert ids_read(credentials_file, status="ready", queue="dead") == []


def test_the_history_is_chosen_by_how_messages_ended_and_when(credentials_file: str) -> None:
    done(queue="a")
    done(queue="b")
    dead(queue="b")
    Message.objects.all().purge()
    third, (first, second) = ArchivedMessage.objects.get(outcome="dead"), ArchivedMessage.objects.filter(outcome="done")
    for hour, row in enumerate((first, second, third)):
        row.finished_at = NOON + timedelta(hours=hour, microseconds=1)
        row.save(update_fields=["finished_at"])
    assert ids_read(credentials_file, HISTORY, status="dead") == [third.pk]
    assert ids_read(credentials_file, HISTORY, status="done,dead", queue="b") == sorted([second.pk, third.pk])
    since, until = second.finished_at.isoformat(), third.finished_at.isoformat()
    assert ids_read(credentials_file, HISTORY, since=since, until=until) == [second.pk]
    assert ids_read(credentials_file, HISTORY, since=until) == [third.pk]
    assert ids_read(credentials_file, HISTORY, until=since) == [first.pk]


def test_since_and_until_speak_of_when_a_message_was_created(credentials_file: str) -> None:
    stored()
    assert ids_read(credentials_file, since="2026-03-01T13:00:00+01:00") == [1, 2, 3, 4, 6]
    assert ids_read(credentials_file, since="2026-03-01T12:00:00.000001Z") == [2, 3, 4]
    assert ids_read(credentials_file, until="2026-03-01T12:00:00.000001Z") == [1, 5, 6]


WRONG = {
    "an unknown option": ({"page_rows": "5"}, "no option 'page_rows' here. Did you mean 'pageRows'"),
    "an unknown source": ({"source": "mesages"}, "'source' is 'mesages'; it can be history, messages. Did you mean"),
    "an unknown standing": ({"status": "redy"}, "'status' is 'redy'; it can be .*Did you mean 'ready'"),
    "a standing of the history": ({"status": "dropped"}, "'status' is 'dropped'; it can be"),
    "a standing that history doesn't have": ({"source": "history", "status": "n"}, "it can be dead, done, dropped"),
    "a queue that can't be": ({"queue": "a b"}, "'queue' names 'a b'"),
    "a number of partitions": ({"numPartitions": "0"}, "'numPartitions' is '0'"),
    "a moment without an offset": ({"since": "2026-03-01"}, "'since' is '2026-03-01'; it must be a date and time with"),
    "an end before its beginning": (
        {"since": "2026-03-02T00:00:00Z", "until": "2026-03-01T00:00:00Z"},
        "'since' .* is not before 'until'",
    ),
    "a password": ({"password": "secret"}, "The option 'password' would appear in plans and logs"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_option_is_named_before_anything_is_read(credentials_file: str, name: str) -> None:
    options, text = WRONG[name]
    schema = HISTORY.schema if options.get("source") == "history" else MESSAGES.schema
    with pytest.raises(InvalidPipeline, match=text):
        TableReader({"credentials_file": credentials_file, **options}, schema)


SCHEMAS = {
    "id bigint, ID bigint": "names the column 'id' more than once",
    "id bigint, quue string": "messages have no column 'quue'. Did you mean 'queue'",
    "message_id bigint": "messages have no column 'message_id'",
    "id int": "column 'id' of the messages is bigint, not int: write 'id bigint' in the schema",
    "created_at string": "column 'created_at' of the messages is timestamp, not string",
    "key string not null": "column 'key' of the messages can be NULL",
}


@pytest.mark.parametrize("schema", SCHEMAS)
def test_a_schema_that_asks_for_what_there_is_not_is_refused(credentials_file: str, schema: str) -> None:
    kinds = {"bigint": LongType(), "int": IntegerType(), "string": StringType()}
    fields = []
    for column in schema.split(", "):
        name, kind, *not_null = column.split(" ")
        fields.append(StructField(name, kinds[kind], not not_null))
    with pytest.raises(InvalidPipeline, match=SCHEMAS[schema]):
        TableReader({"credentials_file": credentials_file}, StructType(fields))


def test_a_schema_without_columns_is_refused(credentials_file: str) -> None:
    with pytest.raises(InvalidPipeline, match=r"The schema names no column\. The columns are id bigint, queue string"):
        TableReader({"credentials_file": credentials_file}, StructType([]))
