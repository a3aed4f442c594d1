"""What a verdict does to the row of its message."""

from __future__ import annotations

from django_dbqueue.databases import Change, Server
from django_dbqueue.statements import moves_sql
from django_dbqueue.statements.events_sql import REJECT
from django_dbqueue.worker.execution import Verdict


def change_of(server: Server, verdict: Verdict) -> Change:
    """Return what a verdict other than an ack does to a row."""
    if verdict.verb == "release":
        return moves_sql.release(server, pause=verdict.delay or 0.0)
    if verdict.verb == "drop":
        return moves_sql.drop(server, verdict.error)
    if verdict.verb == "cut off":
        return moves_sql.cut_off(server, verdict.error)
    if verdict.verb == "reject":
        change = moves_sql.reject(server, verdict.error, verdict.exception or REJECT)
    else:
        change = moves_sql.nack(server, verdict.delay, verdict.error, verdict.exception)
    if verdict.keeps_trace and change.event is not None:
        change = change._replace(event=change.event._replace(whole=True))
    return change
