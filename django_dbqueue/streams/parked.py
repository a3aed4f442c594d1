"""Messages that a claim has parked: moved as far as the claim still holds them, and a failure joins its group."""

from __future__ import annotations

from django_dbqueue.databases import Change
from django_dbqueue.databases.session import Session
from django_dbqueue.databases.stream_messages_sql import Among
from django_dbqueue.streams.burial import blamed


def move_parked(session: Session, change: Change, among: Among, token: int, *, queue: str) -> int:
    """Move what a claim still holds of these rows, all of a queue, and record it if it is an event; return how many."""
    dialect, change = session.dialect, blamed(session, change, queue)
    if change.event is not None:
        session.run(dialect.events.record(change.event, dialect.stream_messages.held_in_claim(among, token)))
    return session.run(dialect.stream_messages.move_parked(change, among, token))
