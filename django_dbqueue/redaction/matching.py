"""Finding many values in one text, in time that neither the values nor the text can inflate.

A pattern with each value as an alternative is tried with each of them at each character. Here, a text is folded once
and every value is searched for once, by the C library. The longest goes first, so that a value that shares its
beginning with another leaves nothing behind. Beyond the bounds there is no answer, and the caller shows nothing of the
text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

LEAST: Final = 4
"""Characters from which on a form is searched for inside longer words too."""
MOST_ANYWHERE: Final = 2_000
"""Forms whose first characters occur in the text."""
MOST_BEHIND: Final = 200
"""Fields whose name occurs in the text, and whose value is only searched for after it."""
MOST_ENDS: Final = 50
"""Places near the text's end where the beginning of a value may start."""

_COVERED: Final = "\ud800"
"""A lone surrogate: no stored text can have one."""
_ALONE_BEFORE = re.compile(r"(?<![\w.])(?<!line )")
_ALONE_BEHIND = re.compile(r"(?!\w|\.\d)")


class Masks:
    """The characters of a text that must not be read, found form by form, ignoring case."""

    def __init__(self, text: str) -> None:
        self.text = text
        pieces = [char.casefold() for char in text]
        self._folded = "".join(pieces)
        self._whence = [at for at, piece in enumerate(pieces) for _ in piece]
        self._beginnings = {self._folded[at : at + LEAST] for at in range(len(self._folded))}
        self._covered = bytearray(len(text))

    def anywhere(self, forms: Iterable[str]) -> bool:
        """Take these wherever they occur, and their beginnings at the text's end; return False if they are too many."""
        folded = {form.casefold() for form in forms}
        found = [form for form in folded if form[:LEAST] in self._beginnings]
        if len(found) > MOST_ANYWHERE:
            return False
        ends = [at for form in found if (at := self._end_of(form)) is not None]
        left = self._folded
        for form in sorted(found, key=lambda form: (-len(form), form)):
            left = left.replace(form, _COVERED * len(form))
        for at, char in enumerate(left):
            if char == _COVERED:
                self._covered[self._whence[at]] = 1
        if ends:
            begin = self._whence[min(ends)]
            self._covered[begin:] = b"\1" * (len(self.text) - begin)
        return True

    def alone(self, forms: Iterable[str]) -> None:
        """Take these, which are short, where they stand alone and are not a line number."""
        folded = {form.casefold() for form in forms}
        for size in {len(form) for form in folded}:
            for at in range(len(self._folded) - size + 1):
                if self._folded[at : at + size] not in folded:
                    continue
                begin, end = self._whence[at], self._whence[at + size - 1] + 1
                if _ALONE_BEFORE.match(self.text, begin) and _ALONE_BEHIND.match(self.text, end):
                    self._covered[begin:end] = b"\1" * (end - begin)

    def behind(self, pairs: Iterable[tuple[str, str]]) -> bool:
        """Take the form of each (field, form) after the field's name; return False if they are too many."""
        found = [pair for pair in pairs if pair[0].casefold() in self._folded]
        if len(found) > MOST_BEHIND:
            return False
        for field, form in found:
            pattern = rf"""{re.escape(field)}['"]?\s*+[:=]\s*+['"]?({re.escape(form)})(?!\w)"""
            for match in re.finditer(pattern, self.text, re.IGNORECASE):
                self._covered[match.start(1) : match.end(1)] = b"\1" * len(match[1])
        return True

    def shown(self, mark: str) -> str:
        """Return the text, with a mark in place of what was taken."""
        parts, at = [], 0
        for match in re.finditer(rb"\x01+", self._covered):
            parts += [self.text[at : match.start()], mark]
            at = match.end()
        return "".join([*parts, self.text[at:]])

    def _end_of(self, form: str) -> int | None:
        """Return where the text ends with the beginning of this form, or may do so."""
        text, at = self._folded, max(0, len(self._folded) - len(form) + 1) - 1
        for _ in range(MOST_ENDS):
            at = text.find(form[:LEAST], at + 1)
            if at < 0 or form.startswith(text[at:]):
                return None if at < 0 else at
        return at
