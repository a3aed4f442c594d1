"""How wide a text is on a terminal, where Chinese characters take two columns."""

from __future__ import annotations

import unicodedata


def columns_of(text: str) -> int:
    """Return how many columns of a terminal the text takes."""
    return sum(_columns(character) for character in text)


def padded(text: str, columns: int, *, at_the_right: bool = False) -> str:
    """Return the text with blanks before it, or after it, up to that many columns."""
    blanks = " " * (columns - columns_of(text))
    return blanks + text if at_the_right else text + blanks


def _columns(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
