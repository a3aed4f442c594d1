"""Groups in a stream: what becomes of the lanes of messages that its claims end or release."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from django_dbqueue.databases import Change
from django_dbqueue.databases.session import Session
from django_dbqueue.databases.statement import LanePlace, Statement
from django_dbqueue.lanes import lanes_sql, tickets
from django_dbqueue.lanes.kick import kick
from django_dbqueue.statements import moves_sql

AT_ONCE: Final = 500
"""Messages that one statement names."""


@dataclass(frozen=True, slots=True)
class LaneRules:
    """What the settings of a queue say about its groups; a stream knows them by the options of its query."""

    group_limit: int = 1
    holds_dead: bool = False
    """Whether a dead message keeps its ticket."""


def places_of(session: Session, where: Statement) -> list[LanePlace]:
    """Lock the rows of a fence that are in a lane, and return their places, in the order of the lanes."""
    return sorted(LanePlace(*row) for row in session.fetch(lanes_sql.places(session.server, where)))


def moved(session: Session, change: Change, places: Sequence[LanePlace], rules: LaneRules) -> set[int]:
    """Let messages that a change has moved keep their tickets, or hand them on, in the same transaction.

    Return the lanes to be kicked once that is committed.
    """
    freed: set[int] = set()
    for part in [places[start : start + AT_ONCE] for start in range(0, len(places), AT_ONCE)]:
        ended = list(part)
        if change.in_lane == "returns":
            ended = places_of(session, moves_sql.dead_of(session.server, [place.id for place in part]))
            freed |= _come_back(session, [place for place in part if place not in ended])
        if ended and (change.in_lane == "done" or not rules.holds_dead):
            freed |= tickets.leave(
                session, ended, lambda _: rules.group_limit, may_wait=False, may_follow=False, hands_over=True
            )
    return freed


def _come_back(session: Session, places: Sequence[LanePlace]) -> set[int]:
    return tickets.come_back(session, places, may_follow=False) if places else set()


def kick_freed(session: Session, lanes: Collection[int], rules: LaneRules) -> None:
    """Let lanes continue whose tickets a committed transaction freed; a worker's keeper does where this is killed."""
    if lanes:
        kick(session, lanes, lambda _: rules.group_limit)
