"""The departures as columns of messages, said to Spark; and what a terminal shows of the statistics."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from django_dbqueue.models import QueueStatistic

_DATE = "format_string('%04d-%02d-%02d', int(year), int(month), int(day))"


def _clock(column: str) -> str:
    digits = f"try_cast({column} AS INT)"
    return f"if({digits} IS NULL, NULL, format_string('%02d:%02d', {digits} div 100, {digits} % 100))"


PAYLOAD = f"""named_struct(
    'carrier', carrier, 'flight', int(flight), 'origin', origin, 'destination', dest,
    'tail_number', nullif(tailnum, 'NA'), 'date', {_DATE}, 'scheduled', {_clock("sched_dep_time")},
    'departed', {_clock("dep_time")}, 'delay_minutes', try_cast(dep_delay AS INT))"""
KEY = f"concat_ws('-', carrier, int(flight), {_DATE}, {_clock('sched_dep_time')})"

BAR = 40
"""Characters of the longest bar."""


def table(cells: Iterable[QueueStatistic]) -> Iterator[str]:
    """One line for each queue and hour; times in milliseconds."""
    yield (
        f"{'hour (UTC)':<17}{'queue':<14}{'messages':>9}{'failed':>8}{'dead':>6}"
        f"{'wait p50':>12}{'p95':>11}{'run p50':>12}{'p95':>11}"
    )
    for cell in cells:
        times = zip((cell.wait_p50, cell.wait_p95, cell.run_p50, cell.run_p95), (12, 11, 12, 11), strict=True)
        yield (
            f"{cell.hour:%Y-%m-%d %H:%M} {cell.queue:<14}{cell.messages:>9,}{cell.failures:>8,}{cell.dead:>6,}"
            + "".join(f"{'-' if value is None else f'{value * 1000:,.0f} ms':>{width}}" for value, width in times)
        )


def chart(cells: Iterable[QueueStatistic]) -> Iterator[str]:
    """How many messages ended, and how long they ran, as bars."""
    every = list(cells)
    yield from _bars("messages", [(cell, cell.messages, f"{cell.messages:,}") for cell in every])
    runs = [(cell, cell.run_p95 or 0.0, f"{(cell.run_p95 or 0.0) * 1000:,.1f} ms") for cell in every]
    yield from _bars("run time, 95 of 100 took no longer", runs)


def _bars(title: str, rows: list[tuple[QueueStatistic, Any, str]]) -> Iterator[str]:
    yield title
    longest = max((value for _, value, _ in rows), default=0) or 1
    for cell, value, shown in rows:
        yield f"  {cell.hour:%H:%M} {cell.queue:<14}{'█' * max(1, round(BAR * value / longest))} {shown}"
