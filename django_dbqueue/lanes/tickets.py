"""Hand tickets on: what ended makes way for the first of its line, in the same transaction."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Final, NamedTuple

from django_dbqueue.databases.retries import StartAgain
from django_dbqueue.databases.session import Session
from django_dbqueue.databases.statement import LanePlace
from django_dbqueue.lanes import lanes_sql, rates, rates_sql
from django_dbqueue.statuses import NEW, RUNNING

WidthOf = Callable[[int], int]
"""Returns how many tickets a lane has by the settings of its queue."""
IntervalOf = Callable[[int], int | None]
"""Returns the microseconds between two starts in a lane by the settings of its queue, None without a rate."""
WIDEST: Final = 10_000
"""How many tickets a lane can have."""


def followers_of(lane: int) -> int:
    """Return the line of those that a worker has taken along with a head of this lane, to run them one by one.

    A ticket goes to them before it goes to anybody who waits: so that none begins beside them, whatever is sent late.
    """
    return ~lane


class Head(NamedTuple):
    """A ticket, and who waits first in its lane."""

    lane: int
    ticket: int
    held_by: int
    """The message that has it, or the mark of a transaction that has just taken it."""
    follower: int | None
    """The first of those that a worker has taken along."""
    waiting: int | None
    """The first of those that wait in the line."""
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


def leave(
    session: Session,
    places: Sequence[LanePlace],
    width_of: WidthOf,
    *,
    may_wait: bool,
    may_follow: bool,
    hands_over: bool,
    interval_of: IntervalOf | None = None,
) -> set[int]:
    """Take messages that ended out of their lanes; return the lanes to be kicked once that is committed.

    ``may_wait``: some may still stand in a line; ``may_follow``: a worker may have taken some along. ``hands_over``:
    the transaction is ours, and short, so each ticket is given to who is next. In a caller's transaction it is only
    freed: nobody must wait for what follows there.
    """
    pairs = sorted((place.lane, place.id) for place in places)
    places_left = pairs if may_wait else []
    if may_follow:
        places_left = [*places_left, *((followers_of(lane), message_id) for lane, message_id in pairs)]
    if places_left:
        session.run(lanes_sql.leave(session.server, places_left))
    if not hands_over:
        session.run(lanes_sql.free(session.server, pairs))
        return {lane for lane, _ in pairs}
    return hand_over(session, pairs, width_of, interval_of)


def hand_over(
    session: Session, held: list[tuple[int, int]], width_of: WidthOf, interval_of: IntervalOf | None = None
) -> set[int]:
    """Give the tickets that messages (or marks) have to who is next in each lane; free the others.

    Return the lanes of the freed ones. StartAgain if somebody drops what was to run next: repeat the transaction.
    Where a group has a rate, its own or by ``interval_of``, who is next is due when the schedule says.
    """
    freed: set[int] = set()
    while held:
        heads = [Head(*row) for row in session.fetch(lanes_sql.heads(session.server, held))]
        if stale := [head for head in heads if head.is_stale]:
            _leave_stale(session, stale)
            continue
        now = list({head.lane: head for head in reversed(heads)}.values())
        freed |= _hand_over_one_each(session, now, width_of, interval_of)
        held = [(head.lane, head.held_by) for head in heads if head not in now]
    return freed


def _hand_over_one_each(
    session: Session, heads: Sequence[Head], width_of: WidthOf, interval_of: IntervalOf | None
) -> set[int]:
    going = [head for head in heads if _goes_on(head, width_of)]
    freed = [head for head in heads if head not in going]
    if freed:
        session.run(lanes_sql.free(session.server, [(head.lane, head.held_by) for head in freed]))
    if going:
        paced = _paced(going, width_of, interval_of)
        if paced:
            _schedule(session, paced)
        _let_run(session, going, [pace.message_id for pace in paced])
    return {head.lane for head in freed}


class PacedMessage(NamedTuple):
    """A message that is to start by its group's rate."""

    head: Head
    message_id: int
    interval: int
    """Microseconds between two starts."""
    lead: int
    """Microseconds that the schedule can be ahead of now: as many starts as there are tickets."""


def _paced(heads: Sequence[Head], width_of: WidthOf, interval_of: IntervalOf | None) -> list[PacedMessage]:
    paced = []
    for head in heads:
        if head.first is None or head.status != NEW or not head.is_parked:
            continue
        interval = interval_of(head.lane) if head.rate is None and interval_of else None
        if head.rate is not None:
            interval = rates.interval_of(head.rate)
        if interval is not None:
            width = width_of(head.lane) if head.width is None else head.width
            paced.append(PacedMessage(head, head.first, interval, interval * width))
    return paced


def _schedule(session: Session, paced: Sequence[PacedMessage]) -> None:
    if new := [pace.message_id for pace in paced if pace.head.row is None]:
        session.run(rates_sql.make_groups(session.server, new))
    session.run(rates_sql.step(session.server, [(pace.head.lane, pace.interval, pace.lead) for pace in paced]))


def _leave_stale(session: Session, heads: Sequence[Head]) -> None:
    """Take out of their lines who doesn't stand there; what was made new by hand under its worker waits again."""
    gone = {(head.line, head.first, head.follower is not None and head.status == NEW) for head in heads}
    session.run(
        lanes_sql.leave(session.server, [(line, message_id) for line, message_id, _ in gone if message_id is not None])
    )
    back = [(followers_of(line), message_id) for line, message_id, waits in gone if waits and message_id is not None]
    if back:
        stand_in_line(session, back)


def stand_in_line(session: Session, waiting: Sequence[tuple[int, int]]) -> None:
    """Let messages that are new, given as lane and id, wait in their lines again."""
    session.run(lanes_sql.park(session.server, [message_id for _, message_id in waiting]))
    session.run(lanes_sql.enter(session.server, waiting))


def _goes_on(head: Head, width_of: WidthOf) -> bool:
    width = width_of(head.lane) if head.width is None else head.width
    return head.first is not None and not head.is_paused and head.ticket < width


def _let_run(session: Session, heads: Sequence[Head], paced: Collection[int]) -> None:
    """Messages first, then their places, then the tickets: in the order in which a drop locks them."""
    parked = [head.first for head in heads if head.first is not None and head.status == NEW and head.is_parked]
    places = [(head.line, head.first) for head in heads if head.first is not None]
    tickets = [(*head[:3], head.first) for head in heads if head.first is not None]
    free = [message_id for message_id in parked if message_id not in paced]
    if (
        (free and session.run(lanes_sql.let_run(session.server, free)) != len(free))
        or (paced and session.run(lanes_sql.let_run(session.server, list(paced), paced=True)) != len(paced))
        or session.run(lanes_sql.leave(session.server, places)) != len(places)
        or session.run(lanes_sql.pass_on(session.server, tickets)) != len(tickets)
    ):
        raise StartAgain


def come_back(session: Session, places: Sequence[LanePlace], *, may_follow: bool) -> set[int]:
    """Let messages that are new again keep their tickets; return the lanes of those that have none, and must be kicked.

    Those without a ticket wait in the line again, and so do those whose group was paused in the meantime, or where one
    that was sent earlier waits: two that a worker held come back in whatever order. ``may_follow``: a worker may have
    taken some along.
    """
    pairs = sorted((place.lane, place.id) for place in places)
    heads = {row[2]: Head(*row) for row in session.fetch(lanes_sql.heads(session.server, pairs))}
    resigned = [(head.lane, head.held_by) for head in heads.values() if head.is_paused or _is_behind(head)]
    if resigned:
        session.run(lanes_sql.free(session.server, resigned))
    waiting = [pair for pair in pairs if pair[1] not in heads] + resigned
    if waiting and may_follow:
        session.run(lanes_sql.leave(session.server, [(followers_of(lane), message_id) for lane, message_id in waiting]))
    if waiting:
        stand_in_line(session, waiting)
    return {lane for lane, _ in waiting}


def _is_behind(head: Head) -> bool:
    """Return whether somebody waits who was sent before the one that has the ticket."""
    return head.waiting is not None and head.waiting < head.held_by
