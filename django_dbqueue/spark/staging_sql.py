"""How a job's messages are written by the thousand: staged invisibly and published at once, or inserted directly.

A run of a job stages under its number, and each try of a task under a number of its own, so whatever retries or
speculation leave behind is never published.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from operator import itemgetter
from typing import Final

from django_dbqueue.databases.indexes import Index
from django_dbqueue.databases.server import Server
from django_dbqueue.databases.statement import Copy, Row, Statement
from django_dbqueue.statements.enqueue_sql import LIVE_KEY, insert_values, one_row
from django_dbqueue.statements.message_columns import SENT_COLUMNS, columns_of
from django_dbqueue.statuses import NEW

WRITTEN: Final = (*SENT_COLUMNS, "delay_seconds", "due_at")
"""The columns of a row to be written, in this order; it is staged without ``live``."""


def _or_nothing(server: Server) -> str:
    return server.or_nothing(server.message, LIVE_KEY)


def stage(server: Server, job: str, run: int, attempt: int, rows: Sequence[Row], *, place: int) -> Statement | Copy:
    """Write rows of WRITTEN from this place on; columns that none of them sets are left out."""
    if server.copies:  # which takes a seventh of the time of an INSERT of the same values
        used = [at for at, name in enumerate(WRITTEN) if name != "live" and any(row[at] is not None for row in rows)]
        columns = server.columns(("job", "run", "attempt", "place", *(WRITTEN[at] for at in used)))
        values_of = itemgetter(*used)
        placed = [(job, run, attempt, number, *values_of(row)) for number, row in enumerate(rows, place)]
        return Copy(f"COPY {server.staged} ({columns}) FROM STDIN", placed)
    run_columns = zip(("run", "attempt", "job"), ([each] * len(rows) for each in (run, attempt, job)), strict=True)
    lists = dict(chain(run_columns, zip(WRITTEN, zip(*rows, strict=True), strict=True)))
    del lists["live"]
    names, row, params = one_row(lists, defaults={})
    values = [f"({number:d}, {row})" for number in range(place, place + len(rows))]
    return Statement(
        f"INSERT INTO {server.staged} (place, {server.columns(names)}) VALUES {', '.join(values)}",
        tuple(chain.from_iterable(params)),
    )


def insert_directly(server: Server, rows: Sequence[Row]) -> Statement:
    """Insert rows of WRITTEN into the queue; one whose key is taken is left out, and not counted.

    All of them are in lanes, and wait, or none is. What none of them sets is left to the table's defaults.
    """
    columns = columns_of(rows)
    delays, moments = zip(*(row[len(SENT_COLUMNS) :] for row in rows), strict=True)
    return insert_values(server, columns, delays, moments, _or_nothing(server) if any(columns["live"]) else "")


def name_job(server: Server, name: str, run: int, created: int) -> Statement:
    """Write the name of a job that is being published, unless it exists; waits for a concurrent writer."""
    return Statement(
        f"INSERT INTO {server.published} (name, run, created, ignored, published_at) "
        f"VALUES (%s, %s, %s, 0, {server.now}){server.or_nothing(server.published, 'name')}",
        (name, run, created),
    )


def published_job(server: Server, name: str) -> Statement:
    """Read the run that published a job, and how many messages it created and ignored."""
    return Statement(f"SELECT run, created, ignored FROM {server.published} WHERE name = %s", (name,))


def count_published(server: Server, name: str, created: int, ignored: int) -> Statement:
    """Record the outcome of a publication."""
    return Statement(
        f"UPDATE {server.published} SET created = %s, ignored = %s, published_at = {server.now} WHERE name = %s",
        (created, ignored, name),
    )


def count_staged(server: Server, run: int) -> Statement:
    """Count the rows of each attempt of a run."""
    return Statement(
        f"SELECT attempt, COUNT(*) FROM {server.staged}{server.use[Index.PRIMARY]} WHERE run = %s GROUP BY attempt",
        (run,),
    )


def publish(server: Server, run: int, attempt: int, places: range, *, has_groups: bool = False) -> Statement:
    """Copy an attempt's rows of these places into the queue, in order; those whose keys are taken don't count.

    ``has_groups``: some may be in lanes, and wait.
    """
    later, delayed = server.later_of("due_at", server.now), server.plus(server.now, "delay_seconds")
    due = f"CASE WHEN due_at IS NOT NULL THEN {later} WHEN delay_seconds > 0 THEN {delayed} ELSE {server.now} END"
    left = ("live",) if has_groups else ("live", "lane", "group_name")
    names = tuple(name for name in SENT_COLUMNS if name not in left)
    available = f"CASE WHEN lane IS NULL THEN {due} ELSE {server.parked} END" if has_groups else due
    times = ("available_at", "due_at", "created_at", "live", "status", "read_count", "crashes")
    return Statement(
        f"INSERT INTO {server.message} ({server.columns((*names, *times))}) "
        f"SELECT {server.columns(names)}, {available}, {due}, {server.now}, "
        f"CASE WHEN key_hash IS NULL THEN NULL ELSE 1 END, '{NEW}', 0, 0 "
        f"FROM {server.staged}{server.use[Index.PRIMARY]} "
        f"WHERE run = %s AND attempt = %s AND place >= %s AND place < %s ORDER BY place{_or_nothing(server)}",
        (run, attempt, places.start, places.stop),
    )


def staged_queues(server: Server, run: int) -> Statement:
    """Read the queues that a run stages for."""
    return Statement(f"SELECT DISTINCT queue FROM {server.staged}{server.use[Index.PRIMARY]} WHERE run = %s", (run,))


def staged_lanes(server: Server, run: int) -> Statement:
    """Read the lanes that a run stages for, each with its queue."""
    return Statement(
        f"SELECT DISTINCT lane, queue FROM {server.staged}{server.use[Index.PRIMARY]} "
        "WHERE run = %s AND lane IS NOT NULL",
        (run,),
    )


def drop_staged(server: Server, run: int, attempt: int | None = None) -> Statement:
    """Delete what a run has staged, or one attempt of it."""
    if attempt is None:
        return Statement(f"{server.delete_from(server.staged)} WHERE run = %s", (run,))
    return Statement(f"{server.delete_from(server.staged)} WHERE run = %s AND attempt = %s", (run, attempt))


def drop_staged_from(server: Server, run: int, attempt: int, place: int) -> Statement:
    """Delete what an attempt has staged from a place on."""
    return Statement(
        f"{server.delete_from(server.staged)} WHERE run = %s AND attempt = %s AND place >= %s",
        (run, attempt, place),
    )


def next_attempt(server: Server, run: int, attempt: int) -> Statement:
    """Find the first attempt after this one, in index order: one step of a walk over all runs."""
    behind = server.behind(("run", "attempt"), (run, attempt))
    return Statement(
        f"SELECT run, attempt FROM {server.staged}{server.use[Index.PRIMARY]} WHERE {behind.sql} "
        "ORDER BY run, attempt LIMIT 1",
        behind.params,
    )


def is_abandoned(server: Server, run: int, attempt: int, seconds: float) -> Statement:
    """Read whether an attempt's newest row was staged ``seconds`` ago or earlier."""
    return Statement(
        f"SELECT staged_at <= {server.from_now} FROM {server.staged}"
        f"{server.use[Index.PRIMARY]} WHERE run = %s AND attempt = %s ORDER BY place DESC LIMIT 1",
        (-seconds, run, attempt),
    )
