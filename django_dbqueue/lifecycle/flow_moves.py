"""What the end of a message means for those that wait for it: in its transaction, and after its commit (P22).

The transaction that ends a message deletes the edges from it. After the commit it looks whether those who waited have
an edge left, and lets them run if not. Of the last two that end, each looks after its own commit, so one of them sees
that there is none. Nobody counts, and nobody waits for anybody's row.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from functools import partial
from typing import Any, Final

from django.db import DatabaseError, transaction

from django_dbqueue.claims import burial
from django_dbqueue.databases import Change
from django_dbqueue.databases.statement import MAX_IDS, LanePlace, Statement, chunks
from django_dbqueue.lanes import lane_moves, lanes_sql
from django_dbqueue.lifecycle import flows_sql
from django_dbqueue.lifecycle.enqueue import notify
from django_dbqueue.lifecycle.flows_sql import WHEN_DEAD, WHEN_FINISHED
from django_dbqueue.sessions.commit_hooks import is_only_a_testcase
from django_dbqueue.sessions.django_session import DjangoSession, session_of
from django_dbqueue.statements import moves_sql
from django_dbqueue.states.counts import counted

logger = logging.getLogger("django_dbqueue")

NOT_NEEDED: Final = "Not needed: nothing that it waited for is dead."


def moved(session: DjangoSession, change: Change, members: Sequence[int]) -> None:
    """Note, in the transaction of a change, what it means for those that wait for messages of flows."""
    if change.in_lane in ("done", "dropped"):
        ended_well(session, members)
    elif change.in_lane == "dies":
        died(session, members)
    elif change.in_lane == "returns" and change.event is not None and change.event.may_die:
        died(session, [row[0] for row in session.fetch(moves_sql.lock(session.server, _dead(session, members)))])


def _dead(session: DjangoSession, members: Sequence[int]) -> Statement:
    return moves_sql.dead_of(session.server, members)


def ended_well(session: DjangoSession, members: Sequence[int]) -> None:
    """Delete the edges from messages that are done, or were dropped."""
    for ids in chunks(members, MAX_IDS):
        if waiters := session.fetch(flows_sql.waiters_for(session.server, ids)):
            session.run(flows_sql.forget_edges_from(session.server, ids))
            check_after_commit(session, {row[0] for row in waiters})


def died(session: DjangoSession, members: Sequence[int]) -> None:
    """Delete the edges from dead messages that a death satisfies; those that need an end in peace stay.

    A dead one waits for nobody any more: if it is requeued, it runs, whatever it waited for.
    """
    for ids in chunks(members, MAX_IDS):
        session.run(flows_sql.forget_edges_to(session.server, ids))
        needs = session.fetch(flows_sql.needs_of_waiters_for(session.server, ids))
        fired = sorted(row[0] for row in needs if row[1] == WHEN_DEAD)
        after = {row[0] for row in needs if row[1] == WHEN_FINISHED}
        for downstream in fired:
            for statement in flows_sql.fire(session.server, downstream):
                session.run(statement)
        if after:
            session.run(flows_sql.forget_finished_edges_from(session.server, ids))
        check_after_commit(session, after | set(fired))


class GateCheck:
    """A look for open gates, once the transaction is committed."""

    def __init__(self, using: str, downstream: Collection[int]) -> None:
        self.using = using
        self.downstream = set(downstream)

    def __call__(self) -> None:
        try:
            check_gates(session_of(self.using), self.downstream)
        except DatabaseError:
            logger.warning(
                "%s of flows could not be looked after once what was waited for was committed; a worker "
                "does that soon", counted(len(self.downstream), "message"), exc_info=True,
            )  # fmt: skip


def check_after_commit(session: DjangoSession, downstream: Collection[int]) -> None:
    """Look for open gates once the transaction is committed: all of a transaction at once.

    Where only Django's TestCase has begun one, which never commits, look now.
    """
    if not downstream:
        return
    connection: Any = session.connection
    if is_only_a_testcase(connection):
        check_gates(session, downstream)
        return
    for savepoints, hook, *_ in reversed(connection.run_on_commit):
        if isinstance(hook, GateCheck) and hook.using == session.using and savepoints == set(connection.savepoint_ids):
            hook.downstream.update(downstream)
            return
    transaction.on_commit(GateCheck(session.using, downstream), using=session.using)


def check_gates(session: DjangoSession, downstream: Collection[int]) -> int:
    """Let those of these messages run that wait for nobody any more; return how many gates were open."""
    found = 0
    for ids in chunks(sorted(downstream), MAX_IDS):
        if opened := [row[0] for row in session.fetch(flows_sql.open_gates(session.server, ids))]:
            found += session.outermost(partial(_let_run, session, opened))
    return found


def _let_run(session: DjangoSession, ids: list[int]) -> int:
    """Delete the gates of these messages; let those run whose gate it was."""
    server = session.server
    with session.transaction():
        gates: dict[int, str] = dict(session.fetch(flows_sql.lock_gates(server, ids)))
        if not gates:
            return 0
        session.run(flows_sql.forget_gates(server, sorted(gates)))
        waiting = session.fetch(flows_sql.queues_of(server, flows_sql.waiting(server, sorted(gates))))
        unneeded = [row[0] for row in waiting if gates[row[0]] == WHEN_DEAD]
        going = [row for row in waiting if gates[row[0]] != WHEN_DEAD]
        if unneeded:
            _drop(session, unneeded)
        if in_lanes := [LanePlace(lane, message_id, queue) for message_id, queue, lane in going if lane is not None]:
            lane_moves.enter(session, in_lanes)
        if free := [row[0] for row in going if row[2] is None]:
            session.run(lanes_sql.let_run(server, free))
        for queue in {row[1] for row in going if row[2] is None}:
            notify(session, queue, 1)
    return len(gates)


def _drop(session: DjangoSession, ids: list[int]) -> None:
    """Mark messages done that nobody needs: they waited for a death that didn't come."""
    burial.move(session, moves_sql.drop(session.server, NOT_NEEDED), flows_sql.waiting(session.server, ids))
    ended_well(session, ids)
