"""The kick: whoever has committed something that may let a lane continue looks afterwards, and lets it."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import partial
from typing import Final

from django_dbqueue.databases.session import Session
from django_dbqueue.databases.statement import new_token
from django_dbqueue.lanes import lanes_sql
from django_dbqueue.lanes.tickets import IntervalOf, WidthOf, hand_over

AT_ONCE: Final = 200
"""Lanes that one transaction lets continue."""


def kick(
    session: Session,
    lanes: Collection[int],
    width_of: WidthOf,
    *,
    interval_of: IntervalOf | None = None,
    once: bool = False,
) -> set[int]:
    """Let the first of each line run while its lane has a free ticket; return the lanes in which one did.

    ``once``: one of each lane at most, and no more. ``interval_of``: see ``tickets.hand_over``.

    It reads plainly which tickets are out, and takes one only where it sees none: so it waits for nobody's long
    transaction, and who frees a ticket there kicks after that commit.
    """
    moved: set[int] = set()
    rest = sorted(lanes)
    while rest:
        went_on: set[int] = set()
        for part in [rest[start : start + AT_ONCE] for start in range(0, len(rest), AT_ONCE)]:
            if free := _free_tickets(session, part, width_of):
                went_on |= session.outermost(partial(_take_and_give, session, free, width_of, interval_of))
        moved |= went_on
        rest = [] if once else sorted(went_on)
    return moved


def _free_tickets(session: Session, lanes: Collection[int], width_of: WidthOf) -> list[tuple[int, int]]:
    """Return the lowest free ticket of each lane where somebody waits, as lane and number."""
    out: dict[int, set[int]] = {}
    width: dict[int, int] = {}
    for lane, first, ticket, own_width, is_paused in session.fetch(lanes_sql.occupancy(session.server, [*lanes])):
        if first is None or is_paused:
            continue
        width[lane] = width_of(lane) if own_width is None else own_width
        out.setdefault(lane, set()).update(() if ticket is None else (ticket,))
    return [(lane, number) for lane, used in sorted(out.items()) if (number := _lowest_free(used)) < width[lane]]


def _lowest_free(used: Collection[int]) -> int:
    return next(number for number in range(len(used) + 1) if number not in used)


def _take_and_give(
    session: Session, free: Iterable[tuple[int, int]], width_of: WidthOf, interval_of: IntervalOf | None
) -> set[int]:
    mark = -new_token()
    tickets = list(free)
    with session.transaction():
        session.run(lanes_sql.draw(session.server, tickets, mark))
        unused = hand_over(session, [(lane, mark) for lane, _ in tickets], width_of, interval_of)
    return {lane for lane, _ in tickets} - unused
