"""Results of tasks: kept by the transaction that acks their messages, until their time is over (``expired_rows``).

That is a worker's (``worker/settler``, perhaps with its next claim), or the one of a transactional handler.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, Final
from weakref import WeakKeyDictionary

from django.db import DataError

from django_dbqueue.databases.statement import MAX_IDS, Kept, Statement
from django_dbqueue.lifecycle import results_sql
from django_dbqueue.sessions.django_session import DjangoSession

INSERT_SIZE: Final = 2_000_000
"""Characters of one INSERT, unless one row alone has more: a packet holds it, even escaped."""
WIDEST: Final = 8
"""Bytes of a packet that a character may need: two for each of four, as the driver escapes them."""
AROUND: Final = 1_000
"""Bytes of a packet that are left to the rest of the INSERT of one row."""
_ESCAPED: Final = (b"\0", b"\n", b"\r", b"\x1a", b'"', b"'", b"\\")

_packets: WeakKeyDictionary[Any, int] = WeakKeyDictionary()
"""By the driver's connection, whose session keeps the limit that it began with."""


class OversizedResult(DataError):
    """A result is larger than what the server takes in one packet. Sending it would end the session."""


def keep(session: DjangoSession, results: Mapping[int, Kept], acked: set[int]) -> None:
    """Write the results of those that were acked, in the transaction that acked them."""
    rows = [(message_id, kept) for message_id, kept in results.items() if message_id in acked]
    while rows:
        some = rows[: fitting((kept for _, kept in rows), room(session))]
        if not fits(session, dict(some)):
            raise OversizedResult(f"the result of message {some[0][0]} is larger than max_allowed_packet allows")
        session.run(results_sql.insert(session.server, some))
        del rows[: len(some)]


def fitting(results: Iterable[Kept], most: int = INSERT_SIZE) -> int:
    """Return how many of these, from the first on, one INSERT takes."""
    number = size = 0
    for kept in islice(results, MAX_IDS):
        size += len(kept.body) + len(kept.types or "")
        if number and size > most:
            break
        number += 1
    return number


def room(session: DjangoSession) -> int:
    """Return how many characters one INSERT of several rows may have."""
    packet = _packet(session)
    return INSERT_SIZE if packet is None else min(INSERT_SIZE, packet // WIDEST)


def fits(session: DjangoSession, results: Mapping[int, Kept]) -> bool:
    """Return whether the server takes these, of which ``fitting`` said that one INSERT takes them."""
    if len(results) != 1 or (packet := _packet(session)) is None:
        return True
    [kept] = results.values()
    text = kept.body + (kept.types or "")
    if len(text) * WIDEST + AROUND < packet:
        return True
    data = text.encode()
    return len(data) + sum(map(data.count, _ESCAPED)) + AROUND < packet


def _packet(session: DjangoSession) -> int | None:
    """Return the bytes that the server takes at once; None where there is no such limit."""
    connection = session.connection
    if not session.server.packet:
        return None
    connection.ensure_connection()
    raw = connection.connection
    if raw not in _packets:
        [(_packets[raw],)] = session.fetch(Statement(session.server.packet, ()))
    return _packets[raw]
