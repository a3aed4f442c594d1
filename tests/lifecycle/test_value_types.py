"""Types beside plain values: what is written comes back, and whatever anybody wrote there leaves plain values (P12)."""

from __future__ import annotations

import json
import random
import time
import uuid
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from django_dbqueue import InvalidMessage, codecs, value_types
from django_dbqueue.value_types import TYPED, joined, split
from tests.of_types import BERLIN, FORMS, LOOKALIKES, VALUES, any_payload, as_seen

MEBIBYTE = 2**20


def there_and_back(payload: Any) -> Any:
    body, content_type, types = codecs.encode(payload, max_bytes=MEBIBYTE)
    return codecs.decode_typed(body, content_type, types)


@pytest.mark.parametrize("form", range(len(FORMS)))
def test_a_value_comes_back_equal_and_of_its_type_wherever_it_is(form: int) -> None:
    for value in [*VALUES, *LOOKALIKES]:
        payload = FORMS[form](value)
        assert as_seen(there_and_back(payload)) == as_seen(payload), value


def test_any_payload_comes_back() -> None:
    draw = random.Random(32)
    for _ in range(2_000):
        payload = any_payload(draw)
        assert as_seen(there_and_back(payload)) == as_seen(payload), payload


def test_it_is_equal_but_for_moments_that_python_calls_equal_to_none_of_another_zone() -> None:
    unequal = [value for value in VALUES if there_and_back(value) != value]
    assert unequal == [value for value in VALUES if getattr(value, "tzinfo", None) is BERLIN and value.month in (3, 10)]
    assert all(value.astimezone(UTC) == there_and_back(value).astimezone(UTC) for value in unequal)


def test_the_text_is_plain_json_with_each_value_as_its_string() -> None:
    payload = {
        "order": uuid.UUID(int=1),
        "at": datetime(2026, 11, 27, 20, 0, tzinfo=UTC),
        "on": date(2026, 11, 27),
        "wait": timedelta(hours=1, microseconds=-500_000),
        "lines": [{"price": Decimal("12.50"), "n": 1}, {"price": None}],
    }
    body, content_type, types = codecs.encode(payload, max_bytes=MEBIBYTE)
    assert content_type == "json"
    assert json.loads(body) == {
        "order": "00000000-0000-0000-0000-000000000001",
        "at": "2026-11-27T20:00:00+00:00",
        "on": "2026-11-27",
        "wait": "3599.5",
        "lines": [{"price": "12.50", "n": 1}, {"price": None}],
    }
    assert json.loads(types or "") == {
        "order": "uuid",
        "at": "datetime",
        "on": "date",
        "wait": "timedelta",
        "lines": {"*": {"price": "decimal"}},
    }


def test_it_may_be_as_deep_as_any_payload() -> None:
    for wrap in (lambda inner: [inner], lambda inner: {"k": inner}, lambda inner: [inner, "text"]):
        payload: Any = Decimal("1.50")
        for _ in range(200):
            payload = wrap(payload)
        assert there_and_back(payload) == payload
        with pytest.raises(InvalidMessage, match="nests deeper than 200 levels"):
            there_and_back([payload])


def test_what_json_has_types_for_needs_none() -> None:
    for value in [*LOOKALIKES, [], {}, [LOOKALIKES], {"a": {"b": LOOKALIKES}}, (1, 2), b"bytes"]:
        assert codecs.encode(value, max_bytes=MEBIBYTE)[2] is None


def test_a_list_of_alike_items_names_its_types_once_and_one_of_others_item_by_item() -> None:
    some = uuid.UUID(int=1)
    assert split([some] * 10_000)[1] == {"*": "uuid"}
    assert split([some, None, 5, True])[1] == {"*": "uuid"}
    assert split([{"a": some}, {"a": None, "b": date.max}, {}])[1] == {"*": {"a": "uuid", "b": "date"}}
    assert split([some, "text"])[1] == {"0": "uuid"}
    assert split([{"a": some}, {"a": "text"}])[1] == {"0": {"a": "uuid"}}
    assert split([some, date.max])[1] == {"0": "uuid", "1": "date"}
    assert split([[some], [], [None, some]])[1] == {"*": {"*": "uuid"}}
    assert split([[some, "text"], [some, "text"]])[1] == {"*": {"0": "uuid"}}


def test_rows_with_other_keys_each_cost_no_more_than_their_number() -> None:
    def seconds(number: int) -> float:
        rows = [{f"key {n}": uuid.UUID(int=n)} for n in range(number)]
        begun = time.process_time()
        split(rows)
        return time.process_time() - begun

    assert seconds(64_000) < 64 * 8 * seconds(1_000)


NOT_FITTING = [
    ("uuid", "12345"),
    ("uuid", ""),
    ("datetime", "yesterday"),
    ("datetime", "2026-11-27T20:39:52.123456789012345678901234+00:00"),
    ("datetime", "2026-13-01T00:00:00"),
    ("datetime", "9999-12-31T23:59:60"),
    ("date", "2026-11-27T20:00"),
    ("date", "10000-01-01"),
    ("time", "25:00"),
    ("time", "12:00:00.1234567"),
    ("timedelta", "1 day"),
    ("timedelta", "1e5"),
    ("timedelta", "nan"),
    ("timedelta", "0.1234567"),
    ("timedelta", "9" * 15),
    ("timedelta", "9" * 1_000_000),
    ("timedelta", "--1"),
    ("timedelta", "١"),
    ("decimal", "NaN"),
    ("decimal", "sNaN"),
    ("decimal", "-Infinity"),
    ("decimal", "1e99999999999999999999"),
    ("decimal", "twelve"),
    ("decimal", "\ud800"),
    ("datetime", "\ud800"),
    ("UUID", str(uuid.UUID(int=1))),
    ("builtins.eval", "1 + 1"),
    ("", "1"),
    ("*", "1"),
]


@pytest.mark.parametrize(("name", "text"), NOT_FITTING, ids=lambda text: ascii(text)[:30])
def test_a_type_that_is_unknown_or_does_not_fit_leaves_the_string(name: str, text: str) -> None:
    assert joined({"a": text, "b": [text]}, {"a": name, "b": {"*": name}}) == {"a": text, "b": [text]}


def test_types_of_any_shape_leave_plain_values_or_make_ours() -> None:
    draw = random.Random(32)
    names = ["uuid", "decimal", "datetime", "os.system", "*", "0", 5, None, True, [], ["uuid"], {"*": "uuid"}]
    allowed = TYPED | {str, int, float, bool, type(None)}
    for _ in range(2_000):
        plain = json.loads(json.dumps(split(any_payload(draw))[0]))
        types = {draw.choice(["a", "0", "*", "1", "9" * 5_000]): draw.choice(names) for _ in range(3)}
        for shape in (types, {"*": types}, {"0": types, "a": types}, [types], draw.choice(names)):
            found = joined(json.loads(json.dumps(plain)), shape)
            assert kinds(found) <= allowed
            assert is_read_from(found, plain)


def kinds(value: Any) -> set[type]:
    if isinstance(value, dict | list):
        parts = value.values() if isinstance(value, dict) else value
        return set().union(*(kinds(part) for part in parts))
    return {type(value)}


def is_read_from(found: Any, plain: Any) -> bool:
    """Whether only strings became values of our types."""
    if isinstance(found, dict | list):
        keys = found.keys() if isinstance(found, dict) else range(len(found))
        return len(found) == len(plain) and all(is_read_from(found[key], plain[key]) for key in keys)
    return found == plain or (type(found) in TYPED and isinstance(plain, str))


@pytest.mark.parametrize("text", ["1990-01-02", "1990-01-02T03:04:05+00:00", "5400", "12:30:00"])
def test_the_spellings_of_a_string_are_what_python_shows_of_it_as_any_type(text: str) -> None:
    shown = value_types.spellings(text)
    for name in ("date", "datetime", "time", "timedelta", "decimal"):
        value = joined(text, name)
        assert value == text or {str(value), repr(value)} <= shown
