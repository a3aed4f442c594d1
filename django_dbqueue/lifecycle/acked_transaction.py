"""One commit for what a block writes and for the ack of its message (promise P15).

The fenced ack is the last statement before the commit, so a consumer that lost the claim writes nothing. Before it, a
savepoint from the start of the block is released. If the server or the block ended that transaction in between, the
savepoint is gone, and the ack would be committed without the rows it vouches for. On MySQL a deadlock rolls back the
whole transaction, and a caller that swallows the error continues in a new one without noticing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from django.db import DatabaseError, transaction

from django_dbqueue import conf
from django_dbqueue.exceptions import LeaseLost, TransactionBroken, TransactionNotAllowed
from django_dbqueue.lifecycle import moves, settle_many
from django_dbqueue.lifecycle.held_message import HeldMessage
from django_dbqueue.lifecycle.left_behind import pointed_to, pointing_to
from django_dbqueue.sessions.django_session import DjangoSession
from django_dbqueue.statements import moves_sql


@contextmanager
def acked_with_their_rows(messages: Sequence[HeldMessage], session: DjangoSession) -> Iterator[None]:
    """Run the block in a transaction that ends with the ack of all messages that the block didn't settle itself.

    LeaseLost if one of them is lost; then nothing is committed, and ``lease_lost`` of each that is lost is true.
    """
    connection = session.connection
    if not connection.in_atomic_block and not connection.get_autocommit():
        raise TransactionNotAllowed(
            "message.transaction() was called with autocommit off, where its end commits nothing: "
            "call set_autocommit(True) first, and leave AUTOCOMMIT out of the database's settings."
        )
    with transaction.atomic(using=session.using):
        earlier = [message.settlements_pending for message in messages]
        beginning: Any = connection.savepoint()
        yield
        try:
            connection.savepoint_commit(beginning)
        except DatabaseError as error:
            raise TransactionBroken(messages[0].pk) from error
        pairs = zip(messages, earlier, strict=True)
        unsettled = [message for message, before in pairs if message.settlements_pending == before]
        if any(conf.on_ack(queue) == conf.DELETE for queue in {message.queue for message in unsettled}):
            unsettled = _ack_what_is_held(unsettled, session)
        if len(messages) == 1 and unsettled:
            moves.settle_one(messages[0], session, "ack", moves.ack_of(session, messages[0].queue))
        elif lost := settle_many.ack_many(unsettled, session):
            raise LeaseLost(lost[0].pk, "ack")


def _ack_what_is_held(messages: Sequence[HeldMessage], session: DjangoSession) -> list[HeldMessage]:
    """Ack, but keep, the messages that rows point to, perhaps those of this transaction; return the others."""
    ids = [message.pk for message in messages]
    held = set[int]().union(*(pointed_to(session, key, ids) for key in pointing_to("Message")))
    for message in messages:
        if message.pk in held:
            moves.settle_one(message, session, "ack", moves_sql.ack(session.server))
    return [message for message in messages if message.pk not in held]
