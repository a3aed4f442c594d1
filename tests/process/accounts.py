"""Accounts of their own on the test server, which may do with the queue's tables what a worker must, and no more."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

from django.db import connection


@contextmanager
def plain_account(
    verbs: str = "SELECT, INSERT, UPDATE, DELETE", *, table: str | None = None
) -> Iterator[dict[str, str]]:
    """The environment in which a process works as an account that may do this in the test database, or in a table."""
    name, password = f"dbqueue_{secrets.token_hex(4)}", secrets.token_hex(8)
    database = connection.settings_dict["NAME"]
    if connection.vendor == "mysql":
        begin = [
            f"CREATE USER '{name}'@'%%' IDENTIFIED BY '{password}'",
            f"GRANT {verbs} ON `{database}`.{table or '*'} TO '{name}'@'%%'",
        ]
        end = [f"DROP USER '{name}'@'%%'"]
    else:
        begin = [
            f"CREATE ROLE {name} LOGIN PASSWORD '{password}'",
            f"GRANT {verbs} ON {table or 'ALL TABLES IN SCHEMA public'} TO {name}",
            f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO {name}",
        ]
        end = [f"DROP OWNED BY {name}", f"DROP ROLE {name}"]
    _run(begin)
    try:
        address = urlsplit(os.environ["DBQUEUE_TEST_URL"])
        place = address.netloc.rpartition("@")[2]
        yield {"DBQUEUE_TEST_URL": address._replace(netloc=f"{name}:{password}@{place}").geturl()}
    finally:
        _run(end)


def _run(statements: list[str]) -> None:
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement, ())
