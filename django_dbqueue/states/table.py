"""The states of a message, each said once: its stage, when it is due, since when it has been so, in what order.

A stage changes only by a move; the clock tells the states of one stage apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final, NamedTuple, Protocol, Self

from django_dbqueue.databases.indexes import Index
from django_dbqueue.databases.server import Server
from django_dbqueue.databases.statement import Statement, holes
from django_dbqueue.statuses import DONE, NEW, RUNNING

PARKED_AT: Final = datetime(9999, 12, 31, tzinfo=UTC)
"""``available_at`` of what waits for something other than time, and of what a stream holds under its claim's lease."""


class Stage(StrEnum):
    """Where a message is in its life, whatever the clock says. ``sql`` is the condition on its row."""

    status: str
    sql: str

    UNCLAIMED = "unclaimed", NEW, f"status = '{NEW}' AND available_at IS NOT NULL"
    CLAIMED = "claimed", RUNNING, f"status = '{RUNNING}'"
    DEAD = "dead", NEW, f"status = '{NEW}' AND available_at IS NULL"
    FINISHED = "finished", DONE, f"status = '{DONE}'"

    def __new__(cls, name: str, status: str, sql: str) -> Self:
        stage = str.__new__(cls, name)
        stage._value_, stage.status, stage.sql = name, status, sql
        return stage

    @property
    def range(self) -> str:
        """The condition, whose parameters are queue and priority, that a row is in a range of the claim index."""
        return f"queue = %s AND status = '{self.status}' AND priority = %s"

    @property
    def states(self) -> tuple[str, ...]:
        """The names of its states."""
        return tuple(state.name for state in STATES.values() if state.stage is self)


NOT_DONE: Final = f"status <> '{DONE}'"
LIVE: Final = f"status IN ('{NEW}', '{RUNNING}') AND available_at IS NOT NULL"
"""The condition that a message is unclaimed or claimed."""
ACKED: Final = f"status = '{DONE}' AND error IS NULL"
WAS_DROPPED: Final = f"status = '{DONE}' AND error IS NOT NULL"
OUTCOME: Final = f"CASE WHEN {Stage.DEAD.sql} THEN 'dead' WHEN error IS NOT NULL THEN 'dropped' ELSE 'done' END"
"""How a message that is finished or dead has ended, as the history keeps it."""


class Moment(StrEnum):
    """What ``available_at`` is: SQL in a server's terms."""

    PAST = "available_at <= {now}"
    FUTURE = "available_at > {now} AND available_at < {parked}"
    FUTURE_OR_PARKED = "available_at > {now}"
    PARKED = "available_at = {parked}"
    NONE = "available_at IS NULL"
    ANY = "available_at IS NOT NULL"

    def sql(self, server: Server) -> str:
        """Return the condition."""
        return self.format(now=server.now, parked=server.parked)


@dataclass(frozen=True, slots=True)
class State:
    """A state of a message, by the name that people use."""

    name: str
    stage: Stage
    moment: Moment
    since: str | None = None
    """The column that tells since when a message has been in it; None: none does."""
    by_time: bool = False
    """Whether its range of the claim index is in the order in which messages entered it."""
    latest_first: bool = False
    """Whether lists begin at the end of its range."""


STATES: Final[Mapping[str, State]] = {
    state.name: state
    for state in (
        State("ready", Stage.UNCLAIMED, Moment.PAST, since="available_at", by_time=True),
        State("delayed", Stage.UNCLAIMED, Moment.FUTURE),
        State("waiting", Stage.UNCLAIMED, Moment.PARKED),
        State("running", Stage.CLAIMED, Moment.FUTURE_OR_PARKED, since="claimed_at"),
        State("stuck", Stage.CLAIMED, Moment.PAST, since="available_at", by_time=True),
        State("dead", Stage.DEAD, Moment.NONE, since="finished_at", latest_first=True),
        State("done", Stage.FINISHED, Moment.ANY, since="finished_at", by_time=True, latest_first=True),
    )
}
"""By name, in the order of a message's life."""


class Place(NamedTuple):
    """The messages of a queue in one state and of one priority: a range of the claim index."""

    queue: str
    state: str
    priority: int


def condition_of(server: Server, name: str) -> str:
    """Return the condition that a message is in a state; what streams hold is running, whatever their leases."""
    state = STATES[name]
    if state.moment is Moment.ANY:
        return state.stage.sql
    return f"status = '{state.stage.status}' AND {state.moment.sql(server)}"


def not_due(server: Server) -> str:
    """Return the condition that a message is delayed or waits."""
    return f"status = '{NEW}' AND {Moment.FUTURE_OR_PARKED.sql(server)}"


def range_of(server: Server, place: Place, overdue: Sequence[int] = ()) -> Statement:
    """Return the condition that a row is in this place.

    ``overdue`` are the tokens of stream claims whose lease has expired: what they hold is stuck, and not running.
    """
    state = STATES[place.state]
    due, tokens = state.moment.sql(server), tuple[int, ...]()
    if overdue and state.stage is Stage.CLAIMED:
        tokens = tuple(overdue)
        held = f"(available_at = {server.parked} AND claim_token IN ({holes(len(tokens))}))"
        due = f"({due} OR {held})" if state.moment is Moment.PAST else f"{due} AND NOT {held}"
    return Statement(f"{state.stage.range} AND {due}", (place.queue, place.priority, *tokens))


def first_rows(
    server: Server, place: Place, columns: str, limit: int, overdue: Sequence[int] = (), *, backwards: bool = False
) -> Statement:
    """Read the first rows of a place, or the last, in the index's own order."""
    where, order = range_of(server, place, overdue), order_of(server, place.state)
    if backwards:
        order = f"{order.replace(',', ' DESC,')} DESC"
    # Also to count them: without an order, PostgreSQL would rather read the table for many rows
    return Statement(
        f"SELECT {columns} FROM {server.message}{server.use[Index.CLAIM]} WHERE {where.sql} ORDER BY {order} LIMIT %s",
        (*where.params, limit),
    )


def order_of(server: Server, name: str) -> str:
    """Return the claim index's own order where a state is one range of it."""
    return server.order_of_dead if STATES[name].moment is Moment.NONE else "available_at, id"


class HasStage(Protocol):
    """A row, as far as its stage goes."""

    status: str
    available_at: datetime | None


class HasState(HasStage, Protocol):
    """A row whose lease is known."""

    @property
    def lease_until(self) -> datetime | None: ...


def is_parked(row: HasStage) -> bool:
    """Return whether an unclaimed message waits for something other than time, or a claimed one is a stream's."""
    return row.available_at == PARKED_AT


def stage_of(row: HasStage) -> Stage:
    """Return the stage of a row."""
    if row.status == DONE:
        return Stage.FINISHED
    if row.status == RUNNING:
        return Stage.CLAIMED
    return Stage.DEAD if row.available_at is None else Stage.UNCLAIMED


def state_of(row: HasState, now: datetime) -> State:
    """Return the state of a row, at that moment of the database's clock."""
    stage = stage_of(row)
    if stage is Stage.UNCLAIMED:
        if is_parked(row):
            return STATES["waiting"]
        return STATES["ready" if row.available_at is not None and row.available_at <= now else "delayed"]
    if stage is Stage.CLAIMED:
        return STATES["stuck" if row.lease_until is not None and row.lease_until <= now else "running"]
    return STATES["dead" if stage is Stage.DEAD else "done"]
