"""How finished messages leave the hot table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from django_dbqueue.databases.indexes import Index
from django_dbqueue.databases.server import Server
from django_dbqueue.databases.statement import InOrder, Statement, holes
from django_dbqueue.statements.message_columns import ARCHIVED_COLUMNS
from django_dbqueue.states.table import OUTCOME, Place, Stage, order_of, range_of


class Behind(NamedTuple):
    """A place among done rows: the moment at which one finished, as a parameter for its column, and its id."""

    moment: str
    id: int


def lock_mutex(server: Server, name: str, *, wait: bool) -> Statement:
    """Lock a mutex until the transaction ends; no row if it doesn't exist, or is locked and we don't wait."""
    lock = server.lock_row if wait else server.skip_locked
    return Statement(f"SELECT name FROM {server.mutex} WHERE name = %s{lock}", (name,))


def find_mutex(server: Server, name: str) -> Statement:
    """Read whether a mutex exists, locked or not."""
    return Statement(f"SELECT name FROM {server.mutex} WHERE name = %s", (name,))


def create_mutex(server: Server, name: str) -> Statement:
    """Create a mutex, unless it exists."""
    return Statement(f"INSERT INTO {server.mutex} (name) VALUES (%s){server.or_nothing(server.mutex, 'name')}", (name,))


def finished(
    server: Server,
    queue: str,
    priority: int,
    age: float,
    limit: int,
    *,
    behind: Behind | None = None,
    lock: bool = True,
) -> Statement:
    """Lock done rows that finished ``age`` seconds ago or earlier, oldest first; or only read them.

    Each has its moment beside its id. ``behind`` a row of an earlier answer begin those that follow it.
    """
    after, place = "", tuple[object, ...]()
    if behind is not None:
        after, place = "AND available_at >= %s AND (available_at > %s OR id > %s) ", (behind[0], *behind)
    return InOrder(
        f"SELECT id, available_at FROM {server.message}{server.use[Index.CLAIM]} "
        f"WHERE queue = %s AND {Stage.FINISHED.sql} AND priority = %s {after}"
        f"AND available_at <= {server.from_now} "
        f"ORDER BY available_at, id LIMIT %s{server.skip_locked if lock else ''}",
        (queue, priority, *place, -age, limit),
    )


def count_finished(server: Server, queue: str, priority: int, age: float) -> Statement:
    """Count done rows that finished ``age`` seconds ago or earlier; reads one index entry per row."""
    return Statement(
        f"SELECT COUNT(*) FROM {server.message}{server.use[Index.CLAIM]} "
        f"WHERE queue = %s AND {Stage.FINISHED.sql} AND priority = %s "
        f"AND available_at <= {server.from_now}",
        (queue, priority, -age),
    )


def dead_behind(server: Server, queue: str, priority: int, after: int, age: float, limit: int) -> Statement:
    """Read dead rows after an id, by id: each with whether it died ``age`` seconds ago or earlier.

    The claim index holds them in one range, but no index holds their time: the caller reads window by window.
    """
    where = range_of(server, Place(queue, "dead", priority))
    return InOrder(
        f"SELECT id, finished_at <= {server.from_now} "
        f"FROM {server.message}{server.use[Index.CLAIM]} "
        f"WHERE {where.sql} AND id > %s ORDER BY {order_of(server, 'dead')} LIMIT %s",
        (-age, *where.params, after, limit),
    )


def lock_dead(server: Server, ids: Sequence[int], age: float) -> Statement:
    """Lock those of the rows that are dead, and died ``age`` seconds ago or earlier."""
    return Statement(
        f"SELECT id FROM {server.message}{server.use[Index.IDS]} WHERE id IN ({holes(len(ids))}) "
        f"AND {Stage.DEAD.sql} AND finished_at <= {server.from_now} ORDER BY id{server.skip_locked}",
        (*ids, -age),
    )


def lock_finished(server: Server, ids: Sequence[int]) -> Statement:
    """Lock those of the rows that are done or dead."""
    return Statement(
        f"SELECT id FROM {server.message}{server.use[Index.IDS]} "
        f"WHERE id IN ({holes(len(ids))}) AND ({Stage.FINISHED.sql} OR {Stage.DEAD.sql}) "
        f"ORDER BY id{server.skip_locked}",
        tuple(ids),
    )


def copy_to_archive(server: Server, ids: Sequence[int]) -> Statement:
    """Copy locked finished rows into the history, with their outcome."""
    names, named = server.columns(ARCHIVED_COLUMNS), server.id_in(ids)
    return Statement(
        f"INSERT INTO {server.archived} ({names}, message_id, outcome, archived_at) "
        f"SELECT {names}, id, {OUTCOME}, {server.now} FROM {server.message}{server.use[Index.IDS]} "
        f"WHERE {named.sql} ORDER BY finished_at, id",
        named.params,
    )
