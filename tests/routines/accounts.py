"""Accounts of their own for a test, with a password and no right that wasn't named."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection

IS_MYSQL = connection.vendor == "mysql"


def run(*statements: str) -> None:
    """Run statements by the tests' own, mighty account."""
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


@contextmanager
def account(*rights: str) -> Iterator[tuple[str, str]]:
    """(user, password) of a new account; ``rights`` are what stands between GRANT and TO."""
    name, password = f"dbq_{secrets.token_hex(6)}", secrets.token_hex(12)
    if IS_MYSQL:
        # by TCP from this very machine the server may or may not know a name for the address
        who = [f"{name}@'{host}'" for host in ("localhost", "127.0.0.1")]
        run(*(f"CREATE USER {one} IDENTIFIED BY '{password}'" for one in who))
    else:
        who = [name]
        run(f"CREATE ROLE {name} LOGIN PASSWORD '{password}'")
    try:
        run(*(f"GRANT {right} TO {one}" for right in rights for one in who))
        yield name, password
    finally:
        if IS_MYSQL:
            run(*(f"DROP USER {one}" for one in who))
        else:
            run(f"DROP OWNED BY {name}", f"DROP ROLE {name}")


def database() -> str:
    """The test database, quoted for GRANT."""
    return connection.ops.quote_name(str(connection.settings_dict["NAME"]))
