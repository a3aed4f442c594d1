"""The books: what the queue and the totals say, against what the CSV file says.

`from_file` adds up the file by itself. It shares nothing with the code that makes messages and counts them
but the opening of the file, so that a mistake there shows as a difference.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from .departures import ALERT_AFTER_MINUTES, MISSING, open_csv
from .models import Aircraft, AirportDelay, AirportNotice, AirportReport, CarrierDelay, DelayNotice

Sums = dict[str, Counter[str]]


@dataclass(frozen=True, slots=True)
class Accounts:
    """`airports` and `carriers` map a code to its sums: departures, late, late_minutes, early_minutes."""

    airports: Sums = field(default_factory=dict)
    carriers: Sums = field(default_factory=dict)
    notices: int = 0
    cancelled: int = 0
    aircraft: dict[str, str] = field(default_factory=dict)
    """By tail number, a hash of all departures in their order; empty if they were sent without a group."""
    reports: Sums = field(default_factory=dict)
    """By airport, departures and cancelled; empty if they were sent without a flow."""
    unlike_once: tuple[str, ...] = ()
    """What the notice service heard of a flow's airport never, or more than once."""

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
        found += [
            f"{number}: its departures were not handled once each in the order of the file"
            for number in sorted(self.aircraft.keys() | expected.aircraft.keys())
            if self.aircraft and self.aircraft.get(number) != expected.aircraft.get(number)
        ]
        found += [
            f"{code}: its report has {name} {have[name]:,}, but should have {want[name]:,}"
            for code in sorted(self.reports.keys() | expected.reports.keys())
            for have, want in [(self.reports.get(code, Counter()), expected.reports.get(code, Counter()))]
            for name in ("departures", "cancelled")
            if self.reports and have[name] != want[name]
        ]
        return [*found, *self.unlike_once]


def from_file(path: Path) -> Accounts:
    airports: Sums = {}
    carriers: Sums = {}
    flown: dict[str, dict[str, list[str]]] = {}
    reports: Sums = {}
    notices = cancelled = 0
    with open_csv(path) as text:
        for row in csv.DictReader(text):
            if row["dep_time"] in ("", MISSING):
                cancelled += 1
                reports.setdefault(row["origin"], Counter())["cancelled"] += 1
                continue
            reports.setdefault(row["origin"], Counter())["departures"] += 1
            minutes, tail = int(row["dep_delay"]), row["tailnum"]
            if tail not in ("", MISSING):
                date = "-".join((row["year"].zfill(4), row["month"].zfill(2), row["day"].zfill(2)))
                time = row["sched_dep_time"].zfill(4)
                key = f"{row['carrier']}-{row['flight']}-{date}-{time[:2]}:{time[2:]}"
                flown.setdefault(row["origin"], {}).setdefault(tail, []).append(key)
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
    return Accounts(airports, carriers, notices, cancelled, _trails(flown), reports)


def _trails(flown: dict[str, dict[str, list[str]]]) -> dict[str, str]:
    """The files of the airports are sent one after another."""
    aircraft: dict[str, str] = {}
    for airport in sorted(flown):
        for tail, keys in flown[airport].items():
            for key in keys:
                aircraft[tail] = sha256(f"{aircraft.get(tail, '')} {key}".encode()).hexdigest()
    return aircraft


def from_database(*, cancelled: int) -> Accounts:
    reports: Sums = {}
    for report in AirportReport.objects.all():
        sums = reports.setdefault(report.airport, Counter())
        sums.update(departures=report.departures or 0, cancelled=report.cancelled or 0)
    return Accounts(
        {row.airport: _sums(row) for row in AirportDelay.objects.all()},
        {row.carrier: _sums(row) for row in CarrierDelay.objects.all()},
        DelayNotice.objects.count(),
        cancelled,
        dict(Aircraft.objects.exclude(trail="").values_list("tail_number", "trail")),
        reports,
        tuple(_unlike_once()),
    )


def _unlike_once() -> Iterator[str]:
    heard = Counter(AirportNotice.objects.values_list("flow", flat=True))
    for report in AirportReport.objects.all():
        if heard[report.flow] != 1:
            yield f"{report}: the notice service was called {heard[report.flow]:,} times, but should be called once"


def _sums(row: AirportDelay | CarrierDelay) -> Counter[str]:
    return Counter(
        departures=row.departures,
        late=row.late,
        late_minutes=row.late_minutes,
        early_minutes=row.early_minutes,
    )
