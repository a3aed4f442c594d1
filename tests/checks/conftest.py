from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest
from django.conf import settings
from django.db import connection

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from django.db.backends.base.base import BaseDatabaseWrapper

_OF = {
    "test_on_mysql.py": {"mariadb", "mysql"},
    "test_on_postgresql.py": {"postgres"},
    "test_on_sqlite.py": {"sqlite"},
}
# What one server alone can be asked is no test of the others: left out there, not skipped.
collect_ignore = [name for name, databases in _OF.items() if settings.TEST_DATABASE not in databases]


@pytest.fixture
def session(transactional_db: None) -> Iterator[BaseDatabaseWrapper]:
    """Django's connection, in a session that a test may spoil."""
    connection.close()
    connection.ensure_connection()
    yield connection
    connection.close()


@pytest.fixture
def nowhere(database: str, tmp_path: Path) -> dict[str, str]:
    """What to change in the settings of a database, so that nobody answers."""
    if database == "sqlite":
        return {"NAME": str(tmp_path / "no such directory" / "db.sqlite3")}
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return {"PORT": str(probe.getsockname()[1])}
