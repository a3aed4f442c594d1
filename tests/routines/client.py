"""A program in another language, as far as the queue can tell: it knows the routines and nothing else.

It runs in autocommit at the server's own isolation, like the command-line clients. As a process of its own,
``python -m tests.routines.client drain QUEUE`` gets and deletes until a line comes in and the queue is empty, and
prints the id of each message that it was given, with the number of the read; ``drain-by-token`` does it with the
fenced routines, ``read`` deletes nothing, ``hold`` claims and stays; ``put QUEUE COUNT PAYLOAD`` puts, and prints the
ids; ``put-in-groups QUEUE COUNT GROUPS`` puts into groups, and ``drain-groups QUEUE`` gets what is in them.
"""

from __future__ import annotations

import select
import sys
from collections.abc import Callable, Iterator
from typing import Any

PASSING = {1213, 1205, 1020, "40001", "40P01"}
"""What a client tries again: deadlock, lock wait, changed record; the same on PostgreSQL."""


class Client:
    """One session. ``who`` is (user, password) of another account than the tests' own."""

    def __init__(self, settings: dict[str, Any], who: tuple[str, str] | None = None) -> None:
        self.is_mysql = "mysql" in settings["ENGINE"]
        user, password = who or (settings["USER"], settings["PASSWORD"])
        place = {"host": settings["HOST"], "port": int(settings["PORT"] or 0), "user": user, "password": password}
        if self.is_mysql:
            import MySQLdb

            self.Error: type[Exception] = MySQLdb.Error
            self.session: Any = MySQLdb.connect(**place, database=settings["NAME"], charset="utf8mb4", autocommit=True)
            self.run("SET autocommit = 1")  # the server's default is off while a test says so
        else:
            import psycopg

            self.Error = psycopg.Error
            self.session = psycopg.connect(**place, dbname=settings["NAME"], autocommit=True)
        self.retried = 0

    def close(self) -> None:
        if self.session is not None:
            self.session.close()
            self.session = None

    def run(self, sql: str, *params: Any) -> list[dict[str, Any]]:
        """Run one statement and return its rows by the names of their columns."""
        cursor = self.session.cursor()
        cursor.execute(sql, params)
        names = [column[0] for column in cursor.description or ()]
        rows = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()] if names else []
        while self.is_mysql and cursor.nextset():
            pass
        cursor.close()
        return rows

    def call(self, routine: str, *arguments: Any) -> list[dict[str, Any]]:
        """Call a routine that gives rows, or nothing."""
        verb = "CALL" if self.is_mysql else "SELECT * FROM"
        return self.run(f"{verb} {routine}({', '.join(['%s'] * len(arguments))})", *arguments)

    def value(self, routine: str, *arguments: Any) -> Any:
        """Call a routine that gives one value."""
        [row] = self.run(f"SELECT {routine}({', '.join(['%s'] * len(arguments))}) AS answer", *arguments)
        return row["answer"]

    def put(self, queue: str, payload: str, max_read_cnt: int | None = 0, invisibility_time: int | None = 60) -> int:
        return int(self.value("put_message_in_queue", queue, payload, max_read_cnt, invisibility_time))

    def put_in_group(
        self,
        queue: str,
        group: str | None,
        payload: str,
        max_read_cnt: int | None = 0,
        invisibility_time: int | None = 60,
    ) -> int:
        return int(self.value("put_message_in_group", queue, payload, max_read_cnt, invisibility_time, group))

    def kick(self, queue: str, group: str | None = None) -> int:
        return int(self.value("kick_group", queue, group))

    def get(self, queue: str) -> list[dict[str, Any]]:
        return self.call("get_message_from_queue", queue)

    def delete(self, message_id: int) -> None:
        self.call("delete_message_from_queue", message_id)

    def claim(self, queue: str, how_many: int = 1, lease: float | None = None) -> list[dict[str, Any]]:
        return self.call("claim_messages", queue, how_many, lease)

    def ack(self, message_id: int, token: int) -> bool:
        return bool(self.value("ack_message", message_id, token))

    def nack(self, message_id: int, token: int, delay: float | None = None) -> bool:
        return bool(self.value("nack_message", message_id, token, delay))

    def extend(self, message_id: int, token: int, seconds: float | None = None) -> bool:
        return bool(self.value("extend_message", message_id, token, seconds))

    def surely(self, work: Callable[[], Any]) -> Any:
        """Do it again while errors pass, as the documentation tells every client to."""
        while True:
            try:
                return work()
            except self.Error as error:
                if self.code(error) not in PASSING:
                    raise
                self.retried += 1

    @staticmethod
    def code(error: Exception) -> Any:
        return getattr(error, "sqlstate", None) or error.args[0]


def _each(get: Callable[[], list[dict[str, Any]]]) -> Iterator[dict[str, Any]]:
    """What is got until a line has come in and nothing is left; each that its reader is done with is told of."""
    ends = False
    while True:
        ends = ends or bool(select.select([sys.stdin], [], [], 0)[0])
        rows = get()
        if not rows and ends:
            return
        for row in rows:
            yield row
            print(row["id"], row.get("read_cnt", row.get("read_count")), flush=True)


def _drain(client: Client, queue: str) -> None:
    for row in _each(lambda: client.surely(lambda: client.get(queue))):
        client.surely(lambda row=row: client.delete(row["id"]))


def _read(client: Client, queue: str) -> None:
    """Get without deleting, until nothing is visible to anybody any more."""
    idle = 0
    while idle < 20:
        rows = client.surely(lambda: client.get(queue))
        idle = 0 if rows else idle + 1
        for row in rows:
            print(row["id"], row["read_cnt"], flush=True)


def _drain_by_token(client: Client, queue: str) -> None:
    for row in _each(lambda: client.surely(lambda: client.claim(queue, 3, 600))):
        assert client.surely(lambda row=row: client.ack(row["id"], row["token"]))


def _hold(client: Client, queue: str, how_many: str) -> None:
    """Claim and work on it for ever."""
    for row in client.claim(queue, int(how_many), 600):
        print(row["id"], row["read_count"], flush=True)
    sys.stdin.readline()


def _put(client: Client, queue: str, count: str, payload: str) -> None:
    for _ in range(int(count)):
        print(client.surely(lambda: client.put(queue, payload)), flush=True)


def _put_in_groups(client: Client, queue: str, count: str, groups: str) -> None:
    """Put by transactions of one to three, of which each fifth rolls back, and kick after each commit."""
    for turn in range(int(count)):
        group = f"g{turn % int(groups)}"
        client.run("START TRANSACTION")
        ids = [client.put_in_group(queue, group, "x", 0, 600) for _ in range(1 + turn % 3)]
        if turn % 5 == 4:
            client.run("ROLLBACK")
            continue
        client.run("COMMIT")
        client.surely(lambda group=group: client.kick(queue, group))
        for message_id in ids:
            print(message_id, turn % int(groups), flush=True)


def _drain_groups(client: Client, queue: str) -> None:
    """Claim and ack until nothing comes, in and out of transactions; then let each group go on that still waits."""
    ends, turn = False, 0
    while True:
        ends = ends or bool(select.select([sys.stdin], [], [], 0)[0])
        rows = client.surely(lambda: client.claim(queue, 3, 600))
        if not rows and not client.surely(lambda: client.kick(queue)) and ends:
            return
        for row in rows:
            turn += 1
            client.surely(lambda row=row, turn=turn: _ack_of_group(client, row, in_transaction=turn % 3 == 0))
            print(row["id"], row["read_count"], flush=True)


def _ack_of_group(client: Client, row: dict[str, Any], *, in_transaction: bool) -> None:
    if not in_transaction:
        assert client.ack(row["id"], row["token"])
        return
    client.run("ROLLBACK")  # of a try before this one
    client.run("START TRANSACTION")
    client.put("elsewhere", "their own rows")
    assert client.ack(row["id"], row["token"])
    client.run("COMMIT")


def main(what: str, *arguments: str) -> None:
    from tests.settings import DATABASES

    client = Client(DATABASES["default"])
    {
        "drain": _drain,
        "read": _read,
        "drain-by-token": _drain_by_token,
        "hold": _hold,
        "put": _put,
        "put-in-groups": _put_in_groups,
        "drain-groups": _drain_groups,
    }[what](client, *arguments)
    print(f"retried {client.retried}", file=sys.stderr)


if __name__ == "__main__":
    main(*sys.argv[1:])
