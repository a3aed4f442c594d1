"""What the doctor says where its connection is lost or a table is locked meanwhile, and that it waits for neither."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.db.backends.base.base import BaseDatabaseWrapper

from tests.doctor.conftest import examined, levels, run, wrong
from tests.factories import waiting


@pytest.mark.django_db(transaction=True)
def test_a_connection_that_is_lost_during_the_examination_is_reported_and_ends_it(
    session: BaseDatabaseWrapper, other_connection: BaseDatabaseWrapper
) -> None:
    waiting()
    kill = {"mysql": "KILL %s", "postgresql": "SELECT pg_terminate_backend(%s, 5000)"}[connection.vendor]
    killed = []

    def kill_before_explain(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if sql.startswith("EXPLAIN") and "available_at" in sql and not killed:
            with connection.wrap_database_errors:
                raw = connection.connection
                number = raw.thread_id() if connection.vendor == "mysql" else raw.info.backend_pid
            with other_connection.cursor() as cursor:
                cursor.execute(kill % number)
            killed.append(number)
        return execute(sql, params, many, context)

    with connection.execute_wrapper(kill_before_explain):
        found = examined()
    assert killed
    assert levels(found, "connection") == ["ok", "problem"]
    assert "was lost during the check" in found["connection"][1].found
    assert "claim-plan" not in found
    assert "rights" in found, "what was found before is told"


@pytest.mark.django_db(transaction=True)
def test_a_table_that_somebody_has_locked_keeps_no_check_waiting_for_long(
    session: BaseDatabaseWrapper, other_connection: BaseDatabaseWrapper, monkeypatch: pytest.MonkeyPatch
) -> None:
    from django_dbqueue.doctor import examined_database

    monkeypatch.setattr(examined_database, "WAITS", 1)
    run(
        other_connection,
        *{
            "mysql": ["LOCK TABLES django_dbqueue_message WRITE"],
            "postgresql": ["BEGIN", "LOCK TABLE django_dbqueue_message IN ACCESS EXCLUSIVE MODE"],
        }[connection.vendor],
    )
    try:
        found = examined()
    finally:
        other_connection.close()
    assert levels(found, "skip-locked") == ["warning"]
    assert "This check gave up waiting for a lock" in found["skip-locked"][0].found
    assert "ALTER TABLE" in found["skip-locked"][0].do
    assert levels(found, "durability") == ["ok"]
    assert wrong(examined()) == []


@pytest.mark.django_db(transaction=True)
def test_the_session_waits_for_locks_as_long_as_before(session: BaseDatabaseWrapper) -> None:
    ask = {
        "mysql": "SELECT @@lock_wait_timeout, @@innodb_lock_wait_timeout",
        "postgresql": "SELECT current_setting('lock_timeout')",
    }[connection.vendor]
    with session.cursor() as cursor:
        cursor.execute(ask)
        before = cursor.fetchone()
        examined()
        cursor.execute(ask)
        assert cursor.fetchone() == before
