"""The keeper of lanes: looks after lanes whose sender died between its commit and the kick.

It walks, a bounded number at a time, through the lanes with somebody in their line, and through the tickets that are
out.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Final

from django_dbqueue import conf
from django_dbqueue.databases.statement import LanePlace, Row
from django_dbqueue.lanes import lane_moves, lanes_sql
from django_dbqueue.lanes.heads import followers_of
from django_dbqueue.lanes.tickets import stand_in_line
from django_dbqueue.lanes.walk import LAST, lanes_in_use
from django_dbqueue.sessions.django_session import DjangoSession

STEP: Final = 500
"""Lanes, or tickets, that one statement reads: fewer than the recursions that MySQL allows."""
AT_ONCE: Final = 5_000
"""Of each in one turn; the next turn continues there."""


@dataclass(slots=True)
class LaneKeeper:
    """A walk around the lanes that remembers where it stood."""

    session: DjangoSession
    _lane: int = -1
    _ticket: tuple[int, int] = (-1, 0)
    _follower: tuple[int, int] = (-LAST - 1, 0)

    def turn(self) -> bool:
        """Look at the next lanes and tickets; return whether more are left than one turn looks at."""
        more = self._kick_lanes()
        more = self._free_tickets() or more
        return self._check_followers() or more

    def _kick_lanes(self) -> bool:
        for _ in range(AT_ONCE // STEP):
            lanes = lanes_in_use(self.session, self._lane, STEP)
            if lanes:
                lane_moves.kick_now(self.session, {each.lane: each.queue for each in lanes})
            self._lane = lanes[-1].lane if len(lanes) == STEP else -1
            if self._lane == -1:
                return False
        return True

    def _free_tickets(self) -> bool:
        for _ in range(AT_ONCE // STEP):
            rows = self.session.fetch(lanes_sql.tickets_behind(self.session.server, *self._ticket, STEP))
            if ended := {LanePlace(row[0], row[2], row[3] or ""): row[4] for row in rows if _has_ended(row[3], row[4])}:
                self.session.outermost(partial(self._leave, ended))
            self._ticket = (rows[-1][0], rows[-1][1]) if len(rows) == STEP else (-1, 0)
            if self._ticket == (-1, 0):
                return False
        return True

    def _check_followers(self) -> bool:
        """Take those out of the followers who don't run any more: somebody has moved their rows by hand."""
        for _ in range(AT_ONCE // STEP):
            rows = self.session.fetch(lanes_sql.followers_behind(self.session.server, *self._follower, STEP))
            if moved := [row for row in rows if row[2] != "run"]:
                self.session.outermost(partial(self._stop_following, moved))
            self._follower = (rows[-1][0], rows[-1][1]) if len(rows) == STEP else (-LAST - 1, 0)
            if self._follower == (-LAST - 1, 0):
                return False
        return True

    def _stop_following(self, moved: list[Row]) -> None:
        with self.session.transaction():
            self.session.run(
                lanes_sql.leave(self.session.server, [(line, message_id) for line, message_id, _ in moved])
            )
            if new := [(followers_of(line), message_id) for line, message_id, state in moved if state == "new"]:
                stand_in_line(self.session, new)

    def _leave(self, ended: dict[LanePlace, str]) -> None:
        """Let those make way that have ended, each given with its fate; a dead one may have been requeued meanwhile."""
        dead = [place.id for place, fate in ended.items() if fate == "dead"]
        with self.session.transaction():
            still = (
                {row[0] for row in self.session.fetch(lanes_sql.lock_dead(self.session.server, dead))} if dead else ()
            )
            if gone := [place for place, fate in ended.items() if fate != "dead" or place.id in still]:
                lane_moves.leave(self.session, gone)


def _has_ended(queue: str | None, fate: str) -> bool:
    """Return whether a ticket's message no longer keeps it: somebody has moved its row by hand."""
    return fate == "ended" or (fate == "dead" and conf.queue_options(queue or "").on_dead != conf.HOLD)
