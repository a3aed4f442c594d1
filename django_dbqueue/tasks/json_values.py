"""Arguments and return values in JSON's types and ours, as Django's ``normalize_json`` makes them, but within bounds.

A value that contains itself, or nests too deep, is refused with a sentence, however deep the caller's own stack is. A
list that is referenced twice is written twice, so a few lists can come to 2^40 values. Each list is walked through
once, and the value is refused if it is too large when written out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from django_dbqueue.codecs import MAX_DEPTH
from django_dbqueue.value_types import TYPED, refuse_subclass

_SCALARS: Final = TYPED | {str, int, float, bool, type(None)}
_LEAST: Final = 2
"""Bytes that a part of a list or dict takes at least: a character and a comma."""
_FEW: Final = 64
"""Bytes up to which a part is walked through again where it is referenced again."""


class TooLarge(ValueError):
    """Written out, the value would take more than can be stored."""


def in_json(value: object, *, most_bytes: int) -> Any:
    """Return a value in JSON's types and ours; TypeError or ValueError if it has none, TooLarge beyond ``most_bytes``.

    Keys, numbers, and what has a type of ours are left as they are: ``codecs.encode`` says which can't be written.
    """
    if type(value) in _SCALARS:
        return value
    try:
        return _Walk(most_bytes).copy(value, 1)
    except RecursionError:  # the stack on which this was called was deep already
        raise ValueError("it nests too deep for the stack on which it was called") from None
    except OverflowError as error:  # len() of a range
        raise TooLarge(f"it has more parts than can be counted: {error}") from error


class _Walk:
    """A walk through one value, which may write out so many bytes."""

    def __init__(self, most_bytes: int) -> None:
        self._most = self._left = most_bytes
        self._done: dict[int, tuple[object, Any, int]] = {}
        """By id: a part, its copy, and the bytes that this takes. The part is kept so that no other gets its id."""

    def copy(self, value: object, depth: int) -> Any:
        """Return a part of the value; ``depth`` is its level."""
        if (done := self._done.get(id(value))) is not None:
            self._spend(done[2])
            return done[1]
        before = self._left
        made = self._copied(value, depth)
        if before - self._left > _FEW:
            self._done[id(value)] = value, made, before - self._left
        return made

    def _copied(self, value: object, depth: int) -> Any:
        if isinstance(value, Mapping):
            self._enter(len(value), depth)
            return {self._part(key, depth): self._part(part, depth) for key, part in value.items()}
        if isinstance(value, bytes):
            try:
                return value.decode()
            except UnicodeDecodeError:
                raise ValueError(f"Unsupported value: {type(value)}") from None
        if value is None or isinstance(value, str | int | float):
            return value
        if isinstance(value, Sequence):
            self._enter(len(value), depth)
            return [self._part(part, depth) for part in value]
        refuse_subclass(value)
        raise TypeError(f"Unsupported type: {type(value)}")

    def _part(self, part: object, depth: int) -> Any:
        return part if type(part) in _SCALARS else self.copy(part, depth + 1)

    def _enter(self, parts: int, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise ValueError(f"it nests deeper than {MAX_DEPTH} levels, or contains itself")
        self._spend(_LEAST * parts)

    def _spend(self, least: int) -> None:
        self._left -= least
        if self._left < 0:
            raise TooLarge(
                f"it takes more bytes as stored than the limit of {self._most:,}, because each part is written out as "
                "often as it is referenced: store the data elsewhere and send a reference"
            )
