"""How far the flows of the airports' files are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from django_dbqueue.models import Flow

from .models import AirportReport


@dataclass(frozen=True, slots=True)
class Standing:
    """How many messages of an airport's flow have ended, the dead ones among them."""

    flow: int
    airport: str
    ended: int
    dead: int
    total: int

    @property
    def dead_ones(self) -> str:
        return f"{self.dead:,} dead" if self.dead else ""

    def __str__(self) -> str:
        dead = f" ({self.dead_ones})" if self.dead else ""
        return f"{self.airport} {self.ended:,} of {self.total:,}{dead}"


def standings() -> Iterator[Standing]:
    airports = dict(AirportReport.objects.values_list("flow", "airport"))
    flows = Flow.objects.in_bulk(airports)
    for number in sorted(flows):
        seen = flows[number].progress()
        yield Standing(number, airports[number], seen.finished + seen.dead, seen.dead, seen.total)


class Bars(Progress):
    """A bar for each flow, drawn when it is told to."""

    def __init__(self, console: Console) -> None:
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[dead]}"),
        )
        super().__init__(*columns, TimeElapsedColumn(), console=console, auto_refresh=False)
        self._bars: dict[int, TaskID] = {}

    def draw(self) -> None:
        for each in standings():
            bar = self._bars.get(each.flow)
            if bar is None:
                bar = self._bars[each.flow] = self.add_task(each.airport, dead="")
            self.update(bar, completed=each.ended, total=each.total, dead=each.dead_ones)
        self.refresh()
