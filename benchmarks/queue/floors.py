"""The raw floor: the same rows in the queue's own table by the driver alone. No Django, no objects, no promises.

The statements are the fewest that give each message a holder and then its end, fenced by the holder's token. What a
row doesn't say is left to the server's defaults.
"""

from __future__ import annotations

import json
import secrets
import time
from contextlib import closing, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import urlsplit

from benchmarks.queue.sessions import connect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

Result = TypeVar("Result")

TABLE: Final = "django_dbqueue_message"
LEASE_SECONDS: Final = 30
RESCAN_SECONDS: Final = 1.0
MYSQL_DEADLOCK: Final = 1213
_INSERT: Final = f"INSERT INTO {TABLE} (queue, body) VALUES "


class Floor:
    """A session on MySQL or MariaDB, and the statements on it."""

    insert_one = f"{_INSERT}(%s, %s)"
    begin = "BEGIN"
    now = "UTC_TIMESTAMP(6)"
    claimed = (
        "status = 'run', conn_id = CONNECTION_ID(), claim_token = %s, read_count = read_count + 1, "
        f"claimed_at = UTC_TIMESTAMP(6), available_at = UTC_TIMESTAMP(6) + INTERVAL {LEASE_SECONDS} SECOND, "
        f"lease_seconds = {LEASE_SECONDS}"
    )
    use_primary_key = " FORCE INDEX (PRIMARY)"
    behind = "(available_at = %s AND id > %s) OR (available_at > %s AND available_at <= UTC_TIMESTAMP(6))"

    def __init__(self, session: Any, queue: str) -> None:
        self.session = session
        self.cursor = session.cursor()
        self.queue = queue
        self._mark: tuple[Any, int] | None = None
        self._rescanned_at = 0.0

    def insert(self, payload: Any) -> None:
        """One message, and its commit."""
        self.cursor.execute(self.insert_one, (self.queue, json.dumps(payload)))

    def insert_many(self, payloads: Sequence[Any]) -> None:
        """One statement, and its commit."""
        values = ", ".join(["(%s, %s)"] * len(payloads))
        self.cursor.execute(_INSERT + values, [each for one in payloads for each in (self.queue, json.dumps(one))])

    def claim(self, limit: int, token: int) -> Sequence[tuple[Any, ...]]:
        """Take the first rows that are due, behind the last one taken; from the beginning once a second."""
        rows: Sequence[tuple[Any, ...]] = ()
        if self._mark and time.monotonic() - self._rescanned_at < RESCAN_SECONDS:
            rows = self._take(self.behind, self.behind_params(*self._mark), limit, token)
        if not rows:
            self._rescanned_at = time.monotonic()
            rows = self._take(f"available_at <= {self.now}", (), limit, token)
        if rows:
            self._mark = (rows[-1][2], rows[-1][0])
        return rows

    @staticmethod
    def behind_params(due: Any, message_id: int) -> tuple[Any, ...]:
        return due, message_id, due

    def _take(self, due: str, params: tuple[Any, ...], limit: int, token: int) -> Sequence[tuple[Any, ...]]:
        self.cursor.execute(
            f"SELECT id, body, available_at FROM {TABLE} FORCE INDEX (dbqueue_claim) WHERE queue = %s AND status = 'n' "
            f"AND priority = 0 AND ({due}) ORDER BY available_at, id LIMIT {limit} FOR UPDATE SKIP LOCKED",
            (self.queue, *params),
        )
        rows: Sequence[tuple[Any, ...]] = self.cursor.fetchall()
        if rows:
            self.cursor.execute(f"UPDATE {TABLE} SET {self.claimed} WHERE id IN ({ids_of(rows)})", (token,))
        return rows

    def ack(self, rows: Sequence[tuple[Any, ...]], token: int) -> None:
        """What is held is done."""
        self.cursor.execute(
            f"UPDATE {TABLE}{self.use_primary_key} SET status = 'y', live = NULL, available_at = {self.now}, "
            f"finished_at = {self.now} WHERE id IN ({ids_of(rows)}) AND status = 'run' AND claim_token = {token}"
        )
        if self.cursor.rowcount != len(rows):
            raise AssertionError(f"{self.cursor.rowcount} of {len(rows)} were still held")

    def drain(self, limit: int, *, together: bool, handle: Callable[[Any], Any]) -> None:
        """Claim, handle and ack until nothing is due. `together`: an ack and the next claim have one commit."""
        held: Sequence[tuple[Any, ...]] = ()
        token = 0
        while True:
            if held and not together:
                self._commit(partial(self.ack, held, token))
                held = ()
            held, token = self._commit(partial(self._settle_and_claim, held, token, limit))
            if not held:
                return
            for row in held:
                handle(json.loads(row[1]))

    def _settle_and_claim(
        self, held: Sequence[tuple[Any, ...]], token: int, limit: int
    ) -> tuple[Sequence[tuple[Any, ...]], int]:
        if held:
            self.ack(held, token)
        token = secrets.randbits(62)
        return self.claim(limit, token), token

    def _commit(self, work: Callable[[], Result]) -> Result:
        """Run it as one transaction; anew where the server has rolled it back for a deadlock, which it counts."""
        while True:
            self.cursor.execute(self.begin)
            try:
                done = work()
            except Exception as error:
                if error.args[:1] == (MYSQL_DEADLOCK,):
                    continue
                raise
            self.cursor.execute("COMMIT")
            return done


class PostgresFloor(Floor):
    now = "statement_timestamp()"
    use_primary_key = ""
    behind = "(available_at, id) > (%s, %s) AND available_at <= statement_timestamp()"

    def insert_many(self, payloads: Sequence[Any]) -> None:
        self.cursor.execute(
            f"INSERT INTO {TABLE} (queue, body) SELECT %s, unnest(%s::text[])",
            (self.queue, [json.dumps(one) for one in payloads]),
        )

    @staticmethod
    def behind_params(due: Any, message_id: int) -> tuple[Any, ...]:
        return due, message_id

    def _take(self, due: str, params: tuple[Any, ...], limit: int, token: int) -> Sequence[tuple[Any, ...]]:
        self.cursor.execute(
            f"""
            WITH picked AS MATERIALIZED (
                SELECT id, available_at FROM {TABLE} WHERE queue = %s AND status = 'n' AND priority = 0 AND {due}
                ORDER BY available_at, id LIMIT {limit} FOR UPDATE SKIP LOCKED
            )
            UPDATE {TABLE} AS m SET status = 'run', conn_id = pg_backend_pid(), claim_token = %s,
                read_count = read_count + 1, claimed_at = statement_timestamp(), lease_seconds = {LEASE_SECONDS},
                available_at = statement_timestamp() + interval '{LEASE_SECONDS} seconds'
            FROM picked WHERE m.id = picked.id RETURNING m.id, m.body, picked.available_at""",
            (self.queue, *params, token),
        )
        return sorted(self.cursor.fetchall(), key=lambda row: (row[2], row[0]))


class SQLiteFloor(Floor):
    insert_one = f"{_INSERT}(?, ?)"
    begin = "BEGIN IMMEDIATE"
    now = "strftime('%Y-%m-%d %H:%M:%f000', 'now')"
    use_primary_key = ""
    take = f"""
        UPDATE {TABLE} SET status = 'run', conn_id = 1, claim_token = ?, read_count = read_count + 1,
            claimed_at = {now}, available_at = strftime('%Y-%m-%d %H:%M:%f000', 'now', '+{LEASE_SECONDS} seconds'),
            lease_seconds = {LEASE_SECONDS}
        WHERE id IN (
            SELECT id FROM {TABLE} WHERE queue = ? AND status = 'n' AND priority = 0 AND available_at <= {now}
            ORDER BY available_at, id LIMIT ?
        ) RETURNING id, body"""

    def insert_many(self, payloads: Sequence[Any]) -> None:
        self.cursor.execute("BEGIN IMMEDIATE")
        self.cursor.executemany(self.insert_one, ((self.queue, json.dumps(one)) for one in payloads))
        self.cursor.execute("COMMIT")

    def claim(self, limit: int, token: int) -> Sequence[tuple[Any, ...]]:
        self.cursor.execute(self.take, (token, self.queue, limit))
        return self.cursor.fetchall()


def ids_of(rows: Sequence[tuple[Any, ...]]) -> str:
    """The ids as the inside of an IN list."""
    return ", ".join(str(row[0]) for row in rows)


@contextmanager
def floor(url: str, queue: str) -> Iterator[Floor]:
    """The floor of the database at this URL, in a session of its own."""
    kind = {"postgres": PostgresFloor, "sqlite": SQLiteFloor}.get(urlsplit(url).scheme, Floor)
    with closing(connect(url)) as session:
        yield kind(session, queue)
