"""huey with its queue in SQL: peewee's storage on MySQL and MariaDB, huey's own storage on PostgreSQL.

huey.readthedocs.io, Consuming Tasks: workers are threads, which is the default; four of them. SqlHuey: a pooled peewee
database, so that each thread keeps its connection. `results=False` stores no results. peewee takes mysqlclient where
there is no PyMySQL; that is C, and faster. On PostgreSQL `PostgresHuey` waits by LISTEN. huey deletes a task before it
runs it, and so promises at most once. There is no bulk interface. Under faults its tasks have retries, a second apart.
"""

from __future__ import annotations

from typing import Any

from benchmarks.queue.peers.adapters.adapter import IN_FAULTS, at_once, handled, payload, server
from benchmarks.queue.peers.adapters.adapter import Adapter as Base

_WORKERS = at_once(4)
_BATCH = 1000
_RETRIES: dict[str, Any] = {"retries": 10, "retry_delay": 1} if IN_FAULTS else {}


class Adapter(Base):
    def __init__(self) -> None:
        self._huey = _on_postgres() if server().scheme == "postgres" else _on_mysql()
        self._noop = self._huey.task(name="noop", **_RETRIES)(_noop)

    def set_up(self) -> None:
        """Making the storage has made its tables."""

    def enqueue_one(self, number: int) -> None:
        self._noop(payload(number))

    def preload(self, messages: int) -> None:
        storage = self._huey.storage
        parcels = [self._huey.serialize_task(self._noop.s(payload(number))) for number in range(messages)]
        if server().scheme == "postgres":
            with storage.db(commit=True) as cursor:
                sql = f"insert into {storage.table_task} (queue, data) select %s, unnest(%s::bytea[])"
                cursor.execute(sql, (storage.name, parcels))
            return
        rows = [{"queue": storage.name, "data": each, "priority": 0} for each in parcels]
        for first in range(0, messages, _BATCH):
            storage.Task.insert_many(rows[first : first + _BATCH]).execute()

    def remaining(self) -> int:
        return int(self._huey.storage.queue_size())

    def left(self) -> list[int]:
        storage = self._huey.storage
        waiting = [*storage.enqueued_items(), *storage.scheduled_items()]
        return [self._huey.deserialize_task(data).args[0]["n"] for data in waiting]

    def work(self) -> None:
        self._huey.create_consumer(workers=_WORKERS, worker_type="thread", periodic=False).run()


def _noop(payload: dict[str, Any]) -> None:
    handled(payload["n"])


def _on_mysql() -> Any:
    from huey.contrib.sql_huey import SqlHuey
    from playhouse.db_url import connect

    url = server()._replace(scheme="mysql+pool").geturl()
    return SqlHuey("benchmarks", database=connect(url, max_connections=20), results=False)


def _on_postgres() -> Any:
    from huey import PostgresHuey

    return PostgresHuey("benchmarks", dsn=server()._replace(scheme="postgresql").geturl(), results=False)
