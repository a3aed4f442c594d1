"""Counts for people: grouped by three digits, and marked where counting stopped."""

from __future__ import annotations

from collections.abc import Iterable

from django.utils.formats import number_format


class Capped(int):
    """A count that shows when it stopped at a cap: ``500+``."""

    more: bool

    def __new__(cls, found: int, cap: int) -> Capped:
        count = super().__new__(cls, min(found, cap))
        count.more = found > cap
        return count

    def __str__(self) -> str:
        return f"{grouped(self)}+" if self.more else grouped(self)


def total_of(counts: Iterable[Capped]) -> Capped:
    """Return the sum, as a lower bound if one of them is."""
    some = list(counts)
    found = sum(some)
    return Capped(found + any(each.more for each in some), found)


def grouped(number: int) -> str:
    """Return a whole number in groups of three, in the reader's language: 10,000, or 10.000 in German."""
    return number_format(int(number), force_grouping=True)


def counted(number: int, one: str, many: str | None = None) -> str:
    """Return a number and what it counts, for the log, which is in English."""
    return f"{number} {one if number == 1 else many or f'{one}s'}"
