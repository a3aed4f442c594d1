"""What a verdict does to the row of its message."""

from __future__ import annotations

from django_dbqueue.databases import Change, Dialect
from django_dbqueue.databases.events_sql import REJECT
from django_dbqueue.worker.execution import Verdict


def change_of(dialect: Dialect, verdict: Verdict) -> Change:
    """Return what a verdict other than an ack does to a row."""
    messages = dialect.messages
    if verdict.verb == "release":
        return messages.release(pause=verdict.delay or 0.0)
    if verdict.verb == "drop":
        return messages.drop(verdict.error)
    if verdict.verb == "cut off":
        return messages.cut_off(verdict.error)
    if verdict.verb == "reject":
        change = messages.reject(verdict.error, verdict.exception or REJECT)
    else:
        change = messages.nack(verdict.delay, verdict.error, verdict.exception)
    if verdict.keeps_trace and change.event is not None:
        change = change._replace(event=change.event._replace(whole=True))
    return change
