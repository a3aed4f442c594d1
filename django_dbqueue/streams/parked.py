"""Messages that a claim has parked: moved as far as the claim still holds them, and a failure joins its group."""

from __future__ import annotations

from django_dbqueue.databases import Change
from django_dbqueue.databases.session import Session
from django_dbqueue.statements import events_sql
from django_dbqueue.streams import stream_messages_sql
from django_dbqueue.streams.burial import blamed
from django_dbqueue.streams.stream_messages_sql import Among


def move_parked(session: Session, change: Change, among: Among, token: int, *, queue: str) -> int:
    """Move what a claim still holds of these rows, all of a queue, and record it if it is an event; return how many."""
    server, change = session.server, blamed(session, change, queue)
    if change.event is not None:
        session.run(events_sql.record(server, change.event, stream_messages_sql.held_in_claim(among, token)))
    return session.run(stream_messages_sql.move_parked(server, change, among, token))
