"""The keeper of flows: looks for whoever died between its commit and its check, and for ends that told nobody.

Routines, streams and SQL end messages without a check. So it walks the edges, a bounded number at a time, and asks what
became of the messages that they come from; and the gates, and asks which are open.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Final

from django_dbqueue.flows import flow_parts_sql
from django_dbqueue.flows.flow_rows import ranges_of
from django_dbqueue.lifecycle import flow_moves, flows_sql
from django_dbqueue.lifecycle.flows_sql import WHEN_DONE
from django_dbqueue.lifecycle.left_behind import LeftBehind
from django_dbqueue.sessions.apart import apart
from django_dbqueue.sessions.django_session import DjangoSession

STEP: Final = 500
OLD: Final = 20
"""Old flows that one turn looks at."""
AT_ONCE: Final = 5_000
"""Edges, and gates, of one turn; the next turn continues there."""


@dataclass(slots=True)
class FlowKeeper:
    """A walk around the edges that remembers where it stood."""

    session: DjangoSession
    _edge: tuple[int, int] = (0, 0)
    _gate: int = 0
    _old: int = 0
    _left: LeftBehind = field(default_factory=partial(LeftBehind, "Flow"))

    def turn(self) -> bool:
        """Look at the next edges and gates; return whether more are left than one turn looks at."""
        more = self._check_edges()
        return self._check_gates() or more

    def forget(self, *, age: float) -> None:
        """Delete some of the flows that were sent ``age`` seconds ago, and none of whose messages is left."""
        rows = self.session.fetch(flow_parts_sql.old(self.session.server, self._old, age, OLD))
        for (flow,) in rows:
            if not self._is_left(flow):
                apart(self._left.unmet([flow]), self._forget, self._left.refused)
        self._old = rows[-1][0] if len(rows) == OLD else 0

    def _is_left(self, flow: int) -> bool:
        _, chunks = ranges_of(self.session, flow)
        return any(self.session.fetch(flow_parts_sql.any_of(self.session.server, flow, ranges)) for ranges in chunks)

    def _forget(self, flows: list[int]) -> None:
        def forget() -> None:
            with self.session.transaction():
                for flow in flows:
                    for statement in flow_parts_sql.forget(self.session.server, flow):
                        self.session.run(statement)

        self.session.outermost(forget)

    def _check_edges(self) -> bool:
        for _ in range(AT_ONCE // STEP):
            rows = self.session.fetch(flows_sql.edges_behind(self.session.server, *self._edge, STEP))
            done = sorted({row[0] for row in rows if row[3] == "done"})
            dead = sorted({row[0] for row in rows if row[3] == "dead" and row[2] != WHEN_DONE})
            if done or dead:
                self.session.outermost(partial(self._note, done, dead))
            self._edge = (rows[-1][0], rows[-1][1]) if len(rows) == STEP else (0, 0)
            if self._edge == (0, 0):
                return False
        return True

    def _note(self, done: list[int], dead: list[int]) -> None:
        with self.session.transaction():
            flow_moves.ended_well(self.session, done)
            flow_moves.died(self.session, dead)

    def _check_gates(self) -> bool:
        for _ in range(AT_ONCE // STEP):
            rows = self.session.fetch(flows_sql.gates_behind(self.session.server, self._gate, STEP))
            flow_moves.check_gates(self.session, [row[0] for row in rows])
            self._gate = rows[-1][0] if len(rows) == STEP else 0
            if not self._gate:
                return False
        return True
