"""Failure groups: a row for each kind of error in a queue, and the events that belong to it."""

from __future__ import annotations

from collections.abc import Sequence

from django_dbqueue.databases.indexes import Index
from django_dbqueue.databases.server import Server
from django_dbqueue.databases.statement import Statement, holes
from django_dbqueue.states.table import Stage


def find(server: Server, queue: str, fingerprints: Sequence[str]) -> Statement:
    """Read the fingerprint and the id of each of these groups that exists."""
    return Statement(
        f"SELECT fingerprint, id FROM {server.failure} "
        f"WHERE queue = %s AND fingerprint IN ({holes(len(fingerprints))})",
        (queue, *fingerprints),
    )


def create(server: Server, queue: str, fingerprint: str, exception: str, place: str) -> Statement:
    """Create a group, unless it exists by now."""
    return Statement(
        f"INSERT INTO {server.failure} (queue, fingerprint, exception, place) VALUES (%s, %s, %s, %s)"
        f"{server.keep_failure}",
        (queue, fingerprint, exception, place),
    )


def forgotten(server: Server, after: int, age: float, limit: int) -> Statement:
    """Read the groups after an id, by id: each with whether it is ``age`` seconds old and has no event."""
    return Statement(
        f"SELECT f.id, f.first_at <= {server.plus(server.now, '%s')} AND (SELECT e.id "
        f"FROM {server.event} AS e{server.use[Index.EVENT_FAILURE]} WHERE e.failure_id = f.id LIMIT 1) IS NULL "
        f"FROM {server.failure} AS f WHERE f.id > %s ORDER BY f.id LIMIT %s",
        (-age, after, limit),
    )


def delete(server: Server, ids: Sequence[int]) -> Statement:
    """Delete groups, unless they have an event by now."""
    return Statement(
        f"DELETE FROM {server.failure} WHERE id IN ({holes(len(ids))}) AND (SELECT e.id "
        f"FROM {server.event} AS e{server.use[Index.EVENT_FAILURE]} WHERE e.failure_id = {server.failure}.id "
        "LIMIT 1) IS NULL",
        tuple(ids),
    )


def events_of(server: Server, failure: int, after: int, last: int, limit: int) -> Statement:
    """Read the ids of a group's events after one, up to another, in order."""
    return Statement(
        f"SELECT id FROM {server.event}{server.use[Index.EVENT_FAILURE]} WHERE failure_id = %s AND id > %s "
        "AND id <= %s ORDER BY id LIMIT %s",
        (failure, after, last, limit),
    )


def newest_events_of(server: Server, failure: int, before: int, limit: int) -> Statement:
    """Read the ids of a group's events before one, the newest first."""
    return Statement(
        f"SELECT id FROM {server.event}{server.use[Index.EVENT_FAILURE]} WHERE failure_id = %s AND id < %s "
        "ORDER BY failure_id DESC, id DESC LIMIT %s",
        (failure, before, limit),
    )


def dead_of_events(server: Server, events: Sequence[int]) -> Statement:
    """Read event and message for messages that are dead and have not failed again, or in another way, since."""
    return Statement(
        f"SELECT e.id, e.message_id FROM {server.event} AS e{server.use[Index.PRIMARY]} "
        f"JOIN {server.message} AS m{server.use[Index.IDS]} ON m.id = e.message_id "
        f"WHERE e.id IN ({holes(len(events))}) AND {Stage.DEAD.sql} "
        f"AND (SELECT l.id FROM {server.event} AS l{server.use[Index.EVENT_MESSAGE]} "
        "WHERE l.message_id = e.message_id AND l.id > e.id AND l.failure_id IS NOT NULL LIMIT 1) IS NULL "
        "ORDER BY e.message_id",
        tuple(events),
    )


def newest_of(server: Server, failures: Sequence[int], limit: int) -> Statement:
    """Read the newest events of each of these groups from the index alone: group, event."""
    each = (
        f"SELECT * FROM (SELECT failure_id, id FROM {server.event}{server.use[Index.EVENT_FAILURE]} "
        "WHERE failure_id = %s ORDER BY failure_id DESC, id DESC LIMIT %s) AS newest"
    )
    return Statement(
        " UNION ALL ".join([each] * len(failures)), tuple(value for one in failures for value in (one, limit))
    )


def by_last_event(server: Server, queue: str | None, limit: int) -> Statement:
    """Read the most recent groups by first event, each with its newest event or NULL."""
    where, params = ("", ()) if queue is None else ("WHERE f.queue = %s ", (queue,))
    return Statement(
        f"SELECT f.id, (SELECT e.id FROM {server.event} AS e{server.use[Index.EVENT_FAILURE]} "
        "WHERE e.failure_id = f.id ORDER BY e.failure_id DESC, e.id DESC "
        "LIMIT 1) "  # MariaDB would read all of them for MAX(e.id)
        f"FROM {server.failure} AS f {where}ORDER BY f.id DESC LIMIT %s",
        (*params, limit),
    )
