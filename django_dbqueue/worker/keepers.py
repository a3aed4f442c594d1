"""The keepers of lanes and of flows, in turn: each looks after what somebody left undone who died after a commit."""

from __future__ import annotations

from django_dbqueue import conf
from django_dbqueue.flows.flow_keeper import FlowKeeper
from django_dbqueue.lanes import lanes_sql
from django_dbqueue.lanes.lane_keeper import LaneKeeper
from django_dbqueue.sessions.django_session import DjangoSession


class Keepers:
    """Both, each of which remembers where it stood. Where neither lanes nor flows are used, one statement says so."""

    def __init__(self, session: DjangoSession) -> None:
        self._session = session
        self._lanes = LaneKeeper(session)
        self._flows = FlowKeeper(session)

    def turn(self) -> bool:
        """Look at the next edges, lanes and tickets; return whether more are left than one turn looks at."""
        [(has_lanes, has_edges, has_flows)] = self._session.fetch(lanes_sql.are_in_use(self._session.server))
        more = bool(has_edges) and self._flows.turn()
        if has_flows:
            self._flows.forget(age=conf.get("EVENT_RETENTION"))
        return (bool(has_lanes) and self._lanes.turn()) or more
