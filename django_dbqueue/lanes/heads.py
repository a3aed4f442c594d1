"""Tickets that change hands, and who is next for each: one statement, or two for lanes where several do."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from itertools import chain
from typing import Any, Final, NamedTuple

from django_dbqueue.databases.session import Session
from django_dbqueue.lanes import heads_sql
from django_dbqueue.statuses import NEW, RUNNING

AT_ONCE: Final = 100
"""Lanes that one statement reads several places of."""


def followers_of(lane: int) -> int:
    """Return the line of those that a worker has taken along with a head of this lane, to run them one by one.

    A ticket goes to them before it goes to anybody who waits: so that none begins beside them, whatever is sent late.
    """
    return ~lane


class Head(NamedTuple):
    """A ticket, and who is next for it."""

    lane: int
    ticket: int
    held_by: int
    """The message that has it, or the mark of a transaction that has just taken it."""
    follower: int | None
    """The next of those that a worker has taken along."""
    waiting: int | None
    """The next of those that wait in the line; for the lowest of a lane's tickets the first."""
    status: str | None
    """Of the one that is next."""
    is_parked: bool | None
    width: int | None
    """How many tickets the lane has, if that was set for its group alone."""
    is_paused: bool | None
    rate: str | None = None
    """The rate that was set for its group alone."""
    row: int | None = None
    """The lane again if its group has a row."""

    @property
    def first(self) -> int | None:
        """Return who is next."""
        return self.waiting if self.follower is None else self.follower

    @property
    def line(self) -> int:
        """Return in which line the next one stands."""
        return self.lane if self.follower is None else followers_of(self.lane)

    @property
    def is_stale(self) -> bool:
        """Return whether the next one doesn't stand there any more: somebody deleted or moved it by hand.

        A dead one that holds its group keeps its place in the line, and will have the ticket.
        """
        if self.first is None or self.status == RUNNING:
            return False
        is_due = self.is_parked is not None and not self.is_parked
        return self.follower is not None or self.status != NEW or is_due


def heads_of(session: Session, held: Sequence[tuple[int, int]]) -> list[Head]:
    """Read the tickets of messages (or marks), given as lane and id, and who is next for each: of a lane no two alike.

    They come by lane and ticket. Name a mark as often as it has tickets.
    """
    counts = Counter(lane for lane, _ in held)
    several = sorted(lane for lane, count in counts.items() if count > 1)
    alone = [pair for pair in held if counts[pair[0]] == 1]
    heads = [Head(*row) for row in session.fetch(heads_sql.heads(session.server, alone))] if alone else []
    if len(heads) > len({head.lane for head in heads}):  # somebody's SQL has given a message a second ticket
        twice = {lane for lane, count in Counter(head.lane for head in heads).items() if count > 1}
        heads, several = [head for head in heads if head.lane not in twice], sorted({*several, *twice})
    for start in range(0, len(several), AT_ONCE):
        heads += _of_wide_lanes(session, several[start : start + AT_ONCE], set(held))
    return sorted(heads, key=lambda head: (head.lane, head.ticket))


def _of_wide_lanes(session: Session, lanes: Sequence[int], held: Collection[tuple[int, int]]) -> list[Head]:
    """Read each lane once, however many of its tickets change hands: the i-th goes to the i-th that is next."""
    rows = sorted(session.fetch(heads_sql.tickets_of(session.server, lanes)), key=lambda row: (row[0], row[1]))
    ours = [row for row in rows if (row[0], row[2]) in held]
    places = _first_places(session, Counter(row[0] for row in ours)) if ours else {}
    heads, given = [], Counter[int]()
    for lane, ticket, held_by, *own in ours:
        followers, waiting = places[followers_of(lane)], places[lane]
        number, given[lane] = given[lane], given[lane] + 1
        place = next(iter([*followers, *waiting][number : number + 1]), (None, None, None))
        behind = waiting[max(0, number - len(followers)) :][:1] or [(None,)]
        follower = place[0] if number < len(followers) else None
        heads.append(Head(lane, ticket, held_by, follower, behind[0][0], *place[1:], *own))
    return heads


def _first_places(session: Session, wanted: Counter[int]) -> dict[int, list[tuple[Any, ...]]]:
    lines = chain.from_iterable(((followers_of(lane), most), (lane, most)) for lane, most in wanted.items())
    found: dict[int, list[tuple[Any, ...]]] = defaultdict(list)
    for line, *place in sorted(session.fetch(heads_sql.first_places(session.server, list(lines))), key=lambda r: r[:2]):
        found[line].append(tuple(place))
    return found
