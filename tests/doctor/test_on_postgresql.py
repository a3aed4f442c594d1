"""What the doctor finds on PostgreSQL, in sessions and tables that are ill for real."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.db import connection
from django.db.backends.base.base import BaseDatabaseWrapper

from django_dbqueue.doctor import versions
from django_dbqueue.models import Message
from tests.doctor.conftest import examined, examined_between, levels, run, wrong
from tests.factories import waiting
from tests.plans import crowd
from tests.process.pooler import relay

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize(
    ("spoiled", "check", "level", "words"),
    [
        ("SET synchronous_commit = off", "durability", "warning", "synchronous_commit off"),
        ("SET default_transaction_read_only = on", "writable", "problem", "(default_transaction_read_only)"),
        ("SET default_transaction_isolation = 'repeatable read'", "isolation", "warning", "are REPEATABLE READ"),
        ("SET idle_session_timeout = '59s'", "idle-timeout", "warning", "idle for 59 s (idle_session_timeout)"),
        ("SET statement_timeout = '20s'", "read-timeout", "warning", "cancels statements after 20000 ms"),
    ],
)
def test_a_session_that_is_not_as_it_should_be(
    session: BaseDatabaseWrapper, spoiled: str, check: str, level: str, words: str
) -> None:
    run(session, spoiled)
    found = examined()
    assert check in wrong(found)
    finding = found[check][-1]
    assert finding.level == level
    assert words in finding.found


def test_a_client_that_notices_no_vanished_server_is_a_note(session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert levels(examined(), "read-timeout") == ["note"]
    monkeypatch.setitem(session.settings_dict["OPTIONS"], "tcp_user_timeout", 60_000)
    found = examined()
    assert levels(found, "read-timeout") == ["ok"]
    assert "60000 ms" in found["read-timeout"][0].found


def test_a_planner_that_is_kept_from_the_index_is_a_problem(session: BaseDatabaseWrapper) -> None:
    crowd.fill(done=20_000, delayed=0, stuck=0, dead=0, backlog=0, queues=0)
    crowd.gather_statistics()
    assert wrong(examined()) == ["unserved-queues"]
    valid = "UPDATE pg_index SET indisvalid = {} WHERE indexrelid = 'dbqueue_claim'::regclass"
    found = examined_between(session, valid.format(False), valid.format(True))  # as a REINDEX that failed leaves it
    assert levels(found, "claim-plan") == ["problem"]
    assert "reads by no index" in found["claim-plan"][0].found


# -- tables -------------------------------------------------------------------------------------------------


def test_a_table_that_a_crash_empties_is_a_problem(session: BaseDatabaseWrapper) -> None:
    mend = "ALTER TABLE django_dbqueue_schedule SET LOGGED"
    found = examined_between(session, "ALTER TABLE django_dbqueue_schedule SET UNLOGGED", mend)
    assert wrong(found) == ["storage"]
    assert found["storage"][0].do == mend


def test_a_table_that_is_not_swept_is_a_warning(session: BaseDatabaseWrapper) -> None:
    table = "ALTER TABLE django_dbqueue_message"
    found = examined_between(
        session, f"{table} SET (autovacuum_enabled = false)", f"{table} RESET (autovacuum_enabled)"
    )
    assert levels(found, "storage") == ["warning", "ok"]
    assert "Autovacuum is switched off for the table django_dbqueue_message" in found["storage"][0].found


def test_an_index_that_was_left_half_built_is_a_problem(session: BaseDatabaseWrapper) -> None:
    """As a CREATE INDEX CONCURRENTLY leaves it that was cut off."""
    valid = "UPDATE pg_index SET indisvalid = {} WHERE indexrelid = 'dbqueue_claim'::regclass"
    found = examined_between(session, valid.format(False), valid.format(True))
    assert wrong(found) == ["indexes"]
    assert found["indexes"][0].do == "REINDEX INDEX CONCURRENTLY dbqueue_claim"


# -- old versions, and who keeps them -----------------------------------------------------------------------


def test_a_transaction_that_is_open_for_long_is_a_warning(
    session: BaseDatabaseWrapper, other_connection: BaseDatabaseWrapper, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(other_connection, "BEGIN", "SELECT COUNT(*) FROM django_dbqueue_message")
    with other_connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        [number] = cursor.fetchone()
    assert levels(examined(), "oldest-transaction") == ["ok"], "it has not been open for five minutes"
    monkeypatch.setattr(versions, "LONG_TRANSACTION", 0.0)
    found = examined()
    assert levels(found, "oldest-transaction") == ["warning"]
    assert re.search(rf"session {number} for \d+ s", found["oldest-transaction"][0].found)
    assert f"pg_terminate_backend({number})" in found["oldest-transaction"][0].do


def test_dead_rows_that_pile_up_are_a_warning(session: BaseDatabaseWrapper, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "LONG_HISTORY", 30)
    run(session, "ALTER TABLE django_dbqueue_message SET (autovacuum_enabled = false)")
    try:
        message = waiting()
        for number in range(40):
            Message.objects.filter(pk=message.pk).update(priority=number)
        run(session, "SELECT pg_stat_force_next_flush()" if connection.pg_version >= 150000 else "SELECT 1")
        run(session, "SELECT 1")
        found = examined()
    finally:
        run(session, "ALTER TABLE django_dbqueue_message RESET (autovacuum_enabled)")
    assert levels(found, "history") == ["warning"]
    assert "dead rows of the message table wait for vacuum" in found["history"][0].found


# -- who stands in between ----------------------------------------------------------------------------------


def test_a_pooler_is_a_warning(session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    there = session.settings_dict
    session.close()
    with relay(f"postgres://{there['USER']}@{there['HOST']}:{there['PORT']}/x") as url:
        monkeypatch.setitem(there, "HOST", "127.0.0.1")
        monkeypatch.setitem(there, "PORT", str(urlsplit(url).port))
        monkeypatch.setitem(there["OPTIONS"], "sslmode", "disable")
        monkeypatch.setitem(there["OPTIONS"], "gssencmode", "disable")
        found = examined()
        session.close()
    assert wrong(found) == ["pooler"]
    assert "opened as session " in found["pooler"][0].found
    assert "DBQUEUE['NOTIFY'] = False" in found["pooler"][0].do
