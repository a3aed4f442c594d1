"""The raw floor: the same rows in the queue's own table by the driver alone. No Django, no objects, no promises."""

from __future__ import annotations

import json
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from benchmarks.queue.sessions import connect

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

TABLE: Final = "django_dbqueue_message"
_INSERT: Final = f"INSERT INTO {TABLE} (queue, body) VALUES "


class Floor:
    """A session, and the statements on it. What a row doesn't say is left to the server's defaults."""

    insert_one = f"{_INSERT}(%s, %s)"

    def __init__(self, session: Any, queue: str) -> None:
        self.session = session
        self.cursor = session.cursor()
        self.queue = queue

    def insert(self, payload: Any) -> None:
        """One message, and its commit."""
        self.cursor.execute(self.insert_one, (self.queue, json.dumps(payload)))

    def insert_many(self, payloads: Sequence[Any]) -> None:
        """One statement, and its commit."""
        values = ", ".join(["(%s, %s)"] * len(payloads))
        self.cursor.execute(_INSERT + values, [each for one in payloads for each in (self.queue, json.dumps(one))])


class PostgresFloor(Floor):
    def insert_many(self, payloads: Sequence[Any]) -> None:
        self.cursor.execute(
            f"INSERT INTO {TABLE} (queue, body) SELECT %s, unnest(%s::text[])",
            (self.queue, [json.dumps(one) for one in payloads]),
        )


class SQLiteFloor(Floor):
    insert_one = f"{_INSERT}(?, ?)"

    def insert_many(self, payloads: Sequence[Any]) -> None:
        self.cursor.execute("BEGIN IMMEDIATE")
        self.cursor.executemany(self.insert_one, ((self.queue, json.dumps(one)) for one in payloads))
        self.cursor.execute("COMMIT")


@contextmanager
def floor(url: str, queue: str) -> Iterator[Floor]:
    """The floor of the database at this URL, in a session of its own."""
    kind = {"postgres": PostgresFloor, "sqlite": SQLiteFloor}.get(urlsplit(url).scheme, Floor)
    with closing(connect(url)) as session:
        yield kind(session, queue)
