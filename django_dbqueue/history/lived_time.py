"""How old a row of the history is, by a clock that may have been set: time counts in which somebody checked it.

Workers check the database's clock every few minutes, and remember what it showed. If it has moved by hours since the
last check, it was set ahead, or no worker ran: from within, one can't be told from the other. Such a gap counts for a
tenth of the retention, and for a day at most. So a clock that jumps a year ahead makes the history a day older, whether
it stays there or returns; and workers that run once a day don't keep it for ever.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

SECOND: Final = 1_000_000
"""Microseconds, in which all moments and stretches are here."""
UNSEEN: Final = 2 * 3_600 * SECOND
"""A longer time between two checks is a gap."""
MOST_OF_A_GAP: Final = 86_400 * SECOND
SHARE_OF_A_GAP: Final = 10
"""A gap counts for at most 1/SHARE_OF_A_GAP of the retention."""


def most_of_a_gap(seconds: float) -> int:
    """Return what counts of a gap at most, for an age of this many seconds."""
    return min(MOST_OF_A_GAP, int(seconds * SECOND) // SHARE_OF_A_GAP)


@dataclass(frozen=True, slots=True)
class LivedTime:
    """The last check, and the gaps before it, the oldest first: from a check to the next one."""

    seen: int
    gaps: tuple[tuple[int, int], ...] = ()

    def checked(self, now: int) -> LivedTime:
        """Return this with another check. A clock that was set back takes back what it had gone ahead."""
        gaps = tuple((begin, min(end, now)) for begin, end in self.gaps if now - begin > UNSEEN)
        if now - self.seen > UNSEEN:
            gaps = (*gaps, (self.seen, now))
        return LivedTime(now, gaps)

    def before(self, seconds: float) -> int:
        """Return the moment that lies this many seconds of lived time before the last check."""
        left, moment, most = int(seconds * SECOND), self.seen, most_of_a_gap(seconds)
        for begin, end in reversed(self.gaps):
            if moment - end >= left:
                break
            left -= moment - end
            counted = min(end - begin, most)
            if counted >= left:
                return end - left
            left -= counted
            moment = begin
        return moment - left

    def since(self, moment: int) -> LivedTime:
        """Return this without the gaps that ended before a moment."""
        return LivedTime(self.seen, tuple(gap for gap in self.gaps if gap[1] > moment))

    @property
    def unseen(self) -> float:
        """Return the seconds of all gaps."""
        return sum(end - begin for begin, end in self.gaps) / SECOND
