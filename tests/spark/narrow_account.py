"""A database account with a limit on its sessions, and how many of them are open."""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from django.conf import settings

from django_dbqueue.databases import Statement
from django_dbqueue.databases.sessions_sql import MYSQL_PROCESS_LIST
from django_dbqueue.management.spark_settings import credentials_of
from django_dbqueue.spark.connection import Connection
from django_dbqueue.spark.credentials import Credentials

PASSWORD = "narrow"


@contextmanager
def narrow_account(sessions: int) -> Iterator[Credentials]:
    """Create the account, and drop it with the sessions that it still has."""
    account = f"narrow_{secrets.token_hex(4)}"
    owner = credentials_of("default")
    with Connection(owner) as admin:
        for sql in _created(account, sessions):
            admin.run(Statement(sql, ()))
    try:
        fields = json.loads(owner.to_json()) | {"user": account, "password": PASSWORD}
        yield Credentials.parse(json.dumps(fields), where="the test")
    finally:
        with Connection(owner) as admin:
            for (session,) in admin.fetch(_sessions(account)):
                end = f"SELECT pg_terminate_backend({session}, 5000)"
                admin.run(Statement(end if admin.vendor == "postgresql" else f"KILL {session}", ()))
            for sql in _dropped(account):
                admin.run(Statement(sql, ()))


class Peaks:
    """Counts an account's sessions all the time, in a thread; ``seen`` has the most under each name given to it."""

    def __init__(self, account: str) -> None:
        self.account = account
        self.name = ""
        self.seen: dict[str, int] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._count)

    def __enter__(self) -> Peaks:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _count(self) -> None:
        with Connection(credentials_of("default")) as admin:
            while not self._ended.wait(0.005):
                name, now = self.name, len(admin.fetch(_sessions(self.account)))
                self.seen[name] = max(now, self.seen.get(name, 0))


def _sessions(account: str) -> Statement:
    if settings.TEST_DATABASE == "postgres":
        return Statement("SELECT pid FROM pg_stat_activity WHERE usename = %s", (account,))
    return Statement(f"SELECT id FROM {MYSQL_PROCESS_LIST} WHERE user = %s", (account,))


def _created(account: str, sessions: int) -> list[str]:
    if settings.TEST_DATABASE == "postgres":
        return [
            f"CREATE ROLE {account} LOGIN PASSWORD '{PASSWORD}' CONNECTION LIMIT {sessions}",
            f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {account}",
        ]
    return [
        f"CREATE USER {account}@'%%' IDENTIFIED BY '{PASSWORD}' WITH MAX_USER_CONNECTIONS {sessions}",
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON `{credentials_of('default').name}`.* TO {account}@'%%'",
    ]


def _dropped(account: str) -> list[str]:
    if settings.TEST_DATABASE == "postgres":
        return [f"DROP OWNED BY {account}", f"DROP ROLE {account}"]
    return [f"DROP USER {account}@'%%'"]
