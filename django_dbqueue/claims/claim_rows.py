"""How the rows of one range are taken, and what is built from them when.

A message is built from its row by the first code that asks for it: in a worker, by the thread that handles it, while
the main thread waits for the server. A body too large to be kept in memory until then is left in the database, and read
by that thread, too. So a claim's size is bounded, whatever the messages are.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from operator import itemgetter
from typing import Any, NamedTuple

from django_dbqueue.claims import claims_sql
from django_dbqueue.databases import Claim, Server, Statement
from django_dbqueue.databases.session import ClaimingSession
from django_dbqueue.databases.statement import Mark, Row
from django_dbqueue.statements.message_columns import CLAIMED_COLUMNS, RETURNED_COLUMNS
from django_dbqueue.statuses import NEW, RUNNING

_OF_ANY_PRIORITY = (*CLAIMED_COLUMNS, "priority")
_AVAILABLE_AT = CLAIMED_COLUMNS.index("available_at")
_READ_FIRST = ("read_count", "max_reads", "crashes", "lease_seconds", "lane", "flow")
Hydrator = Callable[..., Callable[..., Any]]
"""Returns what builds a message from a row of these columns (``lifecycle.hydration``)."""
_making = threading.RLock()
"""Makes a handler and a heartbeat that ask at once get the same object."""


@dataclass(slots=True, eq=False)
class Claimed:
    """A claimed row, the message built from it, and what is known without that, as the claim left it."""

    claim: Claim
    _row: Sequence[object]
    _make: Callable[[Claimed, Sequence[object]], Any]
    read_count: int = 0
    max_reads: int = 0
    crashes: int = 0
    lease_seconds: float = 0.0
    lane: int | None = None
    flow: int | None = None
    made: Any = None
    """The message, once it has been built."""
    _is_left: bool = False

    def let_go(self) -> None:
        """Forget what was read for the handler alone, now that it has ended; the next access reads it again."""
        if self.made is not None:
            self.made.forget_payload(body=self._is_left)

    @property
    def message(self) -> Any:
        """Return the message, always the same object."""
        if self.made is None:
            with _making:
                if self.made is None:
                    message = self._make(self, self._row)
                    if message.body is None:
                        self._is_left = True
                        del message.body  # as after defer()
                    self.made = message
        return self.made


class Terms(NamedTuple):
    """On what terms messages are claimed: what the claim writes into their rows."""

    token: int
    worker_id: int | None
    lease: float
    """Seconds, for messages that don't have their own."""
    max_reads: int
    """The same: after how many reads a message is dead, 0 for never."""


class ClaimSource(NamedTuple):
    """Where a claim takes rows from, on what terms, and what builds messages from them."""

    hydrator: Hydrator
    session: ClaimingSession
    queue: str
    terms: Terms
    most_bytes: int | None = None
    """The database keeps a larger body until the worker that handles the message reads it."""


def take_range(source: ClaimSource, priority: int, limit: int, mark: Mark | None) -> tuple[list[Claimed], Mark | None]:
    """Take what is due after the mark; return it, and the mark after it."""
    session, known = source.session, {**_known(source), "priority": priority}
    statement = first_statement(session.server, source.queue, priority, limit, mark, source.terms, source.most_bytes)
    if not _takes_at_once(session.server):
        rows = session.fetch(statement)
        claimed = _take_locked(source, rows, CLAIMED_COLUMNS, known) if rows else []
        return claimed, (rows[-1][_AVAILABLE_AT], rows[-1][0]) if rows else None
    rows = session.fetch_messages(statement)
    rows.sort(key=itemgetter(-1, 0))
    make = source.hydrator(RETURNED_COLUMNS, **known)
    messages = _claimed(rows, RETURNED_COLUMNS, source.terms, lambda _, row: make(row), charged=0)
    return messages, (rows[-1][-1].replace(tzinfo=UTC), rows[-1][0]) if rows else None


def first_statement(
    server: Server,
    queue: str,
    priority: int,
    limit: int,
    mark: Mark | None,
    terms: Terms,
    most_bytes: int | None = None,
) -> Statement:
    """Return the statement that finds and locks what is due, and takes it at once if the server can do both."""
    if _takes_at_once(server):
        change = claims_sql.take(server, **terms._asdict(), session=None, now=None)
        return claims_sql.claim(server, queue, priority, limit, mark, change, most_bytes=most_bytes)
    return claims_sql.due(
        server, CLAIMED_COLUMNS, queue, NEW, priority, limit, mark, moments_as_text=True, most_bytes=most_bytes
    )


def _takes_at_once(server: Server) -> bool:
    return server.returns_rows and bool(server.session_id)


def _take_locked(
    source: ClaimSource, rows: list[Row], columns: tuple[str, ...], known: dict[str, Any]
) -> list[Claimed]:
    """Take rows of these columns, and the clock's time behind them, that are locked."""
    session, server, terms = source.session, source.session.server, source.terms
    now = rows[0][-1]
    process = os.getpid()
    change = claims_sql.take(server, **terms._asdict(), session=process, now=now)
    count = session.run(claims_sql.take_ids(server, [row[0] for row in rows], change))
    if count != len(rows):  # can't happen: the rows are locked
        raise AssertionError(f"claimed {count} of {len(rows)} locked rows")
    moment = datetime.fromisoformat(now).replace(tzinfo=UTC)
    ends: dict[float, datetime] = {}
    known |= {"conn_id": session.connection_id if server.session_id else process, "claimed_at": moment}
    own = ("read_count", "max_reads", "lease_seconds", "available_at")
    make = source.hydrator(columns, own=own, **known)
    return _claimed(rows, columns, terms, partial(_as_claimed, make, moment, ends), charged=1)


def lock_parked(source: ClaimSource, ids: Sequence[int]) -> list[Row]:
    """Lock those of these messages that wait for nothing but their turn; return rows for ``take_parked``."""
    session = source.session
    at_once = _takes_at_once(session.server)
    names = ("id",) if at_once else _OF_ANY_PRIORITY
    return session.fetch(claims_sql.parked(session.server, ids, names, source.most_bytes, source.terms.max_reads))


def take_parked(source: ClaimSource, rows: list[Row]) -> list[Claimed]:
    """Take messages that ``lock_parked`` returned, whatever their priority, in this order."""
    session, terms, known = source.session, source.terms, _known(source)
    if not _takes_at_once(session.server):
        return _take_locked(source, rows, _OF_ANY_PRIORITY, known)
    columns = (*RETURNED_COLUMNS, "priority")
    change = claims_sql.take(session.server, **terms._asdict(), session=None, now=None)
    ids = [row[0] for row in rows]
    found = session.fetch_messages(
        claims_sql.take_ids_and_return(session.server, ids, change, columns, source.most_bytes)
    )
    make = source.hydrator(columns, **known)
    return _claimed(sorted(found, key=lambda row: row[0]), columns, terms, lambda _, row: make(row), charged=0)


def _known(source: ClaimSource) -> dict[str, Any]:
    """Return the attributes that all messages of a claim share, and that it needn't read."""
    terms = source.terms
    return {
        "queue": source.queue,
        "status": RUNNING,
        "worker_id": terms.worker_id,
        "claim_token": terms.token,
        "held_token": terms.token,
        "finished_at": None,
    }


def _claimed(
    rows: list[Row],
    columns: tuple[str, ...],
    terms: Terms,
    make: Callable[[Claimed, Sequence[object]], Any],
    *,
    charged: int,
) -> list[Claimed]:
    reads, limit, crashes, lease, lane, flow = (columns.index(name) for name in _READ_FIRST)
    return [
        Claimed(
            Claim(row[0], terms.token),
            row,
            make,
            row[reads] + charged,
            terms.max_reads if row[limit] is None else row[limit],
            row[crashes],
            row[lease] or terms.lease,
            row[lane],
            row[flow],
        )
        for row in rows
    ]


def _as_claimed(
    make: Callable[..., Any], moment: datetime, ends: dict[float, datetime], claimed: Claimed, row: Sequence[object]
) -> Any:
    """Build a message, as it is now, from a row as it was before ``take`` changed it; ``ends`` keeps leases' ends."""
    lease = claimed.lease_seconds
    if (until := ends.get(lease)) is None:
        ends[lease] = until = moment + timedelta(seconds=lease)
    return make(row, (claimed.read_count, claimed.max_reads, lease, until))
