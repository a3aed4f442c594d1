"""Counts as people read them: in groups of three digits, and with a sign where counting stopped."""

from __future__ import annotations

from django.utils.formats import number_format


class Capped(int):
    """A count that stopped at a cap says so: ``500+``."""

    more: bool

    def __new__(cls, found: int, cap: int) -> Capped:
        count = super().__new__(cls, min(found, cap))
        count.more = found > cap
        return count

    def __str__(self) -> str:
        return f"{grouped(self)}+" if self.more else grouped(self)


def grouped(number: int) -> str:
    """Write a whole number as its reader's language does, in groups of three: 10,000, or 10.000 in German."""
    return number_format(int(number), force_grouping=True)
