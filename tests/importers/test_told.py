"""What ``queue_import`` says, asks and refuses."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import pytest
from django.db import connection, transaction
from django.db.models import QuerySet

from django_dbqueue.exceptions import TransactionNotAllowed
from django_dbqueue.importers import source_named, take_over
from django_dbqueue.models import Message
from django_dbqueue.sessions.django_session import session_of
from tests.commands.running import run, run_alone
from tests.importers.layouts import DBTaskResult
from tests.importers.others import NOTHING, DjangoTasksDB

pytestmark = pytest.mark.django_db(transaction=True)
OTHER = DjangoTasksDB()
NAME = OTHER.name


@pytest.mark.usefixtures("its_table")
def test_a_run_shows_what_it_did_and_why_rows_stay() -> None:
    OTHER.enqueue(range(2), queue_name="jobs")
    OTHER.enqueue([1], task_path="shop.gone.task")
    OTHER.enqueue([1], status="RUNNING")
    ended = run("queue_import", NAME, "--yes")
    counts, moved, queue = ended.out.splitlines()
    assert "3 waiting, 1 running, 0 ended" in counts
    assert (moved[:7], queue) == ("2 rows ", "  2 in queue jobs")
    assert ended.err.startswith("1 row stays where it is: The task shop.gone.task can't be imported")


@pytest.mark.usefixtures("its_table")
def test_a_dry_run_shows_examples_without_their_arguments() -> None:
    OTHER.enqueue([0], args_kwargs={"args": ["secret"], "kwargs": {}})
    key = DBTaskResult.objects.get().pk
    ended = run("queue_import", NAME, "--dry-run")
    assert ended.code == 0
    assert f"  {key} becomes task tests.tasks_app.jobs.nothing in queue default\n" in ended.out
    assert "1 would be taken over; nothing was changed." in ended.out
    assert "secret" not in ended.out


@pytest.mark.usefixtures("its_table")
def test_without_a_yes_nothing_happens() -> None:
    OTHER.enqueue([0])
    ended = run("queue_import", NAME)
    assert (ended.code, Message.objects.count(), len(OTHER.waiting())) == (2, 0, 1)


def test_a_table_that_is_not_there_is_named() -> None:
    ended = run("queue_import", NAME, "--dry-run")
    assert ended.code == 1
    assert "has no table django_tasks_database_dbtaskresult, so there is nothing of django-tasks-db" in ended.err


@pytest.mark.usefixtures("its_table")
def test_columns_that_an_old_version_lacks_are_named() -> None:
    with connection.schema_editor() as editor:
        editor.alter_field(DBTaskResult, *_renamed("enqueued_at", "older_name"))
    try:
        ended = run("queue_import", NAME, "--yes")
    finally:
        with connection.schema_editor() as editor:
            editor.alter_field(DBTaskResult, *reversed(_renamed("enqueued_at", "older_name")))
    assert ended.code == 1
    assert "it has no column enqueued_at. Migrate it to the newest version" in ended.err


def _renamed(name: str, other: str) -> tuple[object, object]:
    old = DBTaskResult._meta.get_field(name)
    new = old.clone()  # type: ignore[attr-defined]
    new.set_attributes_from_name(other)
    new.model = DBTaskResult
    return old, new


@pytest.mark.usefixtures("its_table")
def test_a_table_without_transactions_is_refused() -> None:
    if connection.vendor != "mysql":
        assert OTHER.enqueue([0]) is None
        assert run("queue_import", NAME, "--yes").code == 0, "the other servers have no such tables"
        return
    OTHER.enqueue([0])
    with connection.cursor() as cursor:
        cursor.execute("DROP INDEX tasks_db_new_ordering_idx ON django_tasks_database_dbtaskresult")  # it knows no DESC
        cursor.execute("ALTER TABLE django_tasks_database_dbtaskresult ENGINE=MyISAM")
    ended = run("queue_import", NAME, "--yes")
    assert (ended.code, Message.objects.count()) == (1, 0)
    assert "uses MyISAM, which has no transactions" in ended.err


@pytest.mark.usefixtures("its_table")
def test_inside_a_transaction_of_the_caller_it_is_refused() -> None:
    OTHER.enqueue([0])
    with transaction.atomic(), pytest.raises(TransactionNotAllowed):
        next(take_over.take_over(session_of("default"), source_named(NAME)))
    assert len(OTHER.waiting()) == 1


COLUMNS = "status, enqueued_at, args_kwargs, priority, task_path, queue_name, backend_name, run_after"


@pytest.fixture
def with_another(worker_env: dict[str, str], tmp_path: Path) -> dict[str, str]:
    """The environment of a project that has a second database, in which a task waits."""
    file = tmp_path / "other.sqlite3"
    with sqlite3.connect(file) as other:
        other.execute(f"CREATE TABLE {DBTaskResult._meta.db_table} (id char(32) PRIMARY KEY, {COLUMNS})")
        row = (
            "0" * 32,
            "READY",
            "2026-01-01",
            '{"args": [], "kwargs": {}}',
            0,
            NOTHING,
            "default",
            "default",
            "9999-01-01",
        )
        other.execute(f"INSERT INTO {DBTaskResult._meta.db_table} VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
    other.close()
    (tmp_path / "two_databases.py").write_text(
        "from tests.settings import *\n"
        f"DATABASES['elsewhere'] = {{'ENGINE': 'django.db.backends.sqlite3', 'NAME': {str(file)!r}}}\n"
    )
    path = os.pathsep.join([str(tmp_path), worker_env["PYTHONPATH"]])
    return worker_env | {"DJANGO_SETTINGS_MODULE": "two_databases", "PYTHONPATH": path}


def test_a_table_in_another_database_is_refused_and_named(with_another: dict[str, str]) -> None:
    ended = run_alone(with_another, "queue_import", NAME, "--yes")
    assert ended.code == 1, ended
    assert "is in database 'elsewhere', but the queue lives in 'default'" in ended.err


def test_a_database_without_the_queue_keeps_its_rows(with_another: dict[str, str]) -> None:
    ended = run_alone(with_another, "queue_import", NAME, "--yes", "--database", "elsewhere")
    assert ended.code == 1, ended
    assert "The queue's tables in database 'elsewhere' can't be read" in ended.err
    again = run_alone(with_another, "queue_import", NAME, "--dry-run", "--database", "elsewhere", "--json")
    assert again.document["waiting"] == 1


@pytest.mark.usefixtures("its_table")
def test_a_row_that_can_not_be_deleted_is_not_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    OTHER.enqueue([0])
    monkeypatch.setattr(QuerySet, "delete", lambda _: (0, {}))  # as a trigger or a rule of the server would do
    ended = run("queue_import", NAME, "--yes")
    assert (ended.code, Message.objects.count(), len(OTHER.waiting())) == (1, 0, 1)
    assert "0 could be deleted, so nothing of this step was taken over" in ended.err
