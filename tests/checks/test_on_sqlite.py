from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from django.db.backends.base.base import BaseDatabaseWrapper

from django_dbqueue.checks.database import check_alias, check_connection
from django_dbqueue.databases import Statement, sqlite_facts
from tests.checks.conftest import ids, run
from tests.commands.running import run_alone


@pytest.mark.parametrize(("level", "danger"), [("OFF", "damage the file"), ("NORMAL", "undo the last commits")])
def test_commits_that_a_power_failure_takes_back_are_warned_of(
    session: BaseDatabaseWrapper, level: str, danger: str
) -> None:
    run(session, f"PRAGMA synchronous={level}")
    messages = check_alias("default")
    assert [message.id for message in messages] == ["dbqueue.W010"]
    assert danger in messages[0].msg
    run(session, "PRAGMA synchronous=EXTRA")
    assert ids() == []


@pytest.mark.parametrize("mode", [None, "DEFERRED", "deferred"])
def test_transactions_that_do_not_lock_at_once_are_warned_of(
    session: BaseDatabaseWrapper, monkeypatch: Any, mode: str | None
) -> None:
    monkeypatch.setitem(session.settings_dict["OPTIONS"], "transaction_mode", mode)
    assert ids() == ["W014"]
    monkeypatch.setitem(session.settings_dict["OPTIONS"], "transaction_mode", "exclusive")
    assert ids() == []


def test_a_file_without_a_write_ahead_log_is_warned_of(session: BaseDatabaseWrapper) -> None:
    run(session, "PRAGMA journal_mode=DELETE")
    try:
        assert ids() == ["W015"]
    finally:
        run(session, "PRAGMA journal_mode=WAL")


def test_a_database_in_memory_has_no_file_to_ask_about(session: BaseDatabaseWrapper) -> None:
    other = session.copy()
    other.settings_dict["NAME"] = ":memory:"
    try:
        assert check_connection(other) == []
    finally:
        other.connection.close()  # Django's close() spares a database in memory


def test_a_library_without_returning_forbids_a_worker(session: BaseDatabaseWrapper, monkeypatch: Any) -> None:
    with monkeypatch.context() as changed:
        changed.setattr(session.features, "can_return_columns_from_insert", False)
        assert ids() == ["E012"]


def test_a_library_without_json_forbids_a_worker(session: BaseDatabaseWrapper, monkeypatch: Any) -> None:
    missing = Statement("SELECT value, value FROM json_each_not_there('[1]')", ())
    with monkeypatch.context() as changed:
        changed.setattr(sqlite_facts, "json_read", lambda: missing)
        assert ids() == ["E012"]


def test_a_file_that_cannot_be_opened_is_not_mistaken_for_a_library_without_json(session: BaseDatabaseWrapper) -> None:
    other = session.copy()
    other.settings_dict["NAME"] = "/nowhere/db.sqlite3"
    [message] = check_connection(other)
    assert message.id == "dbqueue.E010"
    assert "unable to open" in message.msg
    assert message.hint is not None
    assert "There is no directory /nowhere for the file /nowhere/db.sqlite3" in message.hint


def test_a_file_that_is_a_directory_is_named_with_what_the_account_needs(
    session: BaseDatabaseWrapper, tmp_path: Path
) -> None:
    other = session.copy()
    other.settings_dict["NAME"] = f"file:{tmp_path}?mode=rw"
    [message] = check_connection(other)
    assert message.hint is not None
    assert f"read and write {tmp_path} and its directory {tmp_path.parent}" in message.hint


def test_a_file_that_this_session_may_not_write_forbids_a_worker(session: BaseDatabaseWrapper) -> None:
    run(session, "PRAGMA query_only = 1")
    assert ids() == ["E018"]


def test_the_first_migrate_reports_nothing(worker_env: dict[str, str], tmp_path: Path) -> None:
    ended = run_alone(worker_env | {"DBQUEUE_TEST_NAME": str(tmp_path / "new.sqlite3")}, "migrate", "django_dbqueue")
    assert (ended.code, "dbqueue." in ended.err) == (0, False), ended.err


def test_a_database_with_some_of_the_squashed_migrations_is_not_migrated_into_a_traceback(
    worker_env: dict[str, str], tmp_path: Path
) -> None:
    env = worker_env | {"DBQUEUE_TEST_NAME": str(tmp_path / "old.sqlite3")}
    with sqlite3.connect(env["DBQUEUE_TEST_NAME"]) as old:
        old.execute("CREATE TABLE django_migrations (id INTEGER PRIMARY KEY, app, name, applied)")
        for name in ("0001_initial", "0002_results"):
            old.execute("INSERT INTO django_migrations (app, name) VALUES ('django_dbqueue', ?)", (name,))
    ended = run_alone(env, "migrate")
    assert ended.code == 1
    assert "(dbqueue.E019) The database 'default' lacks migrations of django_dbqueue" in ended.err
    assert "manage.py migrate django_dbqueue 0016_event_exception --database default" in ended.err
    assert "Traceback" not in ended.err
