"""JSON texts by the many become the bodies that each would become alone, and are refused for the same reasons."""

from __future__ import annotations

import json
from typing import Any

import pytest

from django_dbqueue import codecs
from django_dbqueue.exceptions import InvalidMessage, UndecodableMessage

LIMIT = 2_000
COMPACT = ['{"a":[1,2.5,null],"b":"é\\n😀"}', "[]", "0", "true", "null", "-1.5", '[{"x":{}}]']
STORED_OTHERWISE = [
    '{"a": 1}',
    " 1",
    "1 ",
    "1\n",
    "2.50",
    "1E2",
    '["\\u00e9"]',
    '["\\/"]',
    '{"a":1,"a":2}',
    '"text"',
    '"a\\u0000b"',
    "-0.0",
    "[1,2]",
    "12345678901234567890",
]
REFUSED = ["", "[1", "2]", "1,2", "{broken", "NaN", "1e999", '["\\ud800"]', '["\ud800"]', "[" * 201 + "]" * 201]
TOO_LARGE = json.dumps("é" * LIMIT)


def one_by_one(texts: list[str]) -> list[Any]:
    found: list[Any] = []
    for text in texts:
        try:
            found.append(codecs.encode(codecs.decode_json(text), max_bytes=LIMIT))
        except (InvalidMessage, UndecodableMessage) as error:
            return [*found, (type(error), str(error))]
    return found


def together(texts: list[str]) -> list[Any]:
    found: list[Any] = []
    try:
        found.extend(codecs.encode_texts(texts, max_bytes=LIMIT))
    except (InvalidMessage, UndecodableMessage) as error:
        found.append((type(error), str(error)))
    return found


@pytest.mark.parametrize("odd", [*STORED_OTHERWISE, *REFUSED, TOO_LARGE])
@pytest.mark.parametrize("place", [0, 1, 63, 64, 150])
def test_an_odd_text_among_plain_ones_is_met_as_it_would_be_alone(odd: str, place: int) -> None:
    plain = (COMPACT * 30)[:200]
    texts = [*plain[:place], odd, *plain[place:]]
    found = together(texts)
    assert found == one_by_one(texts)
    assert len(found) == (len(texts) if odd in STORED_OTHERWISE else place + 1)


@pytest.mark.parametrize(
    "texts", [["[1", "2]"], ["[1", "2]", "3,4"], ["1,2", "[3", "4]"], ['["a', 'b"]'], ["1", "", "2"]]
)
def test_pieces_that_only_together_are_json_are_refused(texts: list[str]) -> None:
    assert together(texts) == one_by_one(texts)
    assert together(texts)[-1][0] is UndecodableMessage


def test_plain_texts_are_used_without_encoding_each(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = COMPACT * 40
    monkeypatch.setattr(codecs, "encode", None)
    assert list(codecs.encode_texts(texts, max_bytes=LIMIT)) == [(text, codecs.JSON, None) for text in texts]
