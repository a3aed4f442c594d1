"""What every server is checked for, each in its own way."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.core.management import call_command, get_commands, load_command_class
from django.core.management.base import CommandError, SystemCheckError
from django.db import connection, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.test import override_settings

import django_dbqueue.checks as own
from django_dbqueue.checks import blocking_errors
from django_dbqueue.checks.database import check_connection, check_databases


def ids(messages: list[Any]) -> list[str]:
    assert all(message.hint for message in messages)
    return [message.id.removeprefix("dbqueue.") for message in messages]


def test_the_database_of_the_tests_keeps_every_promise(session: BaseDatabaseWrapper) -> None:
    assert check_databases(["default"]) == []
    assert blocking_errors("default") == []
    call_command("check", databases=["default"], stdout=StringIO())


def test_other_databases_are_not_queried(session: BaseDatabaseWrapper) -> None:
    with override_settings(DBQUEUE={"DATABASE": 5}, DATABASE_ROUTERS=[To("elsewhere")]):
        session.close()
        assert check_databases(None) == check_databases([]) == check_databases(["default"]) == []
        assert session.connection is None


@pytest.mark.parametrize(("alias", "router"), [("default", "elsewhere"), (None, "default"), ("nowhere", "default")])
def test_the_setting_names_the_database_to_check_and_else_a_router_does(
    session: BaseDatabaseWrapper, monkeypatch: Any, alias: str | None, router: str
) -> None:
    with (
        monkeypatch.context() as changed,
        override_settings(DBQUEUE={"DATABASE": alias}, DATABASE_ROUTERS=[To(router)]),
    ):
        changed.setattr(connections["default"], "vendor", "oracle")
        assert ids(check_databases(["default", "elsewhere"])) == ["E011"]


class To:
    def __init__(self, alias: str) -> None:
        self.alias = alias

    def db_for_write(self, *_: Any, **__: Any) -> str:
        return self.alias


def test_a_database_that_the_queue_can_not_live_in_is_an_error() -> None:
    messages = check_connection(SimpleNamespace(alias="old", vendor="oracle"))
    assert ids(messages) == ["E011"]
    assert "'oracle'" in messages[0].hint


def test_an_unknown_alias_is_an_error() -> None:
    assert ids(blocking_errors("defautl")) == ["E005"]


def test_a_database_that_does_not_answer_is_one_error_and_no_traceback(
    session: BaseDatabaseWrapper, nowhere: dict[str, str], monkeypatch: Any
) -> None:
    session.close()
    for name, value in nowhere.items():
        monkeypatch.setitem(session.settings_dict, name, value)
    messages = blocking_errors("default")
    monkeypatch.undo()
    session.close()
    assert ids(messages) == ["E010"]
    assert "\n" not in messages[0].msg


def test_connections_that_begin_with_autocommit_off_are_refused_by_all_who_commit_by_themselves(
    session: BaseDatabaseWrapper, monkeypatch: Any
) -> None:
    monkeypatch.setitem(session.settings_dict, "AUTOCOMMIT", False)
    assert ids(blocking_errors("default")) == ["E016"]
    for command in (
        ["run_queue_worker", "--drain"],
        ["queue_rescue"],
        ["queue_send", "emails", "1"],
        ["queue_pause", "emails", "--reason", "deploy"],
        ["queue_resume", "emails"],
        ["queue_edit", "1", "{}", "--yes"],
        ["queue_move", "1", "--to", "others", "--yes"],
        ["queue_purge", "emails", "--older-than", "0", "--yes"],
        ["queue_archive", "partition", "--yes"],
        ["queue_import", "django-q2"],
        ["queue_routines", "install"],
        ["queue_routines", "uninstall"],
        ["queue_cancel", "1", "--reason", "unwanted", "--yes"],
        ["queue_drop", "1", "--reason", "unwanted", "--yes"],
        ["queue_due_now", "1", "--yes"],
        ["queue_requeue", "1", "--yes"],
    ):
        with pytest.raises(CommandError, match="AUTOCOMMIT off"):
            call_command(*command)


def test_what_only_reads_is_not_refused_for_it(session: BaseDatabaseWrapper, monkeypatch: Any) -> None:
    monkeypatch.setitem(session.settings_dict, "AUTOCOMMIT", False)
    call_command("queue_status")
    only_reads = {name for name, app in get_commands().items() if app == "django_dbqueue" and _only_reads(name)}
    assert only_reads == {"queue_peek", "queue_status"}


def _only_reads(name: str) -> bool:
    return bool(getattr(load_command_class("django_dbqueue", name), "only_reads", False))


def test_a_database_without_tables_is_fine(session: BaseDatabaseWrapper, tmp_path: Path) -> None:
    with empty_database(tmp_path) as other:
        assert check_connection(other) == []


def test_garbage_in_the_settings_does_not_disturb_the_other_checks(session: BaseDatabaseWrapper) -> None:
    for dbqueue in (None, [], {"MAX_PAYLOAD_BYTES": None}, {"MAX_PAYLOAD_BYTES": "x"}, {"DATABASE": {}}):
        with override_settings(DBQUEUE=dbqueue):
            assert check_connection(connection) == []


def test_manage_py_check_fails_with_the_text(session: BaseDatabaseWrapper, monkeypatch: Any) -> None:
    with monkeypatch.context() as changed:
        changed.setattr(connections["default"], "vendor", "oracle")
        with pytest.raises(SystemCheckError, match=r"dbqueue\.E011"):
            call_command("check", databases=["default"], stderr=StringIO())


def test_every_id_stands_in_the_table_and_is_used() -> None:
    listed = set(re.findall(r"\| ([EW]0\d\d) \|", own.__doc__ or ""))
    sources = Path(own.__file__).parent.parent.rglob("*.py")
    used = {found for path in sources for found in re.findall(r'"dbqueue\.([EW]\w+)"', path.read_text())}
    assert listed == used


@contextmanager
def empty_database(tmp_path: Path) -> Iterator[BaseDatabaseWrapper]:
    name = f"{connection.settings_dict['NAME']}_empty"
    other = connection.copy()
    if connection.vendor == "sqlite":
        other.settings_dict["NAME"] = str(tmp_path / "empty.sqlite3")
    else:
        other.settings_dict["NAME"] = name
        with connection.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE {connection.ops.quote_name(name)}")
    try:
        yield other
    finally:
        other.close()
        if connection.vendor != "sqlite":
            with connection.cursor() as cursor:
                cursor.execute(f"DROP DATABASE {connection.ops.quote_name(name)}")
