"""Removing values that must not be read from a text that may quote them: an error, which often says what it failed on.

Of every redacted value (``secrets_between``), the text loses

* one of four or more characters wherever it occurs, also inside a longer word and in another case; as it is, and as
  ``repr()``, JSON and URLs write it. At the text's end also its beginning, since errors are cut;
* one of two or three characters where it stands alone, unless it is a line number: masking every 12 in 1234 would
  only disguise that nothing is hidden;
* one of a single character, and true, false and null, only after its field's name (``pin=1``, ``'pin': 1``).

What was derived from a value (its last four digits, its length, a translation) can't be known, and stays. If that is
too much, only those who may see payloads are shown more than the ``outline``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple
from urllib.parse import quote, quote_plus

from django_dbqueue.codecs import Json
from django_dbqueue.redaction.json_in_text import Unreadable, characters, opened
from django_dbqueue.redaction.matching import LEAST as ANYWHERE
from django_dbqueue.redaction.matching import Masks

UNTOLD: Final = "[not shown]"
"""Replaces what an error says, if it may not be shown."""

_TIMES_WRITTEN: Final = 3
"""Maximum number of times a value is re-encoded: JSON in JSON, in the ``repr()`` of its container."""
_WORDS = re.compile(r"""[^\s"'<>,;(){}\[\]=:]{4,}""")
_TRACE: Final = "Traceback (most recent call last):"
_FRAME = re.compile(r'^[ |+]*File "[^"\n]+", line \d+, in [^\s"]+$', re.MULTILINE)
_RAISED = re.compile(r"[A-Za-z_][\w.<>]*(?=:|$)", re.MULTILINE)
_ERROR_NAME = re.compile(
    r"(?:\w+\.)*(?=[A-Z])\w*"
    r"(?:Error|Exception|Timeout|TimedOut|Over|Gone|Spent|Died|Interrupted|Retry|UndecodableMessage)(?=:)"
)


class Secret(NamedTuple):
    """A value that must not be read, and the name of its field ("" in a list)."""

    field: str
    value: Json


def secrets_between(before: Json, after: Json, field: str = "") -> set[Secret]:
    """Return the values that are in ``before`` and are gone, or changed, in ``after``.

    Raise Unreadable if one of them looks like JSON and can't be read: an error may quote any part of it.
    """
    if isinstance(before, dict) and isinstance(after, dict):
        pairs: Iterable[tuple[Json, Json, Json]] = ((key, item, after.get(key, _GONE)) for key, item in before.items())
    elif isinstance(before, list | tuple) and isinstance(after, list | tuple) and len(before) == len(after):
        pairs = ((field, *both) for both in zip(before, after, strict=True))
    elif isinstance(before, str | bytes) and isinstance(after, str | bytes):
        return _between_texts(before, after, field)
    elif type(before) is type(after) and before == after:
        return set()
    else:
        left = {secret.value for secret in _leaves(after, "")}
        return {secret for secret in _leaves(before, field) if secret.value not in left}
    return set().union(*(secrets_between(one, other, key) for key, one, other in pairs))


def masked(text: str, secrets: Iterable[Secret], *, mark: str) -> str | None:
    """Return the text with each of these values replaced by a mark; None if that would take too long."""
    anywhere: set[str] = set()
    alone: set[str] = set()
    behind: set[tuple[str, str]] = set()
    for field, value in secrets:
        for form in _written(_beginning(value, len(text))):
            if len(form) > 1 and not _is_word_of_json(value):
                (anywhere if len(form) >= ANYWHERE else alone).add(form)
            elif field:
                behind.add((field, form))
    masks = Masks(text)
    if not (masks.behind(behind) and masks.anywhere(anywhere)):
        return None
    masks.alone(alone)
    return masks.shown(mark)


def _beginning(value: Json, length: int) -> Json:
    """Return as much of a longer value as a text can contain; ``repr()`` chooses quotes by all of it."""
    if not isinstance(value, str) or len(value) <= length:
        return value
    return value.lstrip()[: length + 1] + "".join(quote for quote in "'\"" if quote in value)


def outline(text: str) -> str:
    """Return the part of an error that comes from code: the exception's class, and the places in the traceback."""
    text = text.strip()
    if _TRACE not in text:
        name = _ERROR_NAME.match(text)
        return f"{name.group()}: {UNTOLD}" if name else UNTOLD
    head, _, trace = text.partition(_TRACE)
    raised = _RAISED.match(head)
    kind = f"{raised.group()}: {UNTOLD}" if raised else UNTOLD
    return "\n".join([kind, "", _TRACE, *_FRAME.findall(trace)])


class _Gone:
    """A marker for a key that no longer exists."""


_GONE: Final = _Gone()


def _between_texts(before: str | bytes, after: str | bytes, field: str) -> set[Secret]:
    one, other = characters(before), characters(after)
    if one == other:
        return set()
    inside = opened(before)
    if inside is not None:
        try:
            shown = opened(after)
        except Unreadable:
            shown = None
        return {Secret(field, one), *secrets_between(inside, shown, field)}
    words, kept = set(_WORDS.findall(one)), set(_WORDS.findall(other))
    gone = words - kept if words & kept else set()  # a text of which something is left: what was removed from it
    return {Secret(field, value) for value in (one, *gone)}


def _leaves(value: Json, field: str) -> Iterator[Secret]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _leaves(item, key)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _leaves(item, field)
    elif isinstance(value, str | bytes) and (inside := opened(value)) is not None:
        yield Secret(field, _text(value))
        yield from _leaves(inside, field)
    elif value is not _GONE:
        yield Secret(field, _text(value))


def _text(value: Json) -> Json:
    return characters(value) if isinstance(value, bytes) else value


def _is_word_of_json(value: Json) -> bool:
    return value is None or isinstance(value, bool)


def _written(value: Json) -> set[str]:
    """Return the forms in which an error may write a value."""
    if not isinstance(value, str):
        return {str(value), json.dumps(value)}
    if not value.strip():
        return set()
    forms = {value, value.strip()}
    for _ in range(_TIMES_WRITTEN):
        forms |= {written for form in forms for written in _escaped(form)}
    forms |= {quote(form, safe="", errors="replace") for form in (value, json.dumps(value)[1:-1])}
    forms.add(quote_plus(value, errors="replace"))
    return forms


def _escaped(form: str) -> set[str]:
    """Return how Python's ``repr()`` and JSON's writers write a text, without the quotes."""
    return {
        repr(form)[1:-1],
        json.dumps(form)[1:-1],
        json.dumps(form, ensure_ascii=False)[1:-1],
        form.replace("/", "\\/"),
    }
