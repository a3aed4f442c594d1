"""Rates of groups: how many of their messages may start in a second, a minute or an hour."""

from __future__ import annotations

import re
from typing import Final

_RATE: Final = re.compile(r"([0-9]{1,7})/([smh])\Z")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600}
FASTEST: Final = 10_000
"""Starts in a second."""


class WrongRate(ValueError):
    """A rate that can't be read; its text says what a rate is."""


def interval_of(rate: object) -> int:
    """Return the microseconds between two starts of a rate such as "10/s", "100/m" or "5000/h", rounded up."""
    found = _RATE.match(rate) if isinstance(rate, str) else None
    if found is not None:
        starts, seconds = int(found[1]), _SECONDS[found[2]]
        if 0 < starts <= FASTEST * seconds:
            return -(-1_000_000 * seconds // starts)
    raise WrongRate(f'starts in a second, a minute or an hour, such as "10/s", "100/m" or "5000/h" (up to {FASTEST}/s)')
