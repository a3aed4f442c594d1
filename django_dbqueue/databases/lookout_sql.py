"""Whether there is anything to do: any number of facts in one statement, without locks, one index entry each.

A fact is a row (fact, name, priority) if it holds, and no row if it doesn't.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from django_dbqueue.databases.indexes import Index
from django_dbqueue.databases.server import Subject
from django_dbqueue.databases.statements import Statement
from django_dbqueue.databases.stream_claims_sql import StreamClaimsSQL
from django_dbqueue.statuses import NEW, RUNNING

READY: Final = "ready"
EXPIRED: Final = "expired"
PAUSED: Final = "paused"
AT_WORK: Final = "at work"
GIVEN_UP: Final = "given up"
RATED: Final = "rated"
ADDED: Final = "added"
LATE: Final = "late"
LATE_SOON: Final = "late soon"
_DUE: Final = {READY: NEW, EXPIRED: RUNNING}


class LookoutSQL(Subject):
    """A builder of facts, which also combines them."""

    @staticmethod
    def together(parts: Sequence[Statement]) -> Statement:
        """Ask all of them at once."""
        return Statement(
            " UNION ALL ".join(part.sql for part in parts), tuple(value for part in parts for value in part.params)
        )

    def due(self, fact: str, queue: str, known: Sequence[int]) -> Iterator[Statement]:
        """READY or EXPIRED: a row is due at a known priority, or one exists, due or not, at another.

        ``known`` is in descending order. So each range of the claim index is bounded, whatever else the queue holds. A
        caller that learns of a new priority only has to remember it.
        """
        above: int | None = None
        for priority in known:
            yield self._between(fact, queue, priority, above)
            yield self._stretch(
                fact, queue, f"priority = %s AND available_at <= {self.sql.now} ORDER BY available_at", (priority,)
            )
            above = priority
        yield self._between(fact, queue, None, above)

    def _between(self, fact: str, queue: str, low: int | None, high: int | None) -> Statement:
        bounds = [("priority > %s AND ", low), ("priority < %s AND ", high)]
        params = tuple(value for _, value in bounds if value is not None)
        where = "".join(sql for sql, value in bounds if value is not None).removesuffix(" AND ") or "priority <= 32767"
        return self._stretch(fact, queue, f"{where} ORDER BY priority DESC", params)

    def _stretch(self, fact: str, queue: str, where: str, params: tuple[int, ...]) -> Statement:
        return Statement(
            f"SELECT * FROM (SELECT '{fact}' AS fact, queue AS name, priority "
            f"FROM {self.sql.message}{self.sql.use[Index.CLAIM]} WHERE queue = %s AND status = '{_DUE[fact]}' "
            f"AND {where} LIMIT 1) AS stretch",
            (queue, *params),
        )

    def paused(self) -> Statement:
        """PAUSED, for each queue that is paused now."""
        return Statement(
            f"SELECT '{PAUSED}' AS fact, name, 0 AS priority FROM {self.sql.queue} WHERE {self.sql.is_paused}", ()
        )

    def at_work(self, queue: str) -> Statement:
        """AT_WORK: the queue holds messages that wait or run."""
        return Statement(
            f"SELECT * FROM (SELECT '{AT_WORK}' AS fact, queue AS name, priority "
            f"FROM {self.sql.message}{self.sql.use[Index.CLAIM]} WHERE queue = %s AND status IN ('{NEW}', '{RUNNING}') "
            "AND available_at IS NOT NULL LIMIT 1) AS work",
            (queue,),
        )

    def given_up(self) -> Statement:
        """GIVEN_UP: a claim of a stream is to be released."""
        given = StreamClaimsSQL(self.sql).given_up(1)
        return Statement(
            f"SELECT '{GIVEN_UP}' AS fact, stream AS name, 0 AS priority FROM ({given.sql}) AS given", given.params
        )

    def rated(self, queue: str) -> Statement:
        """RATED: groups of the queue have rates of their own."""
        return Statement(
            f"SELECT * FROM (SELECT '{RATED}' AS fact, queue AS name, 0 AS priority FROM {self.sql.group} "
            "WHERE queue = %s AND rate IS NOT NULL LIMIT 1) AS rated",
            (queue,),
        )

    def added(self) -> Statement:
        """ADDED: operators have added schedules; the priority is a number that changes with them."""
        return Statement(
            f"SELECT '{ADDED}' AS fact, '' AS name, COUNT(*) + SUM(revision) AS priority FROM {self.sql.schedule} "
            "WHERE is_added HAVING COUNT(*) > 0",
            (),
        )

    def late(self, fact: str, server: str, seconds: float) -> Statement:
        """LATE or LATE_SOON: the beat of a worker of this server will be late in ``seconds``, unless it arrives."""
        return Statement(
            f"SELECT * FROM (SELECT '{fact}' AS fact, '' AS name, 0 AS priority FROM {self.sql.worker} "
            f"WHERE server = %s AND late_at < {self.sql.plus(self.sql.now, '%s')} LIMIT 1) AS tardy",
            (server, seconds),
        )
