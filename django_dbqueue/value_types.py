"""Values that JSON has no type for: stored as plain strings, with their types beside them.

A UUID, a datetime, a date, a time, a timedelta and a Decimal are strings in the JSON text, which SQL, Spark and other
languages read as such. A second value, the types, says which strings they are, in the shape of the first:
``{"order": "uuid", "lines": {"*": {"price": "decimal"}}}``. In an array ``"*"`` stands for all items, ``"0"`` for the
first one. Anybody may have written the types: one that is unknown, or that a string doesn't fit, leaves the string.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final, TypeAlias
from uuid import UUID

TYPES: Final = "dbqueue.types"
"""The header of a message that has the types of its payload."""
NOT_FINITE: Final = "NaN and infinities are not JSON"
EVERY: Final = "*"
"""The key under which the types have all items of an array."""

Plain: TypeAlias = Any
Shape: TypeAlias = "str | dict[str, Shape] | list[Shape] | tuple[Shape, ...] | None"
"""Which strings a value has, and of which types: the name of a type, or "" for a string that is no more; a dict for an
object; a list of one for an array whose items are alike, a tuple for another one. None if it has no string."""

_MICROSECOND: Final = timedelta(microseconds=1)
_SECONDS: Final = re.compile(r"(-?)([0-9]{1,15})(?:\.([0-9]{1,6}))?")
_TOO_FINE: Final = re.compile(r"[.,][0-9]{7}")
"""More digits than microseconds have: they would be lost."""


def _write_moment(value: datetime | time) -> str:
    if value.tzinfo is not None and value.utcoffset() is None:
        raise ValueError(f"{value!r} has a time zone whose offset isn't known without a date: send it without the zone")
    return value.isoformat()


def _write_timedelta(value: timedelta) -> str:
    """Return seconds, which every server and Spark can cast to a number: a float hasn't digits enough."""
    micro = value // _MICROSECOND
    seconds, rest = divmod(abs(micro), 1_000_000)
    return f"{'-' * (micro < 0)}{seconds}{f'.{rest:06d}'.rstrip('0') if rest else ''}"


def _write_decimal(value: Decimal) -> str:
    if not value.is_finite():
        raise ValueError(NOT_FINITE)
    return str(value)


def _read_datetime(text: str) -> datetime:
    return datetime.fromisoformat(_fine(text))


def _read_time(text: str) -> time:
    return time.fromisoformat(_fine(text))


def _read_timedelta(text: str) -> timedelta:
    if (found := _SECONDS.fullmatch(text)) is None:
        raise ValueError("not a number of seconds")
    sign, seconds, rest = found.groups("")
    length = timedelta(seconds=int(seconds), microseconds=int(rest.ljust(6, "0")))
    return -length if sign else length


def _read_decimal(text: str) -> Decimal:
    value = Decimal(text)
    if not value.is_finite():
        raise ValueError("not a number")
    return value


def _fine(text: str) -> str:
    if _TOO_FINE.search(text):
        raise ValueError("finer than microseconds")
    return text


_WRITERS: Final[Mapping[type, tuple[str, Callable[[Any], str]]]] = {
    UUID: ("uuid", str),
    datetime: ("datetime", _write_moment),
    date: ("date", date.isoformat),
    time: ("time", _write_moment),
    timedelta: ("timedelta", _write_timedelta),
    Decimal: ("decimal", _write_decimal),
}
_READERS: Final[Mapping[str, Callable[[str], object]]] = {
    "uuid": UUID,
    "datetime": _read_datetime,
    "date": date.fromisoformat,
    "time": _read_time,
    "timedelta": _read_timedelta,
    "decimal": _read_decimal,
}
TYPED: Final = frozenset(_WRITERS)
"""The types themselves. One of a subclass would come back as another type, so it is refused."""


def split(value: object) -> tuple[Plain, Plain]:
    """Return a value in JSON's types, and its types; TypeError or ValueError for what is neither."""
    plain, shape = _walked(value)
    return plain, _types_of(shape)


def joined(plain: Plain, types: Plain) -> Any:
    """Return a value, just decoded, of the types that are beside it; containers are changed in place."""
    if isinstance(types, str):
        return _read(plain, types)
    if not isinstance(types, dict):
        return plain
    if isinstance(plain, dict):
        for key in types.keys() & plain.keys():
            plain[key] = joined(plain[key], types[key])
    elif isinstance(plain, list):
        every = types.get(EVERY)
        for index, item in enumerate(plain):
            plain[index] = joined(item, every if every is not None else types.get(str(index)))
    return plain


def types_in(types: Plain, *values: Plain) -> Plain:
    """Return of types what leads to a part of one of these values, of which some may be gone; None if nothing does.

    Types name the keys of objects, also of those that people are not to be shown.
    """
    if not isinstance(types, dict):
        return types if isinstance(types, str) and types in _READERS else None
    found: dict[str, list[Plain]] = {}
    for value in values:
        for key, part in _parts_named(types, value):
            found.setdefault(key, []).append(part)
    parts = {key: types_in(part, *found[key]) for key, part in types.items() if key in found}
    return {key: part for key, part in parts.items() if part is not None} or None


def _parts_named(types: Mapping[str, Plain], value: Plain) -> Iterator[tuple[str, Plain]]:
    if isinstance(value, dict):
        yield from ((key, value[key]) for key in types.keys() & value.keys())
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from ((key, item) for key in (EVERY, str(index)) if key in types)


def spellings(text: str) -> set[str]:
    """Return how Python shows the values of any type that a string may be: what an error that quotes one has in it."""
    values = [value for name in _READERS if (value := _read(text, name)) is not text]
    return {write(value) for value in values for write in (str, repr)}


def _read(text: Plain, name: str) -> Any:
    read = _READERS.get(name)
    if read is None or not isinstance(text, str):
        return text
    try:
        return read(text)
    except (ValueError, ArithmeticError):  # whoever wrote it: what doesn't fit is a plain string
        return text


def _walked(value: Any) -> tuple[Plain, Shape]:
    known = _WRITERS.get(type(value))
    if known is not None:
        name, write = known
        return write(value), name
    if isinstance(value, str):
        return value, ""
    if value is None or isinstance(value, int | float):
        return value, None
    if isinstance(value, dict):
        items = {key: _walked(item) for key, item in value.items()}
        shapes: dict[str, Shape] = {key: shape for key, (_, shape) in items.items() if shape is not None}
        return {key: plain for key, (plain, _) in items.items()}, shapes or None
    if isinstance(value, list | tuple):
        pairs = [_walked(item) for item in value]
        return [plain for plain, _ in pairs], _of_array([shape for _, shape in pairs])
    refuse_subclass(value)
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


def refuse_subclass(value: object) -> None:
    """Raise TypeError for what has the type of a subclass of one of these."""
    base = next((base.__name__ for base in type(value).__mro__ if base in _WRITERS), None)
    if base is not None:
        raise TypeError(f"a {type(value).__name__} would come back as a {base}, so convert it first")


class _Unlike(Exception):
    """No single shape holds for all items of an array."""


def _of_array(shapes: Sequence[Shape]) -> Shape:
    try:
        common = _common(shapes)
    except _Unlike:
        return tuple(shapes)
    return None if common is None else [common]


def _common(shapes: Sequence[Shape]) -> Shape:
    """Return the shape that holds for all of these; _Unlike if there is none."""
    some: list[Any] = [shape for shape in shapes if shape is not None]
    if len(some) < 2:
        return some[0] if some else None
    kinds = set(map(type, some))
    if kinds == {dict}:
        parts: dict[str, list[Shape]] = {}
        for shape in some:
            for key, part in shape.items():
                parts.setdefault(key, []).append(part)
        return {key: _common(each) for key, each in parts.items()}
    if kinds == {list}:
        return [_common([part for [part] in some])]
    if any(shape != some[0] for shape in some):
        raise _Unlike
    return some[0]  # type: ignore[no-any-return]


def _types_of(shape: Shape) -> Plain:
    """Return a shape as types: without what has none. None if nothing is left."""
    if shape is None or isinstance(shape, str):
        return shape or None
    if isinstance(shape, dict):
        parts = {key: _types_of(part) for key, part in shape.items()}
    elif isinstance(shape, list):
        parts = {EVERY: _types_of(shape[0])}
    else:
        parts = {str(index): _types_of(part) for index, part in enumerate(shape)}
    return {key: types for key, types in parts.items() if types is not None} or None
