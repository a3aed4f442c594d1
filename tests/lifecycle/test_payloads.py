"""What goes in comes out, byte for byte; what can't is refused, and nothing is written (P12)."""

from __future__ import annotations

import json
import math
import sys
import time
from enum import Enum
from typing import Any

import pytest
from django.test import override_settings

from django_dbqueue import InvalidMessage, codecs
from django_dbqueue.models import Message
from tests.factories import QUEUE, claim_one, rows, waiting

pytestmark = pytest.mark.django_db

MEBIBYTE = 2**20


def there_and_back(payload: Any) -> Any:
    sent = waiting(payload=payload)
    back = claim_one()
    assert (sent.body, sent.content_type) == (back.body, back.content_type)
    assert Message.objects.get(pk=back.pk).body == back.body
    back.ack()
    return back.payload


def plane(number: int) -> str:
    points = range(number * 0x10000, (number + 1) * 0x10000)
    return "".join(chr(point) for point in points if not 0xD800 <= point <= 0xDFFF)


@pytest.mark.parametrize("number", range(17))
@pytest.mark.parametrize("wrap", [str, lambda text: text.replace("\0", ""), lambda text: {text: [text]}])
def test_every_character_of_every_unicode_plane_comes_back(number: int, wrap: Any) -> None:
    payload = wrap(plane(number))
    assert there_and_back(payload) == payload


class Colour(str, Enum):  # noqa: UP042 - it is what is tested
    """Text whose str() is 'Colour.RED' (StrEnum, and Django's TextChoices, say it otherwise)."""

    RED = "red"


@pytest.mark.parametrize("payload", [Colour.RED, {"colour": Colour.RED}, [Colour.RED]])
def test_a_member_of_an_enum_comes_back_as_the_text_that_it_is(payload: Any) -> None:
    assert there_and_back(payload) == payload


TEXTS = [
    "",
    " ",
    "trailing blanks   ",
    "\t \t",
    "\r\n",
    "one\r\ntwo\rthree\nfour\u2028five\u0085six",
    "NUL in\0side",
    "\0",
    "\\0 \\u0000 \\ \\\\ '' \" ` %s %% %(name)s $1 {} ; -- /* */",
    "\ufeffwith a mark",
    "\ufffe\uffff\U0010ffff",
    "\N{LATIN SMALL LETTER A WITH DIAERESIS} a\N{COMBINING DIAERESIS}",
    "family: \U0001f468\u200d\U0001f469\u200d\U0001f467",
    "true",
    "null",
    "7",
    "\x01\x02\x1a\x1b\x7f",
]


@pytest.mark.parametrize("text", TEXTS, ids=ascii)
def test_text_comes_back_as_it_was_alone_and_inside_json(text: str) -> None:
    assert there_and_back(text) == text
    assert there_and_back({"text": text, text: 1}) == {"text": text, text: 1}


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_bytes_come_back_as_bytes(kind: Any) -> None:
    every = bytes(range(256))
    for data in (b"", b"\0", every, every * 37, b"\r\n", b"\xff\xfe"):
        back = there_and_back(kind(data))
        assert (type(back), back) == (bytes, data)


VALUES: list[Any] = [
    None,
    True,
    False,
    0,
    -0.0,
    0.1,
    1e-320,
    5e-324,
    sys.float_info.max,
    sys.float_info.epsilon,
    1 / 3,
    1e16,
    123456789.123456789,
    2**53 + 1,
    2**63 - 1,
    2**64,
    -(2**200),
    10**1000,
    [],
    {},
    [[], {}, [[]], {"": {}}],
    {"b": 1, "a": 2, "B": 3},
    {"": "", " ": " ", "\0": "\0"},
    [None, True, 1, 1.0, "1"],
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: ascii(value)[:40])
def test_json_values_come_back_equal_and_of_the_same_type(value: Any) -> None:
    back = there_and_back([value])[0]
    assert (type(back), repr(back)) == (type(value), repr(value))
    assert repr(there_and_back(value)) == repr(value)


def test_the_order_of_keys_stays() -> None:
    assert list(there_and_back(dict.fromkeys("zyxabc", 1))) == list("zyxabc")


def test_a_tuple_comes_back_as_a_list() -> None:
    assert there_and_back((1, (2, 3))) == [1, [2, 3]]


def nested(depth: int, kind: Any) -> Any:
    value: Any = kind()
    for _ in range(depth - 1):
        value = [value] if kind is list else {"k": value}
    return value


@pytest.mark.parametrize("kind", [list, dict])
def test_nesting_goes_to_two_hundred_levels_and_no_further(kind: Any) -> None:
    assert there_and_back(nested(200, kind)) == nested(200, kind)
    before = rows()
    with pytest.raises(InvalidMessage, match="nests deeper than 200 levels"):
        waiting(payload=nested(201, kind))
    assert rows() == before


def test_brackets_inside_strings_are_no_nesting() -> None:
    payload = ["[{" * 5000, '"[' * 5000, '\\"{' * 5000, "\\"]
    assert there_and_back(payload) == payload


def test_many_brackets_side_by_side_are_no_nesting() -> None:
    assert there_and_back([[] for _ in range(10_000)]) == [[]] * 10_000


def test_headers_come_back_as_they_were() -> None:
    headers = {"traceparent": "00-\N{GRINNING FACE}\0", "n": 2**70, "list": [1, None], "": {}}
    waiting(headers=headers)
    assert claim_one().headers == headers


def test_the_limit_counts_bytes_as_stored() -> None:
    waiting(payload="x" * MEBIBYTE)
    waiting(payload="\N{GRINNING FACE}" * (MEBIBYTE // 4))
    waiting(payload=bytes(MEBIBYTE * 3 // 4))
    assert {len(message.payload) for message in Message.objects.claim(3, queue=QUEUE)} == {
        MEBIBYTE,
        MEBIBYTE // 4,
        MEBIBYTE * 3 // 4,
    }
    for one_more in ("x" * (MEBIBYTE + 1), "\N{GRINNING FACE}" * (MEBIBYTE // 4) + "x"):
        with pytest.raises(InvalidMessage, match="1,048,577 bytes"):
            waiting(payload=one_more)


@override_settings(DBQUEUE={"MAX_PAYLOAD_BYTES": 6 * MEBIBYTE})
def test_the_limit_is_a_setting() -> None:
    assert len(there_and_back("x" * 5 * MEBIBYTE)) == 5 * MEBIBYTE


def circle() -> list[Any]:
    ring: list[Any] = []
    ring.append(ring)
    return ring


REFUSED: list[tuple[Any, str]] = [
    (math.nan, "NaN and infinities are not JSON"),
    ([math.inf], "NaN and infinities are not JSON"),
    ({"a": {"b": -math.inf}}, "NaN and infinities are not JSON"),
    ("\ud800", r"lone surrogate \(U\+D800 at position 0\)"),
    ("ab\udfff", r"lone surrogate \(U\+DFFF at position 2\)"),
    ({"a": "\udc00"}, "lone surrogate"),
    ({"\udc00": 1}, "lone surrogate"),
    ({1: "a"}, "has the key 1 of type int"),
    ([{"a": {None: 1}}], "has the key None of type NoneType"),
    ({True: 1}, "has the key True of type bool"),
    ({(1, 2): 1}, "of type tuple"),
    ({1.5: 1}, "of type float"),
    ({b"a": 1}, "of type bytes"),
    ({"a"}, "The payload is not JSON: Object of type set"),
    ([b"bytes inside"], "Object of type bytes"),
    (object(), "Object of type object"),
    (1j, "Object of type complex"),
    (circle(), "nests deeper than 200 levels"),
    (10**5000, "The payload is not JSON"),
    ("x" * (MEBIBYTE + 1), "The payload takes 1,048,577 bytes as stored, but the limit is 1,048,576"),
    ("\N{GRINNING FACE}" * (MEBIBYTE // 4 + 1), "The payload takes 1,048,580 bytes"),
    (bytes(MEBIBYTE), "The payload takes 1,398,104 bytes"),
    (["x" * MEBIBYTE], "The payload takes 1,048,580 bytes"),
]


@pytest.mark.parametrize(("payload", "error"), REFUSED, ids=range(len(REFUSED)))
def test_what_would_come_back_changed_is_refused_and_nothing_is_written(payload: Any, error: str) -> None:
    with pytest.raises(InvalidMessage, match=error):
        waiting(payload=payload)
    assert rows() == []


def folded(times: int) -> list[Any]:
    """A list of which few are there, and which is written out as 2^times."""
    whole: list[Any] = []
    for _ in range(times):
        whole = [whole, whole]
    return whole


MANIFOLD = [
    folded(40),
    {"a": folded(40)},
    [{"k" * MEBIBYTE: 1}] * 10**6,
    ["x" * MEBIBYTE] * 10**6,
    [-(10**4000)] * 10**6,
]


@pytest.mark.parametrize("payload", MANIFOLD, ids=range(len(MANIFOLD)))
def test_what_is_referred_to_again_and_again_counts_as_often_and_is_refused_before_it_is_written_out(
    payload: Any,
) -> None:
    began = time.process_time()
    with pytest.raises(InvalidMessage, match="takes more bytes as stored than the limit of 1,048,576"):
        waiting(payload=payload)
    with pytest.raises(InvalidMessage, match="takes more bytes as stored than the limit of 16,384"):
        waiting(payload=1, headers={"a": payload})
    assert time.process_time() - began < 30, "it takes a second, and would take years"
    assert rows() == []


@pytest.mark.parametrize("item", [8, "", [], {}, None, 10**100, -(2**300), {"a": 1}, ["a"], True, 0.5], ids=repr)
def test_as_many_parts_as_fit_are_let_in(item: Any) -> None:
    size = len(json.dumps(item, separators=(",", ":"))) + 1
    count = (MEBIBYTE - 1) // size
    assert len(codecs.encode([item] * count, max_bytes=MEBIBYTE)[0]) == count * size + 1
