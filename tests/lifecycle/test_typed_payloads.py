"""Payloads with UUIDs, dates, decimals and the like, on each database: through the queue and back, and read by SQL."""

from __future__ import annotations

import json
import random
import re
import uuid
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.db import connection
from django.test import override_settings

from django_dbqueue import Envelope, InvalidMessage, consumer
from django_dbqueue.codecs import MAX_DEPTH
from django_dbqueue.exceptions import UndecodableMessage
from django_dbqueue.models import ArchivedMessage, Message
from django_dbqueue.redaction.policy import content_of
from django_dbqueue.testing import assert_enqueued, run_consumers
from django_dbqueue.value_types import TYPES
from tests.conftest import ROOT
from tests.factories import QUEUE, claim_one, held, rows, waiting
from tests.of_types import FORMS, LOOKALIKES, VALUES, any_payload, as_seen
from tests.redaction.conftest import redact as redact

pytestmark = pytest.mark.django_db

ORDER = uuid.UUID("12345678-1234-5678-9234-567812345678")
AT = datetime(2026, 11, 27, 20, 39, 52, 123456, tzinfo=UTC)


def test_every_value_comes_back_through_the_queue_and_the_history() -> None:
    payloads = [form([*VALUES, *LOOKALIKES]) for form in FORMS] + [[value] for value in VALUES] + VALUES
    Message.objects.enqueue_many(payloads, queue=QUEUE)
    Message.objects.enqueue_many([Envelope(payload, headers={"a": 1}) for payload in payloads], queue=QUEUE)
    messages = Message.objects.claim(1_000, queue=QUEUE)
    assert [as_seen(message.payload) for message in messages] == [as_seen(payload) for payload in payloads] * 2
    assert [message.headers for message in messages] == [{}] * len(payloads) + [{"a": 1}] * len(payloads)
    assert Message.objects.ack(messages) == []
    assert Message.objects.archive(QUEUE, older_than=0) == len(messages)
    kept = ArchivedMessage.objects.order_by("message_id")
    assert [as_seen(row.payload) for row in kept] == [as_seen(payload) for payload in payloads] * 2


def test_any_payload_comes_back_through_a_consumer(registry: Any) -> None:
    draw = random.Random(32)
    payloads = [any_payload(draw) for _ in range(150)]
    seen: list[Any] = []
    consumer(QUEUE)(lambda message: seen.append(message.payload))
    for payload in payloads:
        Message.objects.enqueue(payload, queue=QUEUE)
    run_consumers(QUEUE)
    assert [as_seen(payload) for payload in seen] == [as_seen(payload) for payload in payloads]


def test_what_enqueue_returns_has_the_payload_too() -> None:
    message = waiting(payload={"order": ORDER})
    assert message.payload == {"order": ORDER}
    assert_enqueued(QUEUE, payload={"order": ORDER})


# Plain for everybody else


def by_sql(column: str, *path: str) -> Any:
    """A text in a column's JSON, as the server's own functions read it."""
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute(f"SELECT {column}::json #>> %s FROM django_dbqueue_message", [list(path)])
        else:
            name = {"sqlite": "json_extract(%s, %%s)", "mysql": "JSON_UNQUOTE(JSON_EXTRACT(%s, %%s))"}
            steps = "".join(f"[{step}]" if step.isdigit() else f'."{step}"' for step in path)
            cursor.execute(f"SELECT {name[connection.vendor] % column} FROM django_dbqueue_message", [f"${steps}"])
        [(found,)] = cursor.fetchall()
    return found


def test_sql_reads_plain_values_and_their_types() -> None:
    payload = {"order": ORDER, "at": AT, "lines": [{"price": Decimal("12.50")}], "wait": timedelta(minutes=90)}
    waiting(payload=payload)
    assert by_sql("body", "order") == str(ORDER)
    assert by_sql("body", "at") == "2026-11-27T20:39:52.123456+00:00"
    assert by_sql("body", "lines", "0", "price") == "12.50"
    assert by_sql("body", "wait") == "5400"
    assert by_sql("headers", TYPES, "order") == "uuid"
    assert by_sql("headers", TYPES, "lines", "*", "price") == "decimal"


def test_the_sql_of_the_page_reads_them_on_its_server(database: str) -> None:
    server = {"sqlite": "SQLite", "mariadb": "MariaDB", "mysql": "MySQL", "postgres": "PostgreSQL"}[database]
    waiting(payload={"order": ORDER, "due": AT, "total": Decimal("12.50")})
    [block] = re.findall(r"```sql\n(.*?)```", (ROOT / "docs" / "payloads.md").read_text(), re.DOTALL)
    lines = [line for line in block.splitlines() if server in line.partition("--")[2]]
    assert lines
    for line in lines:
        with connection.cursor() as cursor:
            cursor.execute(line.partition(";")[0])
            [(order, *others)] = cursor.fetchall()
        assert order == str(ORDER)
        assert set(others) <= {Decimal("12.50"), 12.5, AT}


def test_a_payload_without_such_values_has_no_types() -> None:
    waiting(payload={"order": str(ORDER), "n": 1.5})
    waiting(payload=[1], headers={"a": 1})
    assert [(row["content_type"], row["headers_text"]) for row in rows()] == [("json", None), ("json", '{"a":1}')]


def test_types_that_sql_wrote_hold_too() -> None:
    waiting(payload={"order": str(ORDER), "at": "2026-11-27 20:39:52.123456Z"}, headers={"mine": 1})
    types = {"order": "uuid", "at": "datetime", "gone": "date"}
    Message.objects.update(headers_text=json.dumps({"mine": 1, TYPES: types}))
    message = claim_one()
    assert (message.payload, message.headers) == ({"order": ORDER, "at": AT}, {"mine": 1})


@pytest.mark.parametrize(
    "types", ["uuid", 5, None, [], ["uuid"], {"order": "os.system"}, {"order": ["uuid"]}, {"order": {"*": "uuid"}}],
    ids=repr,
)  # fmt: skip
def test_a_forged_type_leaves_the_plain_value_and_the_handler_runs(types: Any, registry: Any) -> None:
    waiting(payload={"order": "no UUID"})
    Message.objects.update(headers_text=json.dumps({TYPES: types}))
    seen: list[Any] = []
    consumer(QUEUE)(lambda message: seen.append(message.payload))
    run_consumers(QUEUE)
    assert seen == [{"order": "no UUID"}]
    assert Message.objects.done(QUEUE).count() == 1


def test_a_header_may_name_the_types_of_a_payload_that_has_none_itself() -> None:
    waiting(payload={"order": str(ORDER)}, headers={TYPES: {"order": "uuid"}})
    assert claim_one().payload == {"order": ORDER}
    waiting(payload={"order": ORDER}, headers={TYPES: {"order": "decimal"}, "a": 1})
    message = claim_one()
    assert (message.payload, message.headers) == ({"order": ORDER}, {"a": 1})
    assert message.headers_text is not None
    assert message.headers_text.count(TYPES) == 1


def test_headers_that_are_sent_on_with_another_payload_name_none_of_its_types() -> None:
    message = held(payload={"order": ORDER}, headers={"trace": "1"})
    waiting(payload={"order": str(ORDER)}, headers=message.headers)
    assert claim_one().payload == {"order": str(ORDER)}


# Refused


class Moment(datetime):
    """As pandas, pendulum and freezegun have them."""


class Nowhere(tzinfo):
    def utcoffset(self, moment: datetime | None) -> None:
        return None


REFUSED: list[tuple[Any, str]] = [
    (Decimal("NaN"), "NaN and infinities are not JSON"),
    (Decimal("-sNaN1"), "NaN and infinities are not JSON"),
    ([{"a": Decimal("-Infinity")}], "NaN and infinities are not JSON"),
    ({"a": [ORDER, float("nan")]}, "NaN and infinities are not JSON"),
    (Moment(2026, 11, 27), "a Moment would come back as a datetime, so convert it first"),
    (time(12, tzinfo=ZoneInfo("Europe/Berlin")), "has a time zone whose offset isn't known without a date"),
    (datetime(2026, 11, 27, tzinfo=Nowhere()), "has a time zone whose offset isn't known"),
    ({ORDER: 1}, "has the key UUID.* of type UUID"),
    ({"a": ORDER, "b": {1, 2}}, "Object of type set is not JSON serializable"),
    ({"a": ORDER, "b": b"bytes"}, "Object of type bytes is not JSON serializable.* send files as bytes"),
    ({"a": ORDER, "b": "\udc00"}, "lone surrogate"),
    ([ORDER, "text"] * 2_000, r"takes \d\d,\d\d\d bytes, but the limit is 16,384: let the items of a list be alike"),
    ([ORDER] * 30_000, "1,170,001 bytes as stored, but the limit is 1,048,576"),
]


@pytest.mark.parametrize(("payload", "why"), REFUSED, ids=lambda value: ascii(value)[:40])
def test_what_would_not_come_back_equal_and_of_its_type_is_refused(payload: Any, why: str) -> None:
    with pytest.raises(InvalidMessage, match=why):
        waiting(payload=payload)
    assert rows() == []


def test_headers_take_no_such_values() -> None:
    with pytest.raises(InvalidMessage, match="The headers is not JSON: Object of type UUID"):
        waiting(headers={"order": ORDER})


def test_types_take_nothing_of_the_room_for_headers() -> None:
    headers = {"a": "x" * 16_000}
    message = waiting(payload=[ORDER, "text"] * 500, headers=headers)
    assert (claim_one().payload[:2], message.headers) == ([ORDER, "text"], headers)


@pytest.mark.parametrize("wrap", [lambda inner: [inner], lambda inner: {"k": inner}, lambda inner: [inner, "text"]])
def test_a_payload_as_deep_as_any_is_handled_and_shown_and_sent_again(wrap: Any, registry: Any, redact: Any) -> None:
    payload: Any = Decimal("1.50")
    for _ in range(MAX_DEPTH):
        payload = wrap(payload)
    seen: list[Any] = []
    consumer(QUEUE)(lambda message: seen.append((message.payload, message.headers)))
    message = waiting(payload=payload, headers={"a": 1})
    run_consumers(QUEUE)
    assert seen == [(payload, {"a": 1})]
    redact(["pin"])
    assert content_of(message).hidden == ""
    assert Message.objects.filter(pk=message.pk).send_again() == 1
    assert claim_one().payload == payload


def test_headers_that_nest_deeper_are_refused_and_those_of_others_undecodable() -> None:
    headers: Any = 1
    for _ in range(MAX_DEPTH):
        headers = {"k": headers}
    waiting(headers={"a": 1, **headers})
    for wrong in ({"a": headers}, {TYPES: {"a": headers}}):
        with pytest.raises(InvalidMessage, match="nests deeper than 200 levels"):
            waiting(headers=wrong)
    Message.objects.update(headers_text=json.dumps({"a": {"a": headers}}))
    with pytest.raises(UndecodableMessage, match="nests deeper than 201 levels"):
        _ = claim_one().headers


# Sent again, changed


def test_an_update_that_changes_only_the_types_is_one() -> None:
    for payload, outcome in (
        ({"order": str(ORDER)}, "created"),
        ({"order": ORDER}, "updated"),
        ({"order": ORDER}, "ignored"),
        ({"order": str(ORDER)}, "updated"),
    ):
        message = waiting(payload=payload, key="k", on_conflict="update")
        assert message.outcome == outcome
        assert as_seen(message.payload) == as_seen(payload)


def test_what_is_sent_again_comes_back_the_same() -> None:
    message = held(payload={"order": ORDER, "prices": [Decimal("1.50"), "1.50"]}, headers={"a": 1})
    message.ack()
    assert Message.objects.filter(pk=message.pk).send_again() == 1
    again = claim_one()
    assert as_seen(again.payload) == as_seen(message.payload)
    assert (again.body, again.headers["a"]) == (message.body, 1)


def test_what_is_edited_has_the_types_of_its_new_payload_alone() -> None:
    old = waiting(payload={"order": ORDER, "on": date(2026, 11, 27)})
    Message.objects.send_edited(old, {"order": str(ORDER), "on": date(2026, 11, 28)})
    assert claim_one().payload == {"order": str(ORDER), "on": date(2026, 11, 28)}


@override_settings(DBQUEUE={"QUEUES": {QUEUE: {"on_ack": "delete"}}})
def test_a_large_payload_that_stays_in_the_database_has_its_types_too() -> None:
    waiting(payload=[{"order": ORDER, "text": "x" * 100}] * 2_000)
    message = claim_one()
    message.forget_payload(body=True)
    assert message.payload[1_999]["order"] == ORDER
