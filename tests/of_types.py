"""Values of the types that come back, in every form that a payload may have; and a look that tells them apart."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any, Final
from zoneinfo import ZoneInfo

BERLIN: Final = ZoneInfo("Europe/Berlin")
AMSTERDAM: Final = ZoneInfo("Europe/Amsterdam")
ODD_OFFSET: Final = timezone(-timedelta(hours=3, minutes=7, seconds=11, microseconds=13))

VALUES: Final[list[Any]] = [
    uuid.UUID(int=0),
    uuid.UUID(int=2**128 - 1),
    uuid.UUID("12345678-1234-5678-9234-567812345678"),
    datetime(2026, 11, 27, 20, 39, 52, 123456, tzinfo=UTC),
    datetime(2026, 11, 27, tzinfo=UTC),
    datetime(2026, 11, 27, 20, 39, 52),  # noqa: DTZ001
    datetime(2026, 11, 27, 20, 39, 52, 1, tzinfo=ODD_OFFSET),
    datetime(2026, 7, 1, 12, tzinfo=BERLIN),
    datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN),
    datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN, fold=1),
    datetime(2026, 3, 29, 2, 30, tzinfo=BERLIN),
    datetime(1901, 1, 1, tzinfo=AMSTERDAM),
    datetime.min,  # noqa: DTZ901
    datetime.max,  # noqa: DTZ901
    datetime.min.replace(tzinfo=UTC),
    datetime.max.replace(tzinfo=UTC),
    datetime.max.replace(tzinfo=ODD_OFFSET),
    date.min,
    date.max,
    date(2024, 2, 29),
    time.min,
    time.max,
    time(20, 39, tzinfo=UTC),
    time(20, 39, 52, 7, tzinfo=ODD_OFFSET),
    timedelta(0),
    timedelta(microseconds=1),
    -timedelta(microseconds=1),
    timedelta(days=-1, seconds=1, microseconds=900_000),
    timedelta(hours=36, microseconds=500_000),
    timedelta.min,
    timedelta.max,
    Decimal(0),
    Decimal("-0"),
    Decimal("12.50"),
    Decimal("1E+3"),
    Decimal("-1E-30"),
    Decimal("0." + "123456789" * 9),
    Decimal("9" * 200),
    Decimal("1E+999999"),
]
LOOKALIKES: Final[list[Any]] = [
    "12345678-1234-5678-9234-567812345678",
    "2026-11-27T20:39:52+00:00",
    "2026-11-27",
    "20:39:52",
    "12.50",
    "0",
    "",
    "uuid",
    "*",
    12.5,
    0,
    None,
    True,
]
"""What a tag must not touch."""
FORMS: Final[list[Callable[[Any], Any]]] = [
    lambda value: value,
    lambda value: [value],
    lambda value: {"a value": value, "dbqueue.types": "of the payload's own"},
    lambda value: [value] * 3,
    lambda value: [str(value), value, None, value],
    lambda value: {"0": [{"*": value, "text": "12.50"}, {"*": None}, {}, {"text": "13"}]},
    lambda value: [[{"/~.\"'é": value}], [], [{"/~.\"'é": "0"}]],
]


def as_seen(value: Any) -> Any:
    """What must be the same of a value that came back: its type, and all that it says; a zone is its offset then."""
    if isinstance(value, dict):
        return {key: as_seen(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [as_seen(item) for item in value]
    if isinstance(value, datetime | time):
        return type(value), value.replace(tzinfo=None, fold=0), value.utcoffset()
    return type(value), str(value)


def any_payload(draw: random.Random, depth: int = 4) -> Any:
    """A payload drawn by chance: typed values and what looks like them, in lists of rows, of anything, in objects."""
    kind = draw.randrange(6 if depth else 2)
    if kind < 2:
        return draw.choice(VALUES if draw.random() < 0.6 else LOOKALIKES)
    if kind == 2:
        return [any_payload(draw, depth - 1) for _ in range(draw.randrange(4))]
    if kind == 3:
        return {draw.choice(["a", "0", "*", "ü"]): any_payload(draw, depth - 1) for _ in range(3)}
    types = draw.choices([*{type(value) for value in VALUES}, str], k=2)
    return [{str(n): _one_of(draw, kind) for n, kind in enumerate(types) if draw.random() < 0.8} for _ in range(3)]


def _one_of(draw: random.Random, kind: type) -> Any:
    return draw.choice([value for value in [*VALUES, *LOOKALIKES] if type(value) is kind or value is None])
