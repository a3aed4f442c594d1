"""Reading a payload that a claim left in the database for its size: done by the thread that handles it."""

from __future__ import annotations

import time
from typing import Any, Final

from django.db import Error

from django_dbqueue.exceptions import LeaseLost
from django_dbqueue.sessions.django_session import DjangoSession
from django_dbqueue.sessions.retry import is_out_of_memory
from django_dbqueue.statements import moves_sql
from django_dbqueue.worker.delivery import Delivery
from django_dbqueue.worker.pace import Backoff
from django_dbqueue.worker.thread_connections import discard

PATIENCE: Final = 10.0
"""Seconds for which a database outage is not held against the message."""
TRIES: Final = 3
"""MariaDB's client reports a reply that does not fit into memory as a lost connection (2013), each time."""


def read(delivery: Delivery) -> None:
    """Read what the claim has left; MemoryError if it doesn't fit, LeaseLost if the claim is lost."""
    message, session = delivery.message, delivery.session
    if "body" in message.__dict__:
        return
    backoff, give_up_at, refused = Backoff(0.05, 2.0), time.monotonic() + PATIENCE, 0
    while True:
        try:
            read_body(session, message)
        except (Error, MemoryError) as error:
            discard(session.using)
            refused = refused + 1 if _answers(session) else 0
            if is_out_of_memory(error) or refused >= TRIES:
                raise MemoryError(
                    f"the payload does not fit into the memory of the worker, or into a packet ({error}): give it more "
                    "room, or store the data elsewhere and send a reference"
                ) from error
            if time.monotonic() >= give_up_at:
                raise
        else:
            return
        time.sleep(backoff.next())


def read_body(session: DjangoSession, message: Any) -> None:
    """Read what a claim has left in the database; raise LeaseLost if the claim no longer holds the message."""
    if "body" in message.__dict__:
        return
    rows = session.fetch(moves_sql.read_body(session.server, message.claim))
    if not rows:
        raise LeaseLost(message.pk, "read")
    message.body = rows[0][0]


def _answers(session: DjangoSession) -> bool:
    """Return whether the database is up, so that the payload itself must be the problem."""
    try:
        session.connection.ensure_connection()
        return session.connection.is_usable()
    except (Error, MemoryError):
        return False
