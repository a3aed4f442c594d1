from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from django.conf import settings
from django.core.checks import CheckMessage
from django.db.backends.base.base import BaseDatabaseWrapper

from django_dbqueue.checks.database import check_alias
from django_dbqueue.checks.wrong_servers import messages
from django_dbqueue.databases.facts import Examined, Judgement
from django_dbqueue.envelope import INSERT_SIZE
from tests.servers.private import free_port
from tests.whole_server import WholeServer

_OF = {
    "test_on_mysql.py": {"mariadb", "mysql"},
    "test_on_postgresql.py": {"postgres"},
    "test_on_sqlite.py": {"sqlite"},
    "test_text_columns.py": {"mariadb", "mysql"},
}
# What one server alone can be asked is no test of the others: left out there, not skipped.
collect_ignore = [name for name, databases in _OF.items() if settings.TEST_DATABASE not in databases]


def judged(
    judge: Callable[[Examined], Iterator[Judgement]],
    answers: dict[str, str],
    session: object = None,
    tables: Sequence[str] = (),
) -> list[CheckMessage]:
    """What the system checks say of a server that answers so."""
    return list(messages("default", judge(Examined(session, answers, tables, 1024 * 1024, INSERT_SIZE))))


@pytest.fixture
def nowhere(database: str, tmp_path: Path) -> dict[str, str]:
    """What to change in the settings of a database, so that nobody answers."""
    if database == "sqlite":
        return {"NAME": str(tmp_path / "no such directory" / "db.sqlite3")}
    return {"PORT": str(free_port())}


@pytest.fixture(autouse=True)
def unspoiled(whole_server: WholeServer) -> None:
    """What is looked at here nobody else changes meanwhile."""


def ids() -> list[str]:
    messages = check_alias("default")
    assert all(message.hint for message in messages)
    return [message.id.removeprefix("dbqueue.") for message in messages]


def run(session: BaseDatabaseWrapper, sql: str) -> None:
    with session.cursor() as cursor:
        cursor.execute(sql)
