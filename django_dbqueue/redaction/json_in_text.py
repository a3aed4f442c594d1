"""What JSON a text holds, as far as it can be read. What can't be read is reported, and never assumed harmless.

Consumers read more than Python's strict decoder does: with a byte order mark, with NaN, line by line, nested deeper.
Code that hides parts of a text by name has to hide all of what looks like JSON and can't be read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Final
from urllib.parse import unquote_plus

from django_dbqueue import codecs
from django_dbqueue.codecs import Json
from django_dbqueue.exceptions import UndecodableMessage

_AROUND: Final = " \t\r\n\v\f\0\x1c\x1d\x1e\x1f\x85\xa0\u2028\u2029\ufeff"
_JSON_LIKE = re.compile(
    r"""[\s\0\ufeff"'\\]*+(?:\{|\[[\s\0"'\\]*+(?:[\[{\]]|-?\d|true|false|null|-?NaN|-?Infinity|None|True|False|(?<=["'])))"""
)
_ESCAPED = re.compile(r"\\+u([0-9a-fA-F]{4})")
_BEFORE_A_NAME: Final = r"(?:(?<!\w)|(?<=\\[nrtbf]))"
_BEHIND_A_NAME: Final = r"""(?:["'\\\s]++|&quot;|&\#39;)*[:=>]"""


class Unreadable(Exception):
    """A text that looks like JSON, but can't be read as needed."""


def opened(text: str | bytes) -> Json:
    """Return the value of the JSON that a text holds, None if it holds none; Unreadable if that is undecidable.

    The value of JSON that was encoded twice is itself a text.
    """
    text = characters(text)
    if _JSON_LIKE.match(text) is None:
        return None
    return strictly(text.strip(_AROUND))


def strictly(text: str, *, levels: int = codecs.MAX_DEPTH) -> Json:
    """Return the value of JSON text; Unreadable also if an object repeats a name, since one of its values is lost."""
    try:
        codecs.decode_json(text, levels=levels)  # which checks how deep it nests
        return _DECODER.decode(text)
    except (UndecodableMessage, ValueError, RecursionError) as error:
        raise Unreadable from error


def characters(text: str | bytes) -> str:
    """Return a text, or bytes as the text that they may be."""
    if isinstance(text, str):
        return text
    try:
        return text.decode(json.detect_encoding(text))
    except UnicodeDecodeError:
        return text.decode("latin-1")


def names(text: str | bytes, fields: Iterable[tuple[str, ...]]) -> bool:
    """Return whether a text that is not JSON as a whole seems to set one of these fields: ``password=``, ``'pin': ``.

    A field is given by its names from the outside in: all must occur in it, and the last before a sign.
    """
    decoded = _ESCAPED.sub(lambda found: chr(int(found[1], 16)), unquote_plus(characters(text))).casefold()
    return any(
        path
        and all(name in decoded for name in path)
        and re.search(rf"{_BEFORE_A_NAME}{re.escape(path[-1])}{_BEHIND_A_NAME}", decoded) is not None
        for path in fields
    )


def _once(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name occurs twice")
    return found


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_once)
