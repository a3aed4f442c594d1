"""Payloads to text and back, byte for byte, or a refusal that says why (promise P12).

There are three content types: ``json`` (anything JSON can express), ``text`` (a string as it is) and ``bytes``
(base64). UUIDs, dates, Decimals and the like are strings in the JSON text, and their types are stored beside it
(``value_types``). What would come back changed is refused up front: NaN and infinities, lone surrogates, keys that
aren't strings, nesting past 200 levels. Arrays come back as lists, and so do tuples.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import repeat
from typing import Any, Final, TypeAlias

from django_dbqueue.exceptions import InvalidMessage, UndecodableMessage
from django_dbqueue.value_types import NOT_FINITE, TYPES, joined, split

JSON: Final = "json"
TEXT: Final = "text"
BYTES: Final = "bytes"
CONTENT_TYPES: Final = (JSON, TEXT, BYTES)

Json: TypeAlias = Any
"""What JSON can express; of a payload also bytes. The checker does not look inside: only the sender knows it."""

MAX_DEPTH: Final = 200
"""Levels of nesting; CPython's own scanner gives up at about a thousand."""
HEADER_DEPTH: Final = MAX_DEPTH + 1  # the types of a payload nest as deep as it does, and are in an object

_BRACKETS = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[\[\]{}]', re.DOTALL)
"""Whole strings, single brackets; the expression never backtracks, and a string may lack its end: a broken body of a
million quotes would keep a worker busy for hours. (CPython's gh-106052 concerns a backslash at the end alone.)"""
_FEW: Final = 64
"""Children below which no count is kept: they can't take many times what is there."""
_LONG: Final = 256
"""Bits of a number above which its digits are counted: one bit takes 0.3 digits."""
_TOGETHER: Final = 64
"""Texts that are encoded as one list: starting the encoder costs as much as a small payload."""
BYTES_OF_CHARACTER: Final = 4
"""In UTF-8, at most."""
MAX_TYPES_BYTES: Final = 16_384
"""What the types beside a payload or a result may take."""
_ALLOWED: Final = "Use dicts with string keys, lists, strings, finite numbers, booleans, None"
_AS_STRINGS: Final = f"{_ALLOWED}; send dates and decimals as strings."
_TYPED: Final = f"{_ALLOWED}, UUIDs, datetimes, dates, times, timedeltas, Decimals; send files as bytes."
_STRING: Final = frozenset({str})
_SCALARS: Final = frozenset({str, int, float, bool, type(None)})
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":"))
"""Cycles are refused beforehand: they nest too deep."""


def encode(payload: object, *, max_bytes: int) -> tuple[str, str, str | None]:
    """Return (body, content type, types or None) of a payload; InvalidMessage if it can't come back as it went in."""
    content_type, types = JSON, None
    if isinstance(payload, bytes | bytearray | memoryview):
        body, content_type = base64.b64encode(bytes(payload)).decode("ascii"), BYTES
    elif isinstance(payload, str) and "\0" not in payload:  # PostgreSQL's text has no NUL; JSON escapes it
        body, content_type = plain(payload), TEXT
    else:
        body, types = _json_and_types(payload, max_bytes)
    size = len(utf8(body, what="payload"))
    if size > max_bytes:
        raise InvalidMessage(
            f"The payload takes {size:,} bytes as stored, but the limit is {max_bytes:,}: store the data elsewhere "
            "and send a reference, or raise DBQUEUE['MAX_PAYLOAD_BYTES'] (of a write by Spark its option "
            "max_payload_bytes), and the server's packet size."
        )
    return body, content_type, types


def plain(text: str) -> str:
    """Return the characters of a text; for an Enum member that is a string, str() would return its name."""
    return text if type(text) is str else str.__str__(text)


def encode_texts(texts: Sequence[str], *, max_bytes: int) -> Iterator[tuple[str, str, str | None]]:
    """Yield what ``encode`` returns for the values of JSON texts; UndecodableMessage if one is broken.

    Texts that already have the form in which they would be stored are recognised in batches, up to the first one that
    doesn't.
    """
    compact = True
    for first in range(0, len(texts), _TOGETHER):
        some = texts[first : first + _TOGETHER]
        compact = compact and max(map(len, some)) * BYTES_OF_CHARACTER <= max_bytes and _are_compact(some)
        if compact:
            yield from zip(some, repeat(JSON), repeat(None))
        else:
            for text in some:
                yield encode(decode_json(text), max_bytes=max_bytes)


def _are_compact(texts: Sequence[str]) -> bool:
    """Return whether each of these is the JSON text that its value would be encoded to.

    Each is known to be a complete text. So it is enough that the list of all values is encoded to the list of all
    texts: a JSON value's own characters determine where it ends.
    """
    try:
        values = [decode_json(text) for text in texts]
        encoded = _ENCODER.encode(values)
        encoded.encode()  # a lone surrogate fails here, too
    except (UndecodableMessage, ValueError, RecursionError):
        return False
    return str not in map(type, values) and encoded == f"[{','.join(texts)}]"


def encode_json(value: object, *, what: str, max_bytes: int) -> str:
    """Return compact JSON text of a value that decodes to an equal one.

    What is certain to take more than ``max_bytes`` is refused before it is written out; what may take more, the caller
    measures.
    """
    _refuse_what_changes(value, what, max_bytes)
    try:
        return _ENCODER.encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise _not_json(what, error, _AS_STRINGS) from error


def _json_and_types(payload: object, max_bytes: int) -> tuple[str, str | None]:
    """Return the JSON text of a payload, and its types, which are looked for only if JSON can't express it."""
    _refuse_what_changes(payload, "payload", max_bytes)
    try:
        try:
            # A result is often an id, and starting the encoder takes twenty times as long
            return str(payload) if type(payload) is int else _ENCODER.encode(payload), None
        except TypeError:
            plain, types = split(payload)
            body = _ENCODER.encode(plain)
    except (TypeError, ValueError, RecursionError) as error:
        raise _not_json("payload", error, _TYPED) from error
    return body, types_text(types)


def types_text(types: Json) -> str:
    """Return the types of a payload as JSON text; InvalidMessage if they take too much."""
    text = encode_json(types, what="types", max_bytes=64 * MAX_TYPES_BYTES)
    if (size := len(utf8(text, what="types"))) > MAX_TYPES_BYTES:
        raise InvalidMessage(
            f"To name the types of all UUIDs, dates, decimals and the like takes {size:,} bytes, but the limit is "
            f"{MAX_TYPES_BYTES:,}: let the items of a list be alike, which are named once, or send strings."
        )
    return text


def _not_json(what: str, error: Exception, allowed: str) -> InvalidMessage:
    reason = NOT_FINITE if "Out of range float" in str(error) else error
    return InvalidMessage(f"The {what} is not JSON: {reason}. {allowed}")


def utf8(text: str, *, what: str) -> bytes:
    """Return the text as UTF-8; a lone surrogate is refused, since no database can store it."""
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InvalidMessage(
            f"The {what} has a lone surrogate (U+{ord(text[error.start]):04X} at position {error.start}), which UTF-8 "
            "can't carry: send it as bytes, or decode it with errors='replace' first."
        ) from error


def decode(body: str, content_type: str, types: Json = None) -> Json:
    """Return the payload of a stored body; UndecodableMessage if it is broken.

    ``types``, decoded, are what stands beside a body of JSON. Without them its values come as they are stored: that is
    what people are shown.
    """
    if content_type == TEXT:
        return body
    if content_type == JSON:
        return decode_json(body) if types is None else joined(decode_json(body), types)
    if content_type == BYTES:
        try:
            return base64.b64decode(body.encode("ascii"), validate=True)
        except (binascii.Error, UnicodeEncodeError) as error:
            raise UndecodableMessage(f"The body is not base64: {error}.") from error
    raise UndecodableMessage(f"Unknown content type {content_type!r}: this version knows {', '.join(CONTENT_TYPES)}.")


def decode_json(text: str, *, levels: int = MAX_DEPTH) -> Json:
    """Return the value of JSON text, under the same limits as ``encode_json``."""
    if text.count("[") + text.count("{") > levels and _is_too_deep(text, levels):
        raise UndecodableMessage(f"The body nests deeper than {levels} levels.")
    try:
        return _decoded(text)
    except (ValueError, RecursionError) as error:
        raise UndecodableMessage(f"The body is not JSON: {error}.") from error


def decode_headers(text: str | None) -> dict[str, Json]:
    """Return headers as a dict; UndecodableMessage if the stored text is not a JSON object."""
    if text is None:
        return {}
    headers = decode_json(text, levels=HEADER_DEPTH)
    if not isinstance(headers, dict):
        raise UndecodableMessage("The headers are not a JSON object.")
    return headers


def types_among(headers_text: str | None) -> Json:
    """Return the types that a message's headers name; None if they name none."""
    if headers_text is None or (TYPES not in headers_text and "\\" not in headers_text):
        return None
    return decode_headers(headers_text).get(TYPES)


def decode_typed(body: str, content_type: str, types: str | None) -> Json:
    """Return what a row holds that has its types in a column; types that can't be read leave the plain values."""
    try:
        return decode(body, content_type, None if types is None else decode_json(types))
    except UndecodableMessage:
        return decode(body, content_type)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)
"""Created once: json.loads() would create one for each text (1.1 of 2.7 µs)."""
_SCAN: Callable[[str, int], tuple[Json, int]] = _DECODER.scan_once  # type: ignore[attr-defined]


def _decoded(text: str) -> Json:
    try:
        value, end = _SCAN(text, 0)
    except (ValueError, StopIteration):
        return _DECODER.decode(text)  # leading whitespace, or an error
    return value if end == len(text) else _DECODER.decode(text)  # trailing whitespace: finding it takes a third more


def _refuse_what_changes(value: object, what: str, max_bytes: int) -> None:
    """Walk the containers without recursion: check depth (which catches cycles), the type of every key, and the size.

    What is referenced twice is written twice, so a few lists can stand for 2^40. Each child therefore counts for the
    least that it takes, a character and a comma, and the walk ends when that is too much.
    """
    stack: list[tuple[object, int]] = [(value, 1)]
    children_met = least = 0
    while stack:
        item, depth = stack.pop()
        if isinstance(item, dict):
            if not _STRING.issuperset(map(type, item)):
                _refuse_other_keys(item, what)
            children = item.values()
        elif isinstance(item, list | tuple):
            children = item  # type: ignore[assignment]
        else:
            continue
        if depth > MAX_DEPTH:
            raise InvalidMessage(f"The {what} nests deeper than {MAX_DEPTH} levels (or contains itself): flatten it.")
        children_met += len(item)
        if children_met > _FEW:
            least += _least_of(item, children)
        if least > max_bytes:
            raise InvalidMessage(
                f"The {what} takes more bytes as stored than the limit of {max_bytes:,}, because each part is "
                "written out as often as it is referenced: store the data elsewhere and send a reference."
            )
        if not _SCALARS.issuperset(map(type, children)):  # as most are flat, check the types alone first
            stack.extend((child, depth + 1) for child in children if isinstance(child, dict | list | tuple))


def _least_of(item: Any, children: Iterable[Any]) -> int:
    """Return the minimum number of bytes that the children of a container, and its keys, take."""
    least = 2 * len(item) + sum([len(child) for child in children if isinstance(child, str)])
    if isinstance(item, dict):
        least += sum(map(len, item))
    if int in map(type, children):
        long = [bits for child in children if type(child) is int and (bits := child.bit_length()) > _LONG]
        least += sum(long) * 3 // 10 - 2 * len(long)
    return least


def _refuse_other_keys(item: dict[object, object], what: str) -> None:
    for key in item:
        if not isinstance(key, str):
            raise InvalidMessage(
                f"The {what} has the key {key!r} of type {type(key).__name__}: JSON would turn it into a string, so "
                "use string keys."
            )


def _is_too_deep(text: str, levels: int) -> bool:
    depth = 0
    for match in _BRACKETS.finditer(text):
        token = match.group()
        if token in "[{":
            depth += 1
            if depth > levels:
                return True
        elif token in "]}":
            depth -= 1
    return False
