"""What matches a bulk operation, a page at a time: ranges of the claim index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from django_dbqueue.databases.indexes import Index
from django_dbqueue.databases.server import Server
from django_dbqueue.databases.statement import Params, Statement, holes
from django_dbqueue.states.table import STATES, Moment, Place, condition_of, order_of, range_of

SEEN: Final = ("id", "queue", "key", "status", "claim_token", "available_at", "due_at", "lane", "group_name")
"""What is read of a message that is to be moved."""


def page(server: Server, place: Place, at: str, mark: tuple[str, int] | None, limit: int) -> Statement:
    """Read the first rows of a place, or those after a row with the same ``available_at``.

    Rows that entered the state later than ``at`` are left out if the index can tell, and so is what streams hold.
    """
    if mark is None:
        return _page(server, place, at, "", (), limit)
    if place.state == "dead":
        return _page(server, place, at, " AND id > %s", mark[1:], limit)
    return _page(server, place, at, " AND available_at = %s AND id > %s", mark, limit)


def page_later(server: Server, place: Place, at: str, moment: str, limit: int) -> Statement:
    """Continue after all rows with this ``available_at``."""
    return _page(server, place, at, " AND available_at > %s", (moment,), limit)


def _page(server: Server, place: Place, at: str, behind: str, params: Params, limit: int) -> Statement:
    where, state = range_of(server, place), STATES[place.state]
    begins_now = state.moment in (Moment.FUTURE, Moment.FUTURE_OR_PARKED)
    if behind and begins_now:
        # SQLite bounds a range by the first condition that it meets; the fence excludes what is due by now
        where = Statement(state.stage.range, where.params)
    if state.by_time:
        behind, params = f"{behind} AND available_at <= %s", (*params, at)
    if begins_now:
        behind = f"{behind} AND available_at < {server.parked}"
    return Statement(
        f"SELECT available_at, id FROM {server.message}{server.use[Index.CLAIM]} WHERE {where.sql}{behind} "
        f"ORDER BY {order_of(server, place.state)} LIMIT %s",
        (*where.params, *params, limit),
    )


def still(server: Server, ids: Sequence[int], state: str, at: str) -> Statement:
    """Return the fence of a bulk operation: those of the rows that are in this state, and were at that moment."""
    such, since = condition_of(server, state), STATES[state].since
    if state == "running":
        such = f"{such} AND available_at < {server.parked}"
    named = f"id IN ({holes(len(ids))}) AND {such}"
    if since is None:
        return Statement(named, tuple(ids))
    return Statement(f"{named} AND {since} <= %s", (*ids, at))


def lock_seen(server: Server, where: Statement, fence: str, *, skip_locked: bool) -> Statement:
    """Lock rows, and read what people see of each, and whether a fence holds for it."""
    lock = server.skip_locked if skip_locked else server.lock_row
    return Statement(
        f"SELECT {server.columns(SEEN)}, CASE WHEN {fence} THEN 1 ELSE 0 END FROM {server.message}"
        f"{server.use[Index.IDS]} WHERE {where.sql} ORDER BY id{lock}",
        where.params,
    )


def count_these(server: Server, where: Statement) -> Statement:
    """Count the rows of a fence."""
    return Statement(f"SELECT COUNT(*) FROM {server.message}{server.use[Index.IDS]} WHERE {where.sql}", where.params)


def last_ids(server: Server) -> Statement:
    """Read the highest message id and the highest event id; NULL where there is none."""
    return Statement(f"SELECT (SELECT MAX(id) FROM {server.message}), (SELECT MAX(id) FROM {server.event})", ())
