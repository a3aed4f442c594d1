"""What a handler has done for good: a row for each of a message's steps, beside the hot table.

A row is written under the fence of the message's claim: the statement reads, and locks, the message's own row. So
whoever has lost the claim remembers nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from django_dbqueue.databases.indexes import Index
from django_dbqueue.databases.server import Server
from django_dbqueue.databases.session import Session
from django_dbqueue.databases.statement import Change, Claim, Params, Statement
from django_dbqueue.statements.moves_sql import held
from django_dbqueue.states.table import NOT_DONE, not_due
from django_dbqueue.statuses import NEW

STEP: Final = "step"
"""It ran, and this is its result."""
CURSOR: Final = "cursor"
"""A resumable step in progress, and this is the cursor that it saved last."""
SLEEP: Final = "sleep"
"""A sleep, which is over at ``until``."""
WAIT: Final = "wait"
"""A wait for the event that ``body`` names, which no handler has found yet."""
EVENT: Final = "event"
"""A wait that found its event, and this is its payload."""
TIMED_OUT: Final = "timed out"
"""A wait whose timeout came before its event."""

GRACE: Final = 5.0
"""Seconds after which a message is delivered again if its handler died between the commit of its wait and its check."""


class Remembered(NamedTuple):
    """What is to be kept of a step, in the form of the columns; ``seconds``: when it is over, from now."""

    name: str
    kind: str
    body: str | None = None
    content_type: str | None = None
    types: str | None = None
    seconds: float | None = None


def of_message(server: Server, message_id: int) -> Statement:
    """Read all steps of a message: name, kind, body, content type, types, and whether a sleep or a wait is over."""
    return Statement(
        "SELECT name, kind, body, content_type, types, "
        f"CASE WHEN until <= {server.now} THEN 1 ELSE 0 END FROM {server.step} WHERE message_id = %s",
        (message_id,),
    )


def names(server: Server, message_id: int) -> Statement:
    """Read the names of what a message's handler has done, in order of time."""
    return Statement(
        f"SELECT name FROM {server.step} WHERE message_id = %s AND kind NOT IN ('{WAIT}', '{CURSOR}') "
        f"AND (kind <> '{SLEEP}' OR until <= {server.now}) ORDER BY at, name",
        (message_id,),
    )


def remember(server: Server, claim: Claim, step: Remembered) -> Statement:
    """Write a step, if the claim still holds the message, whose row is then locked; else write nothing."""
    fence = held(server, [claim])
    seconds = () if step.seconds is None else (step.seconds,)
    until = server.from_now if seconds else "NULL"
    return Statement(
        f"INSERT INTO {server.step} (message_id, name, kind, body, content_type, types, until, token, read_count, at) "
        f"SELECT id, %s, %s, %s, %s, %s, {until}, claim_token, read_count, {server.now} "
        f"FROM {server.message}{server.use[Index.IDS]} WHERE {fence.sql}{server.lock_row}",
        (step.name, step.kind, step.body, step.content_type, step.types, *seconds, *fence.params),
    )


def put(server: Server, claim: Claim, step: Remembered) -> Statement:
    """Write a step as ``remember`` does, over the one of this name if there is one."""
    columns = ("kind", "body", "content_type", "types", "token", "read_count", "at")
    written = remember(server, claim, step)
    return Statement(written.sql + server.or_replace(server.step, "message_id, name", columns), written.params)


def cursor(server: Server, message_id: int, name: str) -> Statement:
    """Read the cursor of a step in progress."""
    return Statement(
        f"SELECT body, content_type, types FROM {server.step} "
        f"WHERE message_id = %s AND name = %s AND kind = '{CURSOR}'",
        (message_id, name),
    )


def resolve(server: Server, message_id: int, step: Remembered) -> Statement:
    """Write how a wait ended, in a transaction that has locked the message's row."""
    return Statement(
        f"UPDATE {server.step} SET kind = %s, body = %s, content_type = %s, types = %s, at = {server.now} "
        "WHERE message_id = %s AND name = %s",
        (step.kind, step.body, step.content_type, step.types, message_id, step.name),
    )


def sleep(server: Server, message_id: int, name: str) -> Change:
    """run → n, uncharged, due when the step of this name is over."""
    until = Statement(
        server.later_of(f"(SELECT until FROM {server.step} WHERE message_id = %s AND name = %s)", server.now),
        (message_id, name),
    )
    return _suspended(until.sql, until.params)


def suspend(server: Server, seconds: float) -> Change:
    """run → n, uncharged, due after this many seconds."""
    return _suspended(server.from_now, (seconds,))


def _suspended(due: str, params: Params) -> Change:
    return Change(
        f"status = '{NEW}', conn_id = NULL, worker_id = NULL, available_at = {due}, due_at = {due}, "
        "finished_at = NULL, crashes = 0, "
        "read_count = CASE WHEN read_count > 0 THEN read_count - 1 ELSE 0 END",
        (*params, *params),
        in_lane="returns",
    )


def park(server: Server, claim: Claim, name: str) -> Statement:
    """Let a message that was suspended under this claim wait until its step is over, or for ever.

    It changes nothing if the message has been woken, claimed again, or given new content, for which there is no such
    step. One that waits in its group's line is left there, and due when its step is over.
    """
    of_step = f"FROM {server.step} WHERE message_id = %s AND name = %s"
    until, parked = f"(SELECT until {of_step})", server.parked
    return Statement(
        f"UPDATE {server.message}{server.use[Index.IDS]} "
        f"SET available_at = CASE WHEN available_at = {parked} THEN {parked} ELSE COALESCE({until}, {parked}) END, "
        f"due_at = COALESCE({until}, due_at) "
        f"WHERE id = %s AND {not_due(server)} AND claim_token = %s AND EXISTS (SELECT 1 {of_step})",
        (claim.id, name, claim.id, name, *claim, claim.id, name),
    )


def are_in_use(server: Server) -> Statement:
    """Read a row if there is a step, or an event."""
    return Statement(
        f"SELECT 1 FROM (SELECT 1 AS one) AS any_row WHERE EXISTS (SELECT 1 FROM {server.step}) "
        f"OR EXISTS (SELECT 1 FROM {server.event_value})",
        (),
    )


def any_step(server: Server) -> Statement:
    """Read whether there is a step of any message."""
    return Statement(f"SELECT message_id FROM {server.step} LIMIT 1", ())


def forget(server: Server, ids: Sequence[int]) -> tuple[Statement, Statement]:
    """Delete the steps of these messages, and what they wait for."""
    named = [(each,) for each in ids]
    return (
        server.delete_each(server.step, ("message_id",), named),
        server.delete_each(server.waiter, ("message_id",), named, index=Index.WAITER_MESSAGE),
    )


def forget_steps(session: Session, ids: Sequence[int], *, may_skip: bool = True) -> None:
    """Delete the steps of messages that end, or start over, in the caller's transaction.

    ``may_skip``: skip it if nobody has any; not for a transaction that sees the past.
    """
    if ids and not (may_skip and not session.fetch(any_step(session.server))):
        for statement in forget(session.server, ids):
            session.run(statement)


def forget_one(server: Server, message_id: int, name: str) -> Statement:
    """Delete a step, so that it runs again."""
    return Statement(f"DELETE FROM {server.step} WHERE message_id = %s AND name = %s", (message_id, name))


def unfinished(message_id: int) -> Statement:
    """Return the fence of a message that may be delivered again."""
    return Statement(f"id = %s AND {NOT_DONE}", (message_id,))


def behind(server: Server, message_id: int, limit: int) -> Statement:
    """Read the messages of steps behind an id, by id; and NULL beside each that is gone."""
    return Statement(
        f"SELECT s.message_id, m.id FROM {server.step} AS s "
        f"LEFT JOIN {server.message} AS m ON m.id = s.message_id "
        "WHERE s.message_id > %s ORDER BY s.message_id LIMIT %s",
        (message_id, limit),
    )
