"""How far a flow is: counted from its messages' own rows, by primary key, so nobody keeps a counter."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from django_dbqueue.flows import flow_parts_sql
from django_dbqueue.flows.flow_rows import is_unfinished, ranges_of, total_of
from django_dbqueue.sessions.django_session import DjangoSession

SHOWN: Final = 5_000
"""Messages of one flow that pages and commands count: the first ones."""


WINDOWS: Final = 50
"""Places of a large flow at which a sample is counted."""
WIDTH: Final = SHOWN // WINDOWS
"""Ids that are counted at each."""


class FlowStage(NamedTuple):
    """The messages of a flow in one queue and one state."""

    queue: str
    state: str
    """*ready* (or delayed), *waiting*, *running* (or stuck), *done* or *dead*."""
    messages: int
    first: int
    """The lowest id."""


class Progress(NamedTuple):
    """How far a flow is."""

    total: int
    """How many messages it has, those that were spawned included."""
    finished: int
    """How many are done or dropped; those that were archived too."""
    dead: int
    """How many are dead letters."""
    counted: int
    """Of how many messages the others tell: all, or the first ones."""
    stages: tuple[FlowStage, ...]
    """The same by queue and state, of those that are still in the queue's table."""

    @property
    def left(self) -> int:
        """How many have not ended."""
        return max(0, self.counted - self.finished - self.dead)

    @property
    def all_finished(self) -> bool:
        """Whether every message has ended well."""
        return self.finished >= self.total


def progress_of(session: DjangoSession, flow: int, *, most: int | None = None) -> Progress:
    """Count the messages of a flow; of those that it had first no more than ``most``."""
    counted, chunks = ranges_of(session, flow, most=most)
    stages = _stages(session, flow, chunks)
    dead, live = _unended(stages)
    return Progress(total_of(session, flow), max(0, counted - dead - live), dead, counted, stages)


class Estimate(NamedTuple):
    """About how far a flow is: counted if it has no more messages than ``SHOWN``, else from a sample."""

    total: int
    finished: int
    dead: int
    is_exact: bool


def estimate_of(session: DjangoSession, flow: int) -> Estimate:
    """Say how far a flow is, and read few of its messages, however many it has. Its end is never an estimate."""
    total = total_of(session, flow)
    _, chunks = ranges_of(session, flow)
    ranges = [pair for chunk in chunks for pair in chunk]
    if _ids(ranges) <= SHOWN:
        dead, live = _unended(_stages(session, flow, chunks))
        return Estimate(total, max(0, total - dead - live), dead, is_exact=True)
    sample = _sample(ranges)
    dead, live = (round(each * _ids(ranges) / _ids(sample)) for each in _unended(_stages(session, flow, [sample])))
    if not dead + live and is_unfinished(session, flow):
        live = 1
    dead = min(dead, total)
    return Estimate(total, max(0, total - dead - live), dead, is_exact=False)


def _stages(session: DjangoSession, flow: int, chunks: Iterable[list[tuple[int, int]]]) -> tuple[FlowStage, ...]:
    found: dict[tuple[str, str], tuple[int, int]] = {}
    for ranges in chunks:
        for queue, state, messages, first in session.fetch(flow_parts_sql.stages_of(session.server, flow, ranges)):
            before, lowest = found.get((queue, state), (0, first))
            found[queue, state] = (before + messages, min(lowest, first))
    return tuple(FlowStage(*names, *numbers) for names, numbers in sorted(found.items()))


def _unended(stages: Iterable[FlowStage]) -> tuple[int, int]:
    """Return how many are dead, and how many have not ended."""
    dead = sum(stage.messages for stage in stages if stage.state == "dead")
    return dead, sum(stage.messages for stage in stages if stage.state not in ("dead", "done"))


def _sample(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return windows of ids, at even distances."""
    windows, passed, stride = list[tuple[int, int]](), 0, -(-_ids(ranges) // WINDOWS)
    for first, last in ranges:
        while (start := first + len(windows) * stride - passed) <= last:
            windows.append((start, min(start + WIDTH - 1, last)))
        passed += last - first + 1
    return windows


def _ids(ranges: Iterable[tuple[int, int]]) -> int:
    return sum(last - first + 1 for first, last in ranges)
