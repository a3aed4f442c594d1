"""Results of tasks: kept by the transaction that acks their messages, until their time is over (``expired_rows``)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice

from django_dbqueue.databases.statements import Kept
from django_dbqueue.lifecycle.django_session import MAX_IDS, DjangoSession

INSERT_SIZE = 2_000_000
"""Characters of one INSERT, unless one row alone has more: a packet holds it, even escaped."""


def keep(session: DjangoSession, results: Mapping[int, Kept], acked: set[int]) -> None:
    """Write the results of those that were acked, in the transaction that acked them."""
    rows = [(message_id, kept) for message_id, kept in results.items() if message_id in acked]
    while rows:
        some = rows[: fitting(kept for _, kept in rows)]
        session.run(session.dialect.results.insert(some))
        del rows[: len(some)]


def fitting(results: Iterable[Kept]) -> int:
    """Return how many of these, from the first on, one INSERT takes."""
    number = size = 0
    for kept in islice(results, MAX_IDS):
        size += len(kept.body)
        if number and size > INSERT_SIZE:
            break
        number += 1
    return number
