"""Rows that somebody wrote by SQL and that can't be decoded: each says why, and blocks nobody (P12)."""

from __future__ import annotations

import time

import pytest

from django_dbqueue import UndecodableMessage
from django_dbqueue.models import Message
from tests.factories import QUEUE, waiting, written_by_sql

pytestmark = pytest.mark.django_db


UNDECODABLE: list[tuple[str, str, str]] = [
    ("{broken", "json", "The body is not JSON"),
    ("", "json", "The body is not JSON"),
    ("[1] 2", "json", "The body is not JSON"),
    ("NaN", "json", "NaN is not JSON"),
    ("[-Infinity]", "json", "-Infinity is not JSON"),
    ("[" * 100_000, "json", "nests deeper than 200 levels"),
    ("[" * 201 + "]" * 201, "json", "nests deeper than 200 levels"),
    ("9" * 5000, "json", "The body is not JSON"),
    ("not base64!", "bytes", "The body is not base64"),
    ("\N{GRINNING FACE}", "bytes", "The body is not base64"),
    ("abc", "bytes", "The body is not base64"),
    ("cos\nsystem\n(S'true'\ntR.", "pickle", "Unknown content type 'pickle'"),
    ("x", "", "Unknown content type ''"),
]


@pytest.mark.parametrize(("body", "content_type", "error"), UNDECODABLE, ids=range(len(UNDECODABLE)))
def test_a_row_that_cannot_be_decoded_reports_why_and_blocks_no_other(body: str, content_type: str, error: str) -> None:
    written_by_sql(body, content_type)
    waiting(payload="good")
    broken, good = Message.objects.claim(2, queue=QUEUE)
    assert good.payload == "good"
    with pytest.raises(UndecodableMessage, match=error):
        _ = broken.payload
    broken.reject("undecodable")
    good.ack()
    assert Message.objects.dead(QUEUE).get().body == body


@pytest.mark.parametrize("text", ["[1]", '"text"', "{broken", "null"])
def test_headers_that_are_no_object_are_undecodable(text: str) -> None:
    message = written_by_sql("1", headers_text=text)
    with pytest.raises(UndecodableMessage):
        _ = message.headers


@pytest.mark.parametrize("tail", ["", "\\"])
def test_a_body_of_many_quotes_without_an_end_is_refused_at_once(tail: str) -> None:
    hostile = written_by_sql('"' + '\\"' * 60_000 + "[" * 300 + tail)
    began = time.process_time()
    with pytest.raises(UndecodableMessage):
        _ = hostile.payload
    assert time.process_time() - began < 2
