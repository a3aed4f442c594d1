"""The states of the claims of consuming streams, and which are overdue: their lease counts, not the messages'."""

from __future__ import annotations

from typing import Final

from django_dbqueue.databases.session import Session
from django_dbqueue.databases.statement import MAX_IDS, Statement

OPEN: Final = "open"
"""A claim whose batch is not yet known to be committed."""
ACKED: Final = "acked"
FREEING: Final = "freeing"
"""A claim whose messages are being released, a part at a time."""
FREED: Final = "freed"


def overdue_tokens(session: Session) -> list[int]:
    """Return the tokens of stream claims whose lease has expired: what they hold is stuck."""
    server = session.server
    statement = Statement(
        f"SELECT claim_token FROM {server.stream_claim} WHERE state IN ('{OPEN}', '{FREEING}') "
        f"AND lease_until <= {server.now} LIMIT %s",
        (MAX_IDS,),
    )
    return [int(row[0]) for row in session.fetch(statement)]
