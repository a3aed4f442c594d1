"""A secret at a redacted place, however it is wrapped and whatever an error quotes of it, is read by nobody."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlencode

import pytest

from django_dbqueue.redaction.policy import content_of
from tests.redaction.contents import Row, raised, row, shown

SECRET = "hunter2/x\"y'z"
BARE = "hunter2"
FIELDS = {"user": "ann", "password": SECRET}
TEXT = json.dumps(FIELDS)
EVERYWHERE = ["**.password"]

WRAPPED: dict[str, Any] = {
    "as it is": FIELDS,
    "in a list": [1, [FIELDS]],
    "text": TEXT,
    "text, in a field": {"body": TEXT},
    "bytes": TEXT.encode(),
    "bytes with a byte order mark": TEXT.encode("utf-8-sig"),
    "UTF-16": TEXT.encode("utf-16"),
    "UTF-16 without a mark": TEXT.encode("utf-16-le"),
    "UTF-32": TEXT.encode("utf-32"),
    "bytes that are no UTF-8": b"{\xff" + TEXT[1:].encode(),
    "encoded twice": json.dumps(TEXT),
    "encoded three times": json.dumps(json.dumps(TEXT)),
    "encoded twice, in a field": {"body": json.dumps(TEXT)},
    "a list of texts": [json.dumps([TEXT])],
    "a byte order mark": "\ufeff" + TEXT,
    "65 blanks": " " * 65 + TEXT,
    "other blanks": "\u2028\u00a0\v" + TEXT,
    "NaN beside it": TEXT[:-1] + ', "n": NaN}',
    "NaN beside it, in a field": {"body": TEXT[:-1] + ', "n": NaN}'},
    "NaN in a list": "[NaN, " + TEXT + "]",
    "two lines": TEXT + "\n" + TEXT,
    "a line that says nothing, and one": '{"a": 1}\n' + TEXT,
    "text behind it": TEXT + " and so on",
    "text before it": "got " + TEXT,
    "a log's line": "[INFO] got " + TEXT,
    "cut off": TEXT[:-1],
    "deeper than 200 levels": '{"a":' * 250 + TEXT + "}" * 250,
    "a name twice": '{"password": "' + BARE + '", "password": "other"}',
    "a comma too many": TEXT[:-1] + ",}",
    "a raw line break": '{"note": "a\nb", "password": "' + BARE + '"}',
    "a number of too many digits": TEXT[:-1] + ', "n": ' + "1" * 5_000 + "}",
    "Python's way to write it": repr(FIELDS),
    "Python's way, in a tuple": repr((FIELDS,)),
    "a form": urlencode(FIELDS),
    "JSON in a form": urlencode({"body": TEXT}),
    "a line of a file": f"user: ann\npassword: {BARE}",
    "a tag": f"<user>ann</user><password>{BARE}</password>",
    "an escaped name": TEXT.replace("password", "pass\\u0077ord"),
    "an escaped name behind text": "got " + TEXT.replace("password", "pass\\u0077ord"),
    "in capitals": TEXT.replace("password", "PassWord"),
    "inside of it": {"password": {"old": [BARE]}},
    "JSON inside of it": {"password": json.dumps({"old": BARE, "new": "x"})},
    "JSON that can't be read inside of it": {"password": '{"old": "' + BARE + '", "n": NaN}'},
}
BODIES = {
    "a name twice in the body": '{"password":"' + BARE + '","password":"other"}',
    "a name twice, deep in the body": '{"a":[{"password":"' + BARE + '","password":2}]}',
    "a body that can't be decoded": TEXT[:-1],
    "a body of NaN": '{"n":NaN,"password":"' + BARE + '"}',
}
ROWS = {name: row(payload) for name, payload in WRAPPED.items()} | {name: Row(body) for name, body in BODIES.items()}


def errors_about(payload: Any) -> list[str]:
    return [
        raised(ValueError(f"no such user: {SECRET}")),
        raised(KeyError(SECRET)),
        raised(ValueError(payload)),
        raised(ValueError({"sent": payload})),
        raised(ValueError(json.dumps(str(payload)))),
        f"refused: {SECRET}",
        f"TimedOut: {SECRET} ran longer than its timeout of 3 s",
    ]


@pytest.mark.once
@pytest.mark.parametrize("message", ROWS.values(), ids=ROWS)
def test_no_wrapping_shows_it_and_no_error_quotes_it(redact: Any, message: Row) -> None:
    redact(EVERYWHERE)
    content = content_of(message)
    assert BARE not in str(content).replace("\\x00", "").replace("\0", "")
    assert not isinstance(content.payload, bytes) or BARE.encode() not in content.payload.replace(b"\0", b"")
    name = next(name for name, each in ROWS.items() if each is message)
    for text in errors_about(WRAPPED.get(name, message.body)):
        assert BARE not in shown(text, message)


@pytest.mark.once
@pytest.mark.parametrize(
    "payload",
    [
        "hello",
        "[INFO] all is well",
        "a {b} c",
        "price: 5",
        "the password is not told",
        "spin: 3",
        [1],
        {"pass": "x"},
        b"\xff\x00",
    ],
)
def test_what_does_not_name_the_field_is_shown(redact: Any, payload: Any) -> None:
    redact(EVERYWHERE)
    assert content_of(row(payload)).payload == payload
    redact(["card.number"])
    assert content_of(row("number: 5")).payload == "number: 5"
    assert content_of(row("card: 1, number: 5")).payload != "card: 1, number: 5"
