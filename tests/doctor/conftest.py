from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.db.backends.base.base import BaseDatabaseWrapper

from django_dbqueue.consumers import registry as consumer_registry
from django_dbqueue.doctor.examination import examine
from django_dbqueue.doctor.finding import Finding
from django_dbqueue.models import Worker
from django_dbqueue.models.fields import DbNow
from tests.factories import QUEUE
from tests.whole_server import WholeServer

_OF = {
    "test_on_mysql.py": {"mariadb", "mysql"},
    "test_on_postgresql.py": {"postgres"},
    "test_on_sqlite.py": {"sqlite"},
    "test_accounts.py": {"mariadb", "mysql", "postgres"},
    "test_archive.py": {"mariadb", "mysql", "postgres"},
    "test_connections.py": {"mariadb", "mysql", "postgres"},
    "test_interrupted.py": {"mariadb", "mysql", "postgres"},
    "test_servers_ill.py": {"mariadb", "postgres"},
    "test_stored_routines.py": {"mariadb", "mysql", "postgres"},
}
# What one server alone can be asked is no test of the others: left out there, not skipped.
collect_ignore = [name for name, databases in _OF.items() if settings.TEST_DATABASE not in databases]

Examined = dict[str, list[Finding]]
AGO = DbNow() - timedelta(minutes=10)


def examined(alias: str | None = "default") -> Examined:
    """What the doctor finds, by check."""
    found: Examined = defaultdict(list)
    for finding in examine(alias):
        assert finding.found
        assert finding.do or finding.level in {"ok", "note"}, finding
        found[finding.check].append(finding)
    return dict(found)


def levels(found: Examined, check: str) -> list[str]:
    return [finding.level for finding in found[check]]


def wrong(found: Examined) -> list[str]:
    """The checks that found what matters."""
    return [check for check, findings in found.items() if any(each.is_at_least("warning") for each in findings)]


def run(session: Any, *statements: str) -> None:
    with session.cursor() as cursor:
        for sql in statements:
            cursor.execute(sql)
            if cursor.description:
                cursor.fetchall()


@pytest.fixture(autouse=True)
def register(registry: dict[str, Any]) -> Callable[..., None]:
    """Registers consumers of this test; those of the other tests, some with leases that warn, are out of it."""

    def register(queue: str, **options: Any) -> None:
        consumer_registry.consumer(queue, **options)(lambda _message: None)

    register("tests")
    return register


def worker(number: int = 1, *, queues: str = QUEUE, **fields: Any) -> Worker:
    """One that beats in time, unless it is said otherwise."""
    fields = {"late_at": DbNow() + timedelta(seconds=10), "held": 2} | fields
    return Worker.objects.create(id=number, host="there", pid=7, queues=queues, threads=1, **fields)


@pytest.fixture(autouse=True)
def unspoiled(whole_server: WholeServer) -> None:
    """What is looked at here nobody else changes meanwhile."""


def examined_between(session: BaseDatabaseWrapper, spoil: str, mend: str) -> dict[str, list[Finding]]:
    """What is found while something is spoiled that outlasts the session."""
    run(session, spoil)
    try:
        return examined()
    finally:
        run(session, mend)
