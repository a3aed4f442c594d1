"""What the doctor finds on SQLite."""

from __future__ import annotations

import json
import os
import pwd
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from django_dbqueue.doctor import examined_database, versions
from django_dbqueue.doctor.examination import examine
from django_dbqueue.doctor.examined_database import ExaminedDatabase
from django_dbqueue.doctor.servers import writable
from tests.doctor.conftest import examined, levels, run, wrong
from tests.factories import waiting

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize(
    ("spoiled", "check", "words"),
    [
        ("PRAGMA synchronous = OFF", "durability", "PRAGMA synchronous is OFF"),
        ("PRAGMA journal_mode = DELETE", "journal-mode", "no write-ahead log"),
        ("PRAGMA query_only = 1", "writable", "refuses writes (PRAGMA query_only)"),
    ],
)
def test_a_session_that_is_not_as_it_should_be(
    session: BaseDatabaseWrapper, spoiled: str, check: str, words: str
) -> None:
    run(session, spoiled)
    found = examined()
    run(session, "PRAGMA journal_mode = WAL")
    assert wrong(found) == [check]
    assert words in found[check][0].found


def test_transactions_that_take_no_lock_as_they_begin_are_a_warning_and_a_short_wait_is_a_note(
    session: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(session.settings_dict["OPTIONS"], "transaction_mode", "DEFERRED")
    monkeypatch.setitem(session.settings_dict["OPTIONS"], "timeout", 5)
    found = examined()
    assert levels(found, "transaction-mode") == ["warning", "note"]
    assert "waits 5 seconds" in found["transaction-mode"][1].found


def test_a_database_in_memory_is_a_problem(worker_env: dict[str, str]) -> None:
    command = [sys.executable, "-m", "django", "queue_doctor", "--json"]
    env = worker_env | {"DBQUEUE_TEST_NAME": ":memory:"}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "")
    findings = [json.loads(line) for line in done.stdout.splitlines()]
    problems = [each["check"] for each in findings if each["level"] == "problem"]
    assert problems == ["durability", "migrations"]
    assert {"journal-mode", "writable", "history"}.isdisjoint(each["check"] for each in findings)


def test_a_write_ahead_log_that_a_reader_lets_grow_is_a_warning(
    session: BaseDatabaseWrapper, other_connection: BaseDatabaseWrapper, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(session, "PRAGMA wal_checkpoint(TRUNCATE)")
    monkeypatch.setattr(versions, "LARGE_LOG", 1_000_000)
    assert levels(examined(), "history") == ["ok"]
    run(other_connection, "BEGIN", "SELECT COUNT(*) FROM django_dbqueue_message")
    for _ in range(3):
        waiting(payload="x" * 500_000)
    found = examined()
    assert levels(found, "history") == ["warning"]
    assert "wal_checkpoint(TRUNCATE)" in found["history"][0].do


def test_a_writer_at_work_keeps_the_doctor_from_nothing(
    session: BaseDatabaseWrapper, other_connection: BaseDatabaseWrapper
) -> None:
    run(other_connection, "BEGIN IMMEDIATE", "UPDATE django_dbqueue_message SET priority = 1")
    assert wrong(examined()) == []
    run(other_connection, "ROLLBACK")


def test_a_file_that_somebody_has_locked_keeps_the_doctor_waiting_once_and_is_reported(
    session: BaseDatabaseWrapper, other_connection: BaseDatabaseWrapper
) -> None:
    del other_connection.settings_dict["OPTIONS"]["init_command"]  # which asks for the write-ahead log again
    run(session, "PRAGMA journal_mode = DELETE", "PRAGMA busy_timeout = 100")
    try:
        run(other_connection, "BEGIN EXCLUSIVE")
        found = examined()
        assert levels(found, "connection") == ["ok", "problem"]
        assert "database is locked" in found["connection"][1].found
    finally:
        other_connection.close()
        run(session, "PRAGMA journal_mode = WAL")


def test_a_lock_that_comes_in_the_middle_is_waited_for_briefly_by_each_check(
    session: BaseDatabaseWrapper, other_connection: BaseDatabaseWrapper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(examined_database, "WAITS", 0)
    del other_connection.settings_dict["OPTIONS"]["init_command"]
    run(session, "PRAGMA journal_mode = DELETE")
    findings = examine("default")
    try:
        first = next(finding for finding in findings if finding.check == "durability")
        assert first.level == "ok"
        run(other_connection, "BEGIN EXCLUSIVE")
        waited = [finding.check for finding in findings if "waiting for a lock" in finding.found]
        assert {"migrations", "claim-plan", "workers"} <= set(waited)
    finally:
        other_connection.close()
        with session.cursor() as cursor:
            cursor.execute("PRAGMA busy_timeout")
            assert cursor.fetchone() == (20_000,), "as it was"
        run(session, "PRAGMA journal_mode = WAL")


def test_a_file_that_this_account_may_not_write_is_a_problem(session: Any) -> None:
    database = ExaminedDatabase.at(connections["default"])
    path = Path(session.settings_dict["NAME"])
    mode = path.stat().st_mode
    path.chmod(0o444)
    is_root = os.geteuid() == 0
    if is_root:  # who may write everything
        os.seteuid(pwd.getpwnam("nobody").pw_uid)
    try:
        [finding] = writable.examine(database)
    finally:
        if is_root:
            os.seteuid(0)
        path.chmod(mode)
    assert finding.level == "problem"
    assert f"refuses writes ({path}" in finding.found
    assert "the file and its directory" in finding.do
