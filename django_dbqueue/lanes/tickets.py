"""Hand tickets on: what ended makes way for the first of its line, in the same transaction."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from itertools import zip_longest
from typing import NamedTuple

from django_dbqueue.databases.retries import StartAgain
from django_dbqueue.databases.session import Session
from django_dbqueue.databases.statement import LanePlace
from django_dbqueue.lanes import heads_sql, lanes_sql, rates_sql
from django_dbqueue.lanes.heads import Head, followers_of, heads_of
from django_dbqueue.settable import rates
from django_dbqueue.statuses import NEW

WidthOf = Callable[[int], int]
"""Returns how many tickets a lane has by the settings of its queue."""
IntervalOf = Callable[[int], int | None]
"""Returns the microseconds between two starts in a lane by the settings of its queue, None without a rate."""


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
    in_line = session.run(lanes_sql.leave(session.server, places_left)) if places_left else 0
    if not hands_over:
        _free(session, pairs, in_line)
        return {lane for lane, _ in pairs}
    return set(hand_over(session, pairs, width_of, interval_of))


def _free(session: Session, pairs: Sequence[tuple[int, int]], in_line: int) -> None:
    """Free the tickets of messages in a caller's transaction; ``in_line``: how many of them had none.

    By their numbers: a DELETE by message locks each ticket that it reads, and would wait for whoever else of the lane
    ends in a long transaction.
    """
    held = set(pairs)
    rows = session.fetch(heads_sql.tickets_of(session.server, sorted({lane for lane, _ in pairs})))
    tickets = [row[:3] for row in rows if (row[0], row[2]) in held]
    freed = session.run(lanes_sql.free(session.server, tickets)) if tickets else 0
    if freed + in_line < len(pairs):  # the caller's read view is older than a ticket
        session.run(lanes_sql.free_of(session.server, pairs))


def hand_over(
    session: Session, held: list[tuple[int, int]], width_of: WidthOf, interval_of: IntervalOf | None = None
) -> list[int]:
    """Give the tickets that messages (or marks) have to who is next in each lane; free the others.

    Return the lanes of the freed ones, one for each. StartAgain if somebody drops what was to run next: repeat the
    transaction. Where a group has a rate, its own or by ``interval_of``, who is next is due when the schedule says.
    """
    heads = heads_of(session, held)
    while stale := [head for head in heads if head.is_stale]:
        _leave_stale(session, stale)
        heads = heads_of(session, held)
    if freed := [head for head in heads if not _goes_on(head, width_of)]:
        session.run(lanes_sql.free(session.server, [head[:3] for head in freed]))
    if going := [head for head in heads if _goes_on(head, width_of)]:
        paced = _paced(going, width_of, interval_of)
        _let_run_paced(session, paced)
        _let_run(session, going, {pace.message_id for pace in paced})
    return [head.lane for head in freed]


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


def _let_run_paced(session: Session, paced: Sequence[PacedMessage]) -> None:
    """Make messages due by the schedules of their groups: the first of each, then the second of each, and so on."""
    if new := [pace.message_id for pace in paced if pace.head.row is None]:
        session.run(rates_sql.make_groups(session.server, new))
    by_lane: dict[int, list[PacedMessage]] = {}
    for pace in paced:
        by_lane.setdefault(pace.head.lane, []).append(pace)
    for step in zip_longest(*by_lane.values()):
        now = [pace for pace in step if pace is not None]
        session.run(rates_sql.step(session.server, [(pace.head.lane, pace.interval, pace.lead) for pace in now]))
        ids = [pace.message_id for pace in now]
        if session.run(lanes_sql.let_run(session.server, ids, paced=True)) != len(ids):
            raise StartAgain


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
    dead = [head.first for head in heads if head.first is not None and head.status == NEW and head.is_parked is None]
    places = [(head.line, head.first) for head in heads if head.first is not None]
    tickets = [(*head[:3], head.first) for head in heads if head.first is not None]
    free = [message_id for message_id in parked if message_id not in paced]
    if (
        (free and session.run(lanes_sql.let_run(session.server, free)) != len(free))
        or (dead and len(session.fetch(lanes_sql.lock_dead(session.server, dead))) != len(dead))
        or session.run(lanes_sql.leave(session.server, places)) != len(places)
        or session.run(lanes_sql.pass_on(session.server, tickets)) != len(tickets)
    ):
        raise StartAgain


def come_back(
    session: Session, places: Sequence[LanePlace], *, may_follow: bool, sees_the_past: bool = False
) -> set[int]:
    """Let messages that are new again keep their tickets; return the lanes of those that have none, and must be kicked.

    Those without a ticket wait in the line again, and so do those whose group was paused in the meantime, or where one
    that was sent earlier waits: two that a worker held come back in whatever order. ``may_follow``: a worker may have
    taken some along. ``sees_the_past``: reads don't tell who has a ticket, so all give theirs back, and the kick lets
    them in by the line.
    """
    pairs = sorted((place.lane, place.id) for place in places)
    if may_follow:  # before the look: who ends beside us passes its ticket to those that stand there
        session.run(lanes_sql.leave(session.server, [(followers_of(lane), message_id) for lane, message_id in pairs]))
    if sees_the_past:
        session.run(lanes_sql.free_of(session.server, pairs))
    heads = [] if sees_the_past else heads_of(session, pairs)
    first = {head.lane: head.waiting for head in reversed(heads)}
    resigned = [head[:3] for head in heads if head.is_paused or _is_behind(head, first[head.lane])]
    if resigned:
        session.run(lanes_sql.free(session.server, resigned))
    keeping = {head.held_by for head in heads} - {message_id for _, _, message_id in resigned}
    waiting = [pair for pair in pairs if pair[1] not in keeping]
    if waiting:
        stand_in_line(session, waiting)
    return {lane for lane, _ in waiting}


def _is_behind(head: Head, first: int | None) -> bool:
    """Return whether somebody waits who was sent before the one that has the ticket."""
    return first is not None and first < head.held_by
