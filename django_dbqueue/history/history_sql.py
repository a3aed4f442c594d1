"""The history as a log that is followed by its ids, and exported: readers and their positions, batches, the purge.

A reader that continues from an id, and a purge up to one, takes the readers' mutex first. So a row is either protected
by a reader's position before it can be purged, or known to be purged.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from django_dbqueue.databases.indexes import Index
from django_dbqueue.databases.server import Server
from django_dbqueue.databases.statement import Statement, holes

READERS: Final = "history readers"
"""The mutex."""
LAKE: Final = "lake:"
"""Lakes are readers too; this is how their names begin."""
PLANNED: Final = "planned"
VERIFIED: Final = "verified"
PURGED: Final = "purged"
DROPPED: Final = "dropped"
"""A try that never got a manifest, whose ids the next try took."""
REWRITE: Final = "rewrite"
"""No batch, but files that were written to replace others of the lake."""


def following(server: Server, after: int, until: int, limit: int) -> Statement:
    """Read the last id and the count of the first rows after an id, up to another one."""
    return Statement(
        f"SELECT MAX(id), COUNT(*) FROM (SELECT id FROM {server.archived} WHERE id > %s AND id <= %s "
        "ORDER BY id LIMIT %s) AS followed",
        (after, until, limit),
    )


def purged_to(server: Server) -> Statement:
    """Read up to which id all rows were purged, by exports or whole partitions by age; NULL if none were."""
    return Statement(
        f"SELECT MAX(purged_to) FROM (SELECT MAX(purged_to) AS purged_to FROM {server.batch} "
        f"UNION ALL SELECT purged_to FROM {server.age}) AS purges",
        (),
    )


def readers(server: Server) -> Statement:
    """Read every reader's name and position, the slowest first."""
    return Statement(f"SELECT name, position, begun_at, seen_at FROM {server.reader} ORDER BY position, name", ())


def reader_position(server: Server, name: str) -> Statement:
    """Read a reader's position; no row if no reader has this name."""
    return Statement(f"SELECT position FROM {server.reader} WHERE name = %s", (name,))


def insert_reader(server: Server, name: str, position: int) -> Statement:
    """Register a reader."""
    return Statement(
        f"INSERT INTO {server.reader} (name, position, begun_at, seen_at) VALUES (%s, %s, {server.now}, {server.now})",
        (name, position),
    )


def hold_reader(server: Server, name: str, position: int) -> Statement:
    """Set a reader back, to start again where rows still exist."""
    return Statement(
        f"UPDATE {server.reader} SET position = %s, seen_at = {server.now} WHERE name = %s AND position > %s",
        (position, name, position),
    )


def advance_reader(server: Server, name: str, position: int) -> Statement:
    """Record a reader's position, and that it is alive; never moves backwards."""
    return Statement(
        f"UPDATE {server.reader} SET position = CASE WHEN position < %s THEN %s ELSE position END, "
        f"seen_at = {server.now} WHERE name = %s",
        (position, position, name),
    )


def delete_reader(server: Server, name: str) -> Statement:
    """Delete a reader."""
    return Statement(f"DELETE FROM {server.reader} WHERE name = %s", (name,))


def bounds(server: Server) -> Statement:
    """Read the lowest and the highest id; NULL if there are no rows."""
    ends = ", ".join(f"(SELECT {end}(id) FROM {server.archived})" for end in ("MIN", "MAX"))
    return Statement(f"SELECT {ends}", ())


def with_keys(server: Server, after: int, last: int, keys: Sequence[str]) -> Statement:
    """Read id, message, queue and key of the rows of a range that have one of the keys; by the range alone."""
    return Statement(
        f"SELECT id, message_id, queue, {server.columns(['key'])} FROM {server.archived}"
        f"{server.use[Index.PRIMARY]} WHERE id > %s AND id <= %s "
        f"AND {server.columns(['key'])} IN ({holes(len(keys))})",
        (after, last, *keys),
    )


def events_of(server: Server, messages: Sequence[int]) -> Statement:
    """Read the ids of what is recorded of these messages."""
    # One by one: MySQL reads an index from end to end, FORCE INDEX or not, where it has all columns and the table
    # is taken for empty
    given = server.values(("message_id",), [(message,) for message in messages])
    return Statement(
        f"SELECT e.id FROM {given.sql} {server.join_each} {server.event} AS e"
        f"{server.use[Index.EVENT_MESSAGE]} ON e.message_id = given.message_id",
        given.params,
    )


def lakes(server: Server) -> Statement:
    """Read the names of the lakes that there are batches of."""
    return Statement(f"SELECT DISTINCT lake FROM {server.batch} ORDER BY lake", ())


def moment_before(server: Server, seconds: float) -> Statement:
    """Read the clock as of ``seconds`` ago."""
    return Statement(f"SELECT {server.from_now}", (-seconds,))


def window(server: Server, after: int, limit: int, cutoff: object) -> Statement:
    """Read, for the first rows after an id: the last id, the count, and the first one that is too young."""
    return Statement(
        "SELECT MAX(id), COUNT(*), MIN(CASE WHEN archived_at > %s THEN id END) FROM "
        f"(SELECT id, archived_at FROM {server.archived} WHERE id > %s ORDER BY id LIMIT %s) AS planned",
        (cutoff, after, limit),
    )


def count_history(server: Server, after: int, last: int) -> Statement:
    """Count the rows of a range, and read its last id."""
    return Statement(f"SELECT MAX(id), COUNT(*) FROM {server.archived} WHERE id > %s AND id <= %s", (after, last))


def batches(server: Server, lake: str) -> Statement:
    """Read a lake's batches by id."""
    return Statement(
        f"SELECT number, first_id, last_id, {server.columns(['rows'])}, state, purged_to FROM {server.batch} "
        "WHERE lake = %s ORDER BY first_id, number",
        (lake,),
    )


def insert_batch(
    server: Server, lake: str, number: int, first_id: int, last_id: int, rows: int, state: str
) -> Statement:
    """Plan a batch, or a rewrite."""
    return Statement(
        f"INSERT INTO {server.batch} (lake, number, first_id, last_id, {server.columns(['rows'])}, state, "
        f"planned_at) VALUES (%s, %s, %s, %s, %s, %s, {server.now})",
        (lake, number, first_id, last_id, rows, state),
    )


def drop_batches(server: Server, lake: str) -> Statement:
    """Drop what was planned but never got a manifest."""
    return Statement(f"UPDATE {server.batch} SET state = '{DROPPED}' WHERE lake = %s AND state = '{PLANNED}'", (lake,))


def verify_batch(server: Server, lake: str, number: int) -> Statement:
    """Record that a batch is in the lake."""
    return Statement(
        f"UPDATE {server.batch} SET state = '{VERIFIED}', verified_at = {server.now} WHERE lake = %s AND number = %s",
        (lake, number),
    )


def purge_end(server: Server, after: int, last: int, limit: int) -> Statement:
    """Read the last id of the first rows of a range; NULL if it is empty."""
    return Statement(
        f"SELECT MAX(id) FROM (SELECT id FROM {server.archived} WHERE id > %s AND id <= %s ORDER BY id LIMIT %s) "
        "AS next",
        (after, last, limit),
    )


def delete_history(server: Server, after: int, last: int) -> Statement:
    """Delete a range of rows that the lake has."""
    return Statement(f"DELETE FROM {server.archived} WHERE id > %s AND id <= %s", (after, last))


def purge_batch(server: Server, lake: str, number: int, purged_to: int) -> Statement:
    """Record up to which id a batch's rows are gone."""
    return Statement(
        f"UPDATE {server.batch} SET purged_to = %s, "
        f"state = CASE WHEN last_id <= %s THEN '{PURGED}' ELSE state END, "
        f"purged_at = CASE WHEN last_id <= %s THEN {server.now} ELSE purged_at END WHERE lake = %s "
        "AND number = %s",
        (purged_to, purged_to, purged_to, lake, number),
    )


def count_from(server: Server, lower: int, most: int) -> Statement:
    """Count the rows from an id on, but not beyond ``most``."""
    return Statement(
        f"SELECT COUNT(*) FROM (SELECT id FROM {server.archived} WHERE id >= %s ORDER BY id LIMIT %s) AS those",
        (lower, most),
    )


def first_at(server: Server, lower: int) -> Statement:
    """Read id and time of the first row from an id on; no row if there is none."""
    return Statement(f"SELECT id, archived_at FROM {server.archived} WHERE id >= %s ORDER BY id LIMIT 1", (lower,))
