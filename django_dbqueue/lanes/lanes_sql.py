"""The lanes of groups: who waits in a line, who has a ticket, and how one message makes way for the next.

Two side tables, so that messages without a group pay nothing. All of their statements look rows up by the primary key,
one by one, in the order of the lanes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from django_dbqueue.databases.indexes import Index
from django_dbqueue.databases.server import Server
from django_dbqueue.databases.statement import Statement
from django_dbqueue.lanes.heads_sql import OWN, first_of, firsts
from django_dbqueue.states.table import Stage, condition_of
from django_dbqueue.statuses import NEW

ENTRIES: Final = 250
"""Places that MySQL and MariaDB read for some of the next lanes: of a deep one no more."""


def enter(server: Server, waiting: Sequence[tuple[int, int]]) -> Statement:
    """Put messages, given as lane and id, into their lines, unless they stand there already."""
    given = server.values(("lane", "message_id"), waiting)
    return Statement(
        f"INSERT INTO {server.line} (lane, message_id) SELECT given.lane, given.message_id FROM {given.sql} "
        f"WHERE 1 = 1{server.or_nothing(server.line, 'lane, message_id')}",
        given.params,
    )


def enter_range(server: Server, first: int, count: int) -> Statement:
    """Put the rows of one INSERT into their lines, where the server tells only the first id (MySQL)."""
    return Statement(
        f"INSERT INTO {server.line} (lane, message_id) SELECT lane, id FROM {server.message} AS m"
        f"{server.use[Index.IDS]} WHERE id BETWEEN %s AND %s + %s * @@auto_increment_increment "
        f"AND lane IS NOT NULL AND {condition_of(server, 'waiting')}"
        f"{server.or_nothing(server.line, 'lane, message_id')}",
        (first, first, count - 1),
    )


def enter_after(server: Server, above: int) -> Statement:
    """Put this transaction's own messages into their lines: with a higher id than any was when it began.

    Nobody else's waits and stands in no line, but those of flows that wait for others. At READ COMMITTED, it waits for
    nobody.
    """
    return Statement(
        f"INSERT INTO {server.line} (lane, message_id) SELECT m.lane, m.id FROM {server.message} AS m"
        f"{server.use[Index.IDS]} WHERE m.id > %s AND m.lane IS NOT NULL "
        f"AND {condition_of(server, 'waiting')} AND m.claim_token IS NULL AND m.flow IS NULL "
        f"AND NOT EXISTS (SELECT 1 FROM {server.line} AS l"
        f"{server.use[Index.PRIMARY]} WHERE l.lane = m.lane AND l.message_id = m.id)",
        (above,),
    )


def leave(server: Server, waiting: Sequence[tuple[int, int]]) -> Statement:
    """Take messages, given as lane and id, out of their lines."""
    return server.delete_each(server.line, ("lane", "message_id"), waiting)


def behind(server: Server, lanes: Sequence[int], limit: int, width: int) -> Statement:
    """Read who waits first in each of these lines, up to ``limit`` each.

    Not of a group that is paused, or that has a rate of its own; nor of one that runs in order (``width`` is 1, unless
    it has its own) while somebody else has taken some of it along: those come before all who wait.
    """
    return Statement(
        f"SELECT s.lane, s.message_id FROM {firsts(server, len(lanes))} AS s "
        f"LEFT JOIN {server.group} AS g ON g.lane = s.lane "
        "WHERE (g.lane IS NULL OR (NOT g.is_paused AND g.rate IS NULL)) "
        f"AND (COALESCE(g.width, %s) > 1 OR {first_of(server, '-1 - s.lane')} IS NULL)",
        (*(value for lane in lanes for value in (lane, limit)), width),
    )


def follow(server: Server, claimed: Sequence[tuple[int, int]]) -> Statement:
    """Let messages, given as lane and id, stand among those taken along, and no more in their lines."""
    given = server.values(("from_lane", "taken"), claimed)
    same = "t.lane = given.from_lane AND t.message_id = given.taken"
    return server.update_each(server.line, given, "lane = -1 - given.from_lane", same)


def occupancy(server: Server, lanes: Sequence[int]) -> Statement:
    """Read of each lane: who waits first, a ticket that is out (one row each, or NULL), and what it has of its own.

    A plain read: it waits for nobody.
    """
    given = server.values(("lane",), [(lane,) for lane in lanes])
    return Statement(
        f"SELECT given.lane, {first_of(server, 'given.lane')}, k.ticket, {OWN} FROM {given.sql} "
        f"LEFT JOIN {server.group} AS g ON g.lane = given.lane "
        f"LEFT JOIN {server.ticket} AS k ON k.lane = given.lane",
        given.params,
    )


def draw(server: Server, tickets: Sequence[tuple[int, int]], mark: int) -> Statement:
    """Take tickets, given as lane and number, under a mark in place of a message, unless somebody has them."""
    given = server.values(("lane", "ticket"), tickets)
    return Statement(
        f"INSERT INTO {server.ticket} (lane, ticket, message_id) SELECT given.lane, given.ticket, %s "
        f"FROM {given.sql} WHERE 1 = 1{server.or_nothing(server.ticket, 'lane, ticket')}",
        (mark, *given.params),
    )


def pass_on(server: Server, tickets: Sequence[tuple[int, int, int, int]]) -> Statement:
    """Give tickets (lane, number, whose, to whom) to others, as far as they still are whose it says."""
    given = server.values(("of_lane", "number", "held_by", "next_one"), tickets)
    same = "t.lane = given.of_lane AND t.ticket = given.number AND t.message_id = given.held_by"
    return server.update_each(server.ticket, given, "message_id = given.next_one", same)


def free(server: Server, tickets: Sequence[tuple[int, int, int]]) -> Statement:
    """Free tickets, each given as lane, number and holder; no other ticket of the lane is locked."""
    return server.delete_each(server.ticket, ("lane", "ticket", "message_id"), tickets)


def free_of(server: Server, held: Sequence[tuple[int, int]]) -> Statement:
    """Free the tickets of messages, given as lane and id; MySQL and MariaDB lock each ticket of these lanes."""
    return server.delete_each(server.ticket, ("lane", "message_id"), held)


def let_run(server: Server, ids: Sequence[int], *, paced: bool = False) -> Statement:
    """Make parked messages due: now, or when their senders wanted, or (``paced``) when their groups' turn is."""
    named, turn = server.id_in(ids), server.now
    if paced:
        wait = (
            f"SELECT (g.scheduled - {server.clock_us}) / 1000000.0 FROM {server.group} AS g "
            f"WHERE g.lane = {server.message}.lane"
        )
        turn = server.plus(server.now, f"({wait})")
    due = server.later_of("due_at", turn)
    return Statement(
        f"UPDATE {server.message}{server.use[Index.IDS]} SET available_at = {due} "
        f"WHERE {named.sql} AND {condition_of(server, 'waiting')}",
        named.params,
    )


def park(server: Server, ids: Sequence[int]) -> Statement:
    """Let messages that are new, and not dead, wait for a ticket."""
    named = server.id_in(ids)
    return Statement(
        f"UPDATE {server.message}{server.use[Index.IDS]} SET available_at = {server.parked} "
        f"WHERE {named.sql} AND {Stage.UNCLAIMED.sql}",
        named.params,
    )


def ready(server: Server, lane: int, ids: Sequence[int]) -> Statement:
    """Lock those of these messages that are ready, or delayed, and still of this lane, and read their ids."""
    named = server.id_in(ids)
    return Statement(
        f"SELECT id FROM {server.message}{server.use[Index.IDS]} WHERE {named.sql} AND lane = %s "
        f"AND status = '{NEW}' AND available_at < {server.parked} ORDER BY id{server.lock_row}",
        (*named.params, lane),
    )


def lock_dead(server: Server, ids: Sequence[int]) -> Statement:
    """Lock those of these messages that are dead, and read their ids."""
    named = server.id_in(ids)
    return Statement(
        f"SELECT id FROM {server.message}{server.use[Index.IDS]} WHERE {named.sql} AND {Stage.DEAD.sql} "
        f"ORDER BY id{server.lock_row}",
        named.params,
    )


def places(server: Server, where: Statement) -> Statement:
    """Lock the rows of a fence that are in a lane, and read their places."""
    return Statement(
        f"SELECT lane, id, queue FROM {server.message}{server.use[Index.IDS]} "
        f"WHERE {where.sql} AND lane IS NOT NULL ORDER BY id{server.lock_row}",
        where.params,
    )


def are_in_use(server: Server) -> Statement:
    """Read whether anybody is in a line or has a ticket, whether anybody waits in a flow, if one exists."""
    return Statement(
        f"SELECT CASE WHEN EXISTS (SELECT 1 FROM {server.line}) OR EXISTS (SELECT 1 FROM {server.ticket}) "
        f"THEN 1 ELSE 0 END, CASE WHEN EXISTS (SELECT 1 FROM {server.edge}) THEN 1 ELSE 0 END, "
        f"CASE WHEN EXISTS (SELECT 1 FROM {server.flow}) THEN 1 ELSE 0 END",
        (),
    )


def next_lane(server: Server, after: int) -> Statement:
    """Read the next lane with somebody in its line, and who is the first there."""
    return Statement(
        f"SELECT lane, message_id FROM {server.line}{server.use[Index.PRIMARY]} WHERE lane > %s "
        "ORDER BY lane, message_id LIMIT 1",
        (after,),
    )


def queues_of(server: Server, ids: Sequence[int]) -> Statement:
    """Read the queues of messages."""
    named = server.id_in(ids)
    return Statement(f"SELECT id, queue FROM {server.message}{server.use[Index.IDS]} WHERE {named.sql}", named.params)


def next_lanes(server: Server, table: str, after: int, until: int, limit: int) -> Statement:
    """Read some of the next lanes that a line or a ticket names, in their order; none only if there are no more.

    A skip scan reads one index entry for each lane, however many messages wait there; it reads all that there are, up
    to ``limit``. MySQL and MariaDB read up to
    ``ENTRIES`` places instead, and find the lanes among them.
    """
    if server.skips_for_distinct:
        # By recursion the servers read the whole table for each lane (measured at 30,000 rows: 15 million for 500
        # lanes), and whether they skip for DISTINCT depends on their statistics
        return Statement(
            f"SELECT DISTINCT lane FROM (SELECT lane FROM {table}{server.use[Index.PRIMARY]} "
            f"WHERE lane > %s AND lane <= %s ORDER BY lane LIMIT {ENTRIES}) AS places ORDER BY lane LIMIT %s",
            (after, until, limit),
        )
    step = f"SELECT MIN(l.lane) FROM {table} AS l WHERE l.lane > {{}} AND l.lane <= %s"
    return Statement(
        f"WITH RECURSIVE walk (lane, place) AS (SELECT ({step.format('%s')}), 1 "
        f"UNION ALL SELECT ({step.format('walk.lane')}), place + 1 FROM walk "
        "WHERE lane IS NOT NULL AND place < %s) SELECT lane FROM walk WHERE lane IS NOT NULL",
        (after, until, until, limit),
    )


def tickets_behind(server: Server, lane: int, ticket: int, limit: int) -> Statement:
    """Read the next tickets, and what became of the messages that have them: lane, ticket, id, queue, standing.

    The standing is 'lives', 'dead', or 'ended': done, or not there any more.
    """
    ended = f"m.id IS NULL OR {Stage.FINISHED.sql}"
    fate = f"CASE WHEN {ended} THEN 'ended' WHEN {Stage.DEAD.sql} THEN 'dead' ELSE 'lives' END"
    behind = server.behind(("lane", "ticket"), (lane, ticket))
    return Statement(
        f"SELECT k.lane, k.ticket, k.message_id, m.queue, {fate} FROM (SELECT lane, ticket, message_id "
        f"FROM {server.ticket}{server.use[Index.PRIMARY]} WHERE {behind.sql} "
        f"ORDER BY lane, ticket LIMIT %s) AS k "
        f"LEFT JOIN {server.message} AS m{server.use[Index.IDS]} ON m.id = k.message_id "
        "ORDER BY k.lane, k.ticket",
        (*behind.params, limit),
    )


def followers_behind(server: Server, lane: int, message_id: int, limit: int) -> Statement:
    """Read the next of those taken along: line, id, and whether it is 'run', 'new' or 'ended'."""
    behind = server.behind(("lane", "message_id"), (lane, message_id))
    return Statement(
        f"SELECT w.lane, w.message_id, CASE WHEN {Stage.CLAIMED.sql} THEN 'run' WHEN {Stage.UNCLAIMED.sql} THEN 'new' "
        f"ELSE 'ended' END FROM (SELECT lane, message_id FROM {server.line}{server.use[Index.PRIMARY]} "
        f"WHERE lane < 0 AND {behind.sql} ORDER BY lane, message_id LIMIT %s) "
        f"AS w LEFT JOIN {server.message} AS m{server.use[Index.IDS]} ON m.id = w.message_id "
        "ORDER BY w.lane, w.message_id",
        (*behind.params, limit),
    )
