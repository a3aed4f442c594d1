"""The books: what the queue and the totals say, against what the CSV file says.

`from_file` adds up the file by itself. It shares nothing with the code that makes messages and counts them
but the opening of the file, so that a mistake there shows as a difference.
"""

from __future__ import annotations

import csv
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from .departures import ALERT_AFTER_MINUTES, MISSING, open_csv
from .models import AirportDelay, CarrierDelay, DelayNotice

Sums = dict[str, Counter[str]]


@dataclass(frozen=True, slots=True)
class Accounts:
    """`airports` and `carriers` map a code to its sums: departures, late, late_minutes, early_minutes."""

    airports: Sums = field(default_factory=dict)
    carriers: Sums = field(default_factory=dict)
    notices: int = 0
    cancelled: int = 0

    @property
    def departures(self) -> int:
        return sum(sums["departures"] for sums in self.airports.values())

    @property
    def late_minutes(self) -> int:
        return sum(sums["late_minutes"] for sums in self.airports.values())

    def differences(self, expected: Accounts) -> list[str]:
        """One sentence for each number that is not what `expected` has."""
        found = [
            f"{code}: {name} is {have[name]:,}, but should be {want[name]:,}"
            for mine, theirs in ((self.airports, expected.airports), (self.carriers, expected.carriers))
            for code in sorted(mine.keys() | theirs.keys())
            for have, want in [(mine.get(code, Counter()), theirs.get(code, Counter()))]
            for name in ("departures", "late", "late_minutes", "early_minutes")
            if have[name] != want[name]
        ]
        if self.notices != expected.notices:
            found.append(f"delay notices: {self.notices:,} were sent, but should be {expected.notices:,}")
        if self.cancelled != expected.cancelled:
            found.append(
                f"dead letters of cancelled departures: there are {self.cancelled:,}, but should be "
                f"{expected.cancelled:,}"
            )
        return found


def from_file(path: Path) -> Accounts:
    airports: Sums = {}
    carriers: Sums = {}
    notices = cancelled = 0
    with open_csv(path) as text:
        for row in csv.DictReader(text):
            if row["dep_time"] in ("", MISSING):
                cancelled += 1
                continue
            minutes = int(row["dep_delay"])
            notices += minutes > ALERT_AFTER_MINUTES
            for sums in (
                airports.setdefault(row["origin"], Counter()),
                carriers.setdefault(row["carrier"], Counter()),
            ):
                sums["departures"] += 1
                if minutes > 0:
                    sums["late"] += 1
                    sums["late_minutes"] += minutes
                else:
                    sums["early_minutes"] -= minutes
    return Accounts(airports, carriers, notices, cancelled)


def from_database(*, cancelled: int) -> Accounts:
    return Accounts(
        {row.airport: _sums(row) for row in AirportDelay.objects.all()},
        {row.carrier: _sums(row) for row in CarrierDelay.objects.all()},
        DelayNotice.objects.count(),
        cancelled,
    )


def _sums(row: AirportDelay | CarrierDelay) -> Counter[str]:
    return Counter(
        departures=row.departures,
        late=row.late,
        late_minutes=row.late_minutes,
        early_minutes=row.early_minutes,
    )
