"""The statements of the roll-ups: what ended within a span of time, and hours that are replaced as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from django_dbqueue.databases.indexes import Index
from django_dbqueue.databases.server import Server
from django_dbqueue.databases.statement import InOrder, Params, Row, Statement, holes
from django_dbqueue.history.history_sql import VERIFIED
from django_dbqueue.states.table import Stage

MUTEX: Final = "statistics"
"""Held by the writer of roll-ups."""
STATISTIC_COLUMNS: Final = (
    "queue",
    "hour",
    "messages",
    "failures",
    "retries",
    "dead",
    "wait_p50",
    "wait_p95",
    "wait_p99",
    "run_p50",
    "run_p95",
    "run_p99",
)

TOTAL_COLUMNS: Final = ("queue", "messages", "failures", "retries", "dead", "wait", "run")


class Stretch(NamedTuple):
    """From one moment up to, but not including, another; moments in the form the columns take.

    ``after`` is the id of the last row that was read among those of the first moment.
    """

    since: object
    until: object
    after: int | None = None


def last_hour(server: Server) -> Statement:
    """Read the last hour that has a roll-up; NULL where none has."""
    return Statement(f"SELECT MAX(hour) FROM {server.statistic} WHERE queue <> ''", ())


def drop_hours(server: Server, since: object) -> Statement:
    """Delete the roll-ups of this hour and all later ones; of all hours for None.

    The rows covering all queues, which the workers write, stay.
    """
    if since is None:
        return Statement(f"DELETE FROM {server.statistic} WHERE queue <> ''", ())
    return Statement(f"DELETE FROM {server.statistic} WHERE hour >= %s AND queue <> ''", (since,))


def add_hours(server: Server, rows: Sequence[Row]) -> Statement:
    """Insert roll-ups, rows of STATISTIC_COLUMNS."""
    row = f"({holes(len(STATISTIC_COLUMNS))}, {server.now})"
    return Statement(
        f"INSERT INTO {server.statistic} ({server.columns(STATISTIC_COLUMNS)}, computed_at) "
        f"VALUES {', '.join([row] * len(rows))}",
        tuple(value for each in rows for value in each),
    )


def lakes_purged_into(server: Server, since: object) -> Statement:
    """Read the lakes that hold rows that left the archive, in batches planned since; any time for None.

    They left it by a purge; or by age, where some may still be there.
    """
    # What a batch holds was archived, and therefore finished, before the batch was planned
    later, params = ("", ()) if since is None else (" AND planned_at >= %s", (since,))
    aged = f"state = '{VERIFIED}' AND first_id <= (SELECT gone_to FROM {server.age} WHERE id = 1)"
    return Statement(
        f"SELECT DISTINCT lake FROM {server.batch} WHERE (purged_to >= first_id OR ({aged})){later} ORDER BY lake",
        params,
    )


def totals(server: Server, queues: Sequence[str]) -> Statement:
    """Read what ended in these queues so far, in rows to be added up: the totals, and the minutes since.

    It is one statement, hence one snapshot: a minute is in one of the two tables.
    """
    columns, which = server.columns(TOTAL_COLUMNS), f"queue IN ({holes(len(queues))})"
    begun = server.plus("settled_to", "-60")  # of a minute that is being settled, the fresh count is still shown
    return Statement(
        f"SELECT {columns} FROM {server.total} WHERE {which} UNION ALL "
        f"SELECT {columns} FROM {server.minute} WHERE shown AND {which} "
        f"AND minute > (SELECT {begun} FROM {server.progress} WHERE id = 1)",
        (*queues, *queues),
    )


def first_ends(server: Server, ranges: Sequence[tuple[str, int]], since: object) -> Statement:
    """Read when the first message of each range (queue, priority) was done, from a moment on: place, moment."""
    each = (
        f"SELECT * FROM (SELECT {{}} AS place, available_at FROM {server.message}{server.use[Index.CLAIM]} "
        f"WHERE queue = %s AND {Stage.FINISHED.sql} AND priority = %s AND available_at >= %s "
        "ORDER BY available_at LIMIT 1) AS found"
    )
    return Statement(
        " UNION ALL ".join(each.format(place) for place in range(len(ranges))),
        tuple(value for queue, priority in ranges for value in (queue, priority, since)),
    )


def first_archived_end(server: Server, since: object) -> Statement:
    """Read when the first message of the history ended from a moment on."""
    return Statement(
        f"SELECT finished_at FROM {server.archived} WHERE finished_at >= %s ORDER BY finished_at LIMIT 1",
        (since,),
    )


def first_event(server: Server, since: object) -> Statement:
    """Read the time of the first event from a moment on."""
    return Statement(f"SELECT at FROM {server.event} WHERE at >= %s ORDER BY at LIMIT 1", (since,))


def done_within(server: Server, queue: str, priority: int, stretch: Stretch, limit: int) -> Statement:
    """Read messages of a range that were done within a stretch, in index order.

    Rows: when it was done, id, due_at, claimed_at, reads.
    """
    within, params = _within("available_at", stretch)
    return InOrder(
        f"SELECT available_at, id, due_at, claimed_at, read_count, error IS NULL "
        f"FROM {server.message}{server.use[Index.CLAIM]} WHERE queue = %s AND {Stage.FINISHED.sql} "
        f"AND priority = %s AND {within} ORDER BY available_at, id LIMIT %s",
        (queue, priority, *params, limit),
    )


def archived_within(server: Server, stretch: Stretch, limit: int) -> Statement:
    """Read messages of the history that ended within a stretch: finished_at, row, due_at, …, queue, outcome, id."""
    within, params = _within("finished_at", stretch)
    return Statement(
        "SELECT finished_at, id, due_at, claimed_at, read_count, outcome, queue, message_id "
        f"FROM {server.archived} WHERE {within} ORDER BY finished_at, id LIMIT %s",
        (*params, limit),
    )


def events_within(server: Server, stretch: Stretch, limit: int) -> Statement:
    """Read events of a stretch, of every kind: at, row, kind, queue, message, reads, claimed_at."""
    within, params = _within("at", stretch)
    return Statement(
        "SELECT at, id, kind, queue, message_id, read_count, claimed_at "
        f"FROM {server.event} WHERE {within} ORDER BY at, id LIMIT %s",
        (*params, limit),
    )


def dues(server: Server, ids: Sequence[int]) -> Statement:
    """Read when messages were due: id, due_at."""
    return Statement(
        f"SELECT id, due_at FROM {server.message}{server.use[Index.IDS]} WHERE id IN ({holes(len(ids))})",
        tuple(ids),
    )


def archived_dues(server: Server, ids: Sequence[int]) -> Statement:
    """Read the same of messages in the history."""
    return Statement(
        f"SELECT message_id, due_at FROM {server.archived} WHERE message_id IN ({holes(len(ids))})",
        tuple(ids),
    )


def _within(column: str, stretch: Stretch) -> tuple[str, Params]:
    if stretch.after is None:
        return f"{column} >= %s AND {column} < %s", (stretch.since, stretch.until)
    return f"{column} = %s AND id > %s", (stretch.since, stretch.after)
