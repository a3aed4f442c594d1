"""Which of what streams hold is overdue: the lease that counts is their claim's, and not the message's."""

from __future__ import annotations

from django_dbqueue.databases.session import Session
from django_dbqueue.databases.statements import MAX_IDS


def overdue_tokens(session: Session) -> list[int]:
    """Return the tokens of stream claims whose lease has expired: what they hold is stuck."""
    return [int(row[0]) for row in session.fetch(session.dialect.stream_claims.overdue_tokens(MAX_IDS))]
