"""The SQL of groups inside a routine: how a message enters its line, and how one makes way for the next."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from django_dbqueue.databases.literals import raw
from django_dbqueue.databases.server import Server
from django_dbqueue.databases.statement import Change, Statement
from django_dbqueue.lanes import lanes_sql
from django_dbqueue.routines import one_lane_sql as one
from django_dbqueue.statements import enqueue_sql

_KEEP_LANE: Final = "lane = NULLIF(LAST_INSERT_ID(COALESCE(lane, 0)), 0)"
"""Leaves the lane as it is, and in LAST_INSERT_ID(), which a function keeps to itself. So no row is read twice."""


def with_lane(server: Server, change: Change) -> Change:
    """Return a move after which the routine knows the lane of what was moved, where UPDATE returns no rows."""
    return change if server.returns_rows else change._replace(sql=f"{change.sql}, {_KEEP_LANE}")


def lanes(server: Server, row: Mapping[str, object]) -> dict[str, Statement]:
    """Return the statement for each placeholder that is about lanes; ``row`` is what the INSERT of a message sets."""
    lane, ticket, message_id = raw("_lane"), raw("_ticket"), raw("_id")
    held_by, first, line = raw("_held_by"), raw("_first"), raw("_line")
    let_run = lanes_sql.let_run(server, [first])
    in_lane = {**row, "lane": lane, "group_name": raw("_group_name")}
    returning = "id" if server.returns_rows else ""
    return {
        "insert_in_lane": enqueue_sql.insert(server, in_lane, 0.0, None, returning=returning),
        "enter": one.enter_one(server, lane, message_id),
        "leave": one.leave_one(server, lane, message_id),
        "park": lanes_sql.park(server, [message_id]),
        "stop_following": one.leave_one(server, raw("-1 - _lane"), message_id),
        "free": one.free_any(server, lane, message_id),
        "head": one.head_of(server, lane, held_by),
        "let_first_run": Statement(f"{let_run.sql} AND lane = %s", (*let_run.params, lane)),
        "lock_first": one.lock_if_dead(server, first),
        "park_first": lanes_sql.park(server, [first]),
        "leave_first": one.leave_one(server, line, first),
        "enter_first": one.enter_one(server, line, first),
        "let_first_wait": one.enter_one(server, lane, first),
        "pass_on": one.pass_one_on(server, lane, ticket, held_by, first),
        "free_held": one.free_one(server, lane, ticket, held_by),
        "free_unseen": one.free_any(server, lane, held_by),
        "lowest_free": one.lowest_free(server, lane, raw("_number")),
        "draw": one.draw_one(server, lane, raw("_number"), raw("_mark")),
        "next_lane": lanes_sql.next_lane(server, raw("_after")),
    }
