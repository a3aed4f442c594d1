"""Which of what streams hold is overdue: the lease that counts is their claim's, and not the message's."""

from __future__ import annotations

from django_dbqueue.databases.session import Session
from django_dbqueue.databases.statement import MAX_IDS, Statement
from django_dbqueue.states.claim_states import FREEING, OPEN


def overdue_tokens(session: Session) -> list[int]:
    """Return the tokens of stream claims whose lease has expired: what they hold is stuck."""
    server = session.server
    statement = Statement(
        f"SELECT claim_token FROM {server.stream_claim} WHERE state IN ('{OPEN}', '{FREEING}') "
        f"AND lease_until <= {server.now} LIMIT %s",
        (MAX_IDS,),
    )
    return [int(row[0]) for row in session.fetch(statement)]
