"""What workers ask and write who delete the history by age, and what a reader asks who wants to know what went.

Moments are whole microseconds since 1970: they are compared with one moment that was read before, and not with a clock
that may be set between two statements.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from django_dbqueue.databases.indexes import Index
from django_dbqueue.databases.server import Server
from django_dbqueue.databases.statement import InOrder, Statement, holes

EVERY_ID: Final = 2**63 - 1
_ROW: Final = 1


def state(server: Server) -> Statement:
    """Read what is remembered; no row if nobody has deleted by age yet."""
    return Statement(
        f"SELECT seen_us, gaps, places, gone_to, purged_to FROM {server.age} WHERE id = {_ROW}",
        (),
    )


def insert_state(
    server: Server, seen_us: int, gaps: str, places: str, gone_to: int, purged_to: int | None
) -> Statement:
    """Remember for the first time."""
    return Statement(
        f"INSERT INTO {server.age} (id, seen_us, gaps, places, gone_to, purged_to) VALUES ({_ROW}, %s, %s, %s, %s, %s)",
        (seen_us, gaps, places, gone_to, purged_to),
    )


def update_state(
    server: Server, seen_us: int, gaps: str, places: str, gone_to: int, purged_to: int | None
) -> Statement:
    """Remember."""
    return Statement(
        f"UPDATE {server.age} SET seen_us = %s, gaps = %s, places = %s, gone_to = %s, purged_to = %s WHERE id = {_ROW}",
        (seen_us, gaps, places, gone_to, purged_to),
    )


def clock(server: Server) -> Statement:
    """Read the server's clock."""
    return Statement(f"SELECT {server.clock_us}", ())


def since_last_check(server: Server) -> Statement:
    """Read how far the clock moved since somebody read it, below 0 if it was set back; no row if nobody has."""
    return Statement(f"SELECT {server.clock_us} - seen_us FROM {server.age} WHERE id = {_ROW}", ())


def counted_to(server: Server) -> Statement:
    """Read the moment before which workers have counted for good what ended; no row before the first count."""
    return Statement(f"SELECT {server.microseconds.format('settled_to')} FROM {server.progress} WHERE id = 1", ())


def slowest_reader(server: Server) -> Statement:
    """Read the position of the slowest reader of the history, lakes among them; NULL if there is none."""
    return Statement(f"SELECT MIN(position) FROM {server.reader}", ())


def window(server: Server, after: int, upto: int, limit: int) -> Statement:
    """Read id, queue and moment of the first rows after an id, up to another one."""
    return InOrder(
        f"SELECT id, queue, {server.microseconds.format('archived_at')} FROM {server.archived} "
        "WHERE id > %s AND id <= %s ORDER BY id LIMIT %s",
        (after, upto, limit),
    )


def lock_rows(server: Server, ids: Sequence[int]) -> Statement:
    """Lock those of the rows that nobody else has locked."""
    return InOrder(
        f"SELECT id FROM {server.archived}{server.use[Index.PRIMARY]} WHERE id IN ({holes(len(ids))}) "
        f"ORDER BY id{server.skip_locked}",
        tuple(ids),
    )


def first_between(server: Server, lower: int, upper: int) -> Statement:
    """Read id and moment of the first row from an id on, and before another one; no row if there is none."""
    return _one(server, lower, upper, "")


def last_between(server: Server, lower: int, upper: int) -> Statement:
    """Read id and moment of the last row from an id on, and before another one; no row if there is none."""
    return _one(server, lower, upper, " DESC")


def _one(server: Server, lower: int, upper: int, direction: str) -> Statement:
    return InOrder(
        f"SELECT id, {server.microseconds.format('archived_at')} FROM {server.archived} "
        f"WHERE id >= %s AND id < %s ORDER BY id{direction} LIMIT 1",
        (lower, upper),
    )


def gone_to(server: Server) -> Statement:
    """Read the highest id that was deleted by age; no row if none was. Others before it may still be there."""
    return Statement(f"SELECT gone_to FROM {server.age} WHERE id = {_ROW}", ())
