"""One commit for what a block writes and for the ack of its message (promise P15).

The fenced ack is the last statement before the commit, so a consumer that lost the claim writes nothing. Before it, a
savepoint from the start of the block is released. If the server or the block ended that transaction in between, the
savepoint is gone, and the ack would be committed without the rows it vouches for. On MySQL a deadlock rolls back the
whole transaction, and a caller that swallows the error continues in a new one without noticing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import DatabaseError, transaction

from django_dbqueue.exceptions import TransactionBroken, TransactionNotAllowed
from django_dbqueue.lifecycle import settle
from django_dbqueue.lifecycle.django_session import DjangoSession
from django_dbqueue.lifecycle.held_message import HeldMessage


@contextmanager
def acked_with_its_rows(message: HeldMessage, session: DjangoSession) -> Iterator[None]:
    """Run the block in a transaction that ends with the message's ack, unless the block settled it itself."""
    connection = session.connection
    if not connection.in_atomic_block and not connection.get_autocommit():
        raise TransactionNotAllowed(
            "message.transaction() was called with autocommit off, where its end commits nothing: "
            "call set_autocommit(True) first, and leave AUTOCOMMIT out of the database's settings."
        )
    with transaction.atomic(using=session.using):
        earlier = message.settlements_pending
        beginning: Any = connection.savepoint()
        yield
        try:
            connection.savepoint_commit(beginning)
        except DatabaseError as error:
            raise TransactionBroken(message.pk) from error
        if message.settlements_pending == earlier:
            settle.ack_one(message, session)
