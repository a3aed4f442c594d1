"""The SQL of groups inside a routine: how a message enters its line, and how one makes way for the next."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from django_dbqueue.databases.dialect import Dialect
from django_dbqueue.databases.literals import raw
from django_dbqueue.databases.one_lane_sql import OneLaneSQL
from django_dbqueue.databases.statements import Change, Statement

_TELL_LANE: Final = "lane = NULLIF(LAST_INSERT_ID(COALESCE(lane, 0)), 0)"
"""Leaves the lane as it is, and in LAST_INSERT_ID(), which a function keeps to itself. So no row is read twice."""


def telling_lane(dialect: Dialect, change: Change) -> Change:
    """Return a move after which the routine knows the lane of what was moved, where UPDATE returns no rows."""
    return change if dialect.sql.returns_rows else change._replace(sql=f"{change.sql}, {_TELL_LANE}")


def lanes(dialect: Dialect, row: Mapping[str, object]) -> dict[str, Statement]:
    """Return the statement for each placeholder that is about lanes; ``row`` is what the INSERT of a message sets."""
    lane, ticket, message_id = raw("_lane"), raw("_ticket"), raw("_id")
    held_by, first = raw("_held_by"), raw("_first")
    in_lane = {**row, "lane": lane, "group_name": raw("_group_name")}
    returning = "id" if dialect.sql.returns_rows else ""
    one = OneLaneSQL(dialect.sql)
    return {
        "insert_in_lane": dialect.enqueue.insert(in_lane, 0.0, None, returning=returning),
        "enter": one.enter_one(lane, message_id),
        "leave": one.leave_one(lane, message_id),
        "park": one.park([message_id]),
        "free": one.free_one(lane, ticket, message_id),
        "head": one.head_of(lane, held_by),
        "let_first_run": one.let_run([first]),
        "park_first": one.park([first]),
        "leave_first": one.leave_one(lane, first),
        "enter_first": one.enter_one(lane, first),
        "pass_on": one.pass_one_on(lane, ticket, held_by, first),
        "free_held": one.free_one(lane, ticket, held_by),
        "free_unseen": one.free_any(lane, held_by),
        "lowest_free": one.lowest_free(lane, raw("_number")),
        "draw": one.draw_one(lane, raw("_number"), raw("_mark")),
        "next_lane": one.next_lane(raw("_after")),
    }
