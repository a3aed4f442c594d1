"""The kick: whoever has committed something that may let a lane continue looks afterwards, and lets it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from functools import partial
from itertools import filterfalse, islice
from typing import Final

from django_dbqueue.databases.session import Session
from django_dbqueue.databases.statement import new_token
from django_dbqueue.lanes import heads_sql, lanes_sql
from django_dbqueue.lanes.tickets import IntervalOf, WidthOf, hand_over
from django_dbqueue.settable.option_table import WIDEST

AT_ONCE: Final = 200
"""Lanes that one transaction lets continue, and about as many tickets that it takes in fewer."""


def kick(
    session: Session,
    lanes: Collection[int],
    width_of: WidthOf,
    *,
    interval_of: IntervalOf | None = None,
    most_of: WidthOf | None = None,
    once: bool = False,
) -> set[int]:
    """Let the first of each line run while its lane has a free ticket; return the lanes in which one did.

    ``once``: one of each lane at most, and no more. ``interval_of``: see ``tickets.hand_over``. ``most_of`` returns how
    many tickets of a lane, whichever they are, let nobody else begin: some may be above a limit that was lowered, or of
    a burst. None: that is known of groups with a limit of their own alone.

    It reads plainly which tickets are out, and takes one only where it sees none: so it waits for nobody's long
    transaction, and who frees a ticket there kicks after that commit. First one of each lane, since there is seldom
    more than one; then all that wait, together.
    """
    moved: set[int] = set()
    rest, most = sorted(lanes), 1
    while rest:
        went_on: set[int] = set()
        for part in [rest[start : start + AT_ONCE] for start in range(0, len(rest), AT_ONCE)]:
            if free := _free_tickets(session, part, width_of, most_of, most):
                went_on |= session.outermost(partial(_take_and_give, session, free, width_of, interval_of))
        moved |= went_on
        rest, most = [] if once else sorted(went_on), AT_ONCE
    return moved


def _free_tickets(
    session: Session, lanes: Collection[int], width_of: WidthOf, most_of: WidthOf | None, most: int
) -> list[tuple[int, int]]:
    """Return the lowest free tickets, as lane and number, of lanes where somebody waits: one of each, ``most`` in all.

    No more of a lane than there are messages that wait.
    """
    out: dict[int, set[int]] = {}
    width: dict[int, int] = {}
    at_once: dict[int, int] = {}
    for lane, first, ticket, own_width, is_paused in session.fetch(lanes_sql.occupancy(session.server, [*lanes])):
        if first is None or is_paused:
            continue
        width[lane] = width_of(lane) if own_width is None else own_width
        at_once[lane] = own_width or (WIDEST if most_of is None else most_of(lane))
        out.setdefault(lane, set()).update(() if ticket is None else (ticket,))
    each = max(1, most // max(1, len(out)))
    free: dict[int, list[int]] = {}
    for lane, used in out.items():
        room = max(0, at_once[lane] - len(used))
        free[lane] = [*islice(filterfalse(used.__contains__, range(width[lane])), min(each, room))]
    if several := sorted((lane, len(numbers)) for lane, numbers in free.items() if len(numbers) > 1):
        waiting = Counter(row[0] for row in session.fetch(heads_sql.first_places(session.server, several)))
        free.update({lane: free[lane][: waiting[lane]] for lane, _ in several})
    return [(lane, number) for lane in sorted(free) for number in free[lane]]


def _take_and_give(
    session: Session, tickets: Sequence[tuple[int, int]], width_of: WidthOf, interval_of: IntervalOf | None
) -> set[int]:
    mark = -new_token()
    drawn = Counter(lane for lane, _ in tickets)
    with session.transaction():
        session.run(lanes_sql.draw(session.server, tickets, mark))
        unused = hand_over(session, [(lane, mark) for lane, _ in tickets], width_of, interval_of)
    return set(drawn - Counter(unused))
