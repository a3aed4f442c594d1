"""Who cancels what a worker runs calls that worker: it sets a mark in its row, which the worker's next beat meets.

The mark is set after the commit, by a statement of its own, so that no beat waits for a transaction of somebody else. A
canceller that dies in between has cancelled all the same: the worker learns it when it extends the lease.
"""

from __future__ import annotations

import logging
from functools import partial

from django.db import Error, transaction

from django_dbqueue.databases.statement import Statement
from django_dbqueue.lifecycle import calls_sql
from django_dbqueue.sessions.commit_hooks import is_only_a_testcase
from django_dbqueue.sessions.django_session import DjangoSession

logger = logging.getLogger(__name__)


def call_holders(session: DjangoSession, where: Statement) -> None:
    """Call, once the open transaction is committed, the workers that run messages of a fence; the rows are locked."""
    workers = sorted({row[0] for row in session.fetch(calls_sql.holders(session.server, where))})
    if not workers:
        return
    if is_only_a_testcase(session.connection):
        _call(session, workers)
    else:
        transaction.on_commit(partial(_call, session, workers), using=session.using)


def _call(session: DjangoSession, workers: list[int]) -> None:
    try:
        session.outermost(partial(session.run, calls_sql.call(session.server, workers)))
    except Error as error:
        logger.warning(
            "what was cancelled is dead, but its worker could not be called, and interrupts it only when it extends "
            "the lease: %s",
            " ".join(str(error).split()),
        )
