"""The history gets partitions without losing a row or an id, whenever that is killed, and gives them up again."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Any

import pytest
from django.conf import settings
from django.core.management import call_command
from django.db import connection

from django_dbqueue.databases import partitioning_sql as sql
from django_dbqueue.databases.mysql import MYSQL
from django_dbqueue.databases.partitioning_sql import CHECK, NEW_TABLE, OLD_TABLE, TABLE, first_table
from django_dbqueue.history import partitioned
from django_dbqueue.history.partitioning import archivers_held
from django_dbqueue.lifecycle.archive import DoneWalk
from django_dbqueue.models import ArchivedMessage, Message, Mutex
from django_dbqueue.sessions.django_session import session_of
from django_dbqueue.worker.maintenance import Maintenance
from tests import factories
from tests.commands.running import run
from tests.history.partitioned_history import EVERY, SESSION, archive_at, names, one_table, partition
from tests.process.conftest import wait_until
from tests.spark.archives import archive, ids, rows

__all__ = ["one_table"]
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("one_table")]


class Killed(BaseException):
    """The process is gone: nothing that it would do afterwards happens."""


def undo() -> None:
    assert run("queue_archive", "partition", "--undo", "--yes").code == 0


def test_every_row_stays_and_ids_go_on() -> None:
    archive(5)
    ArchivedMessage.objects.filter(pk=ids()[-1]).delete()
    before = rows()

    partition()

    assert names() == ["until_2000", "until_3000", "until_4000", "rest"]
    assert rows() == before
    factories.done()
    assert Message.objects.all().purge() == 1
    assert ids()[-1] == before[-1][0] + 2, "an id that a deleted row had is not given again"

    undo()
    assert names() == []
    assert rows()[:-1] == before
    factories.done()
    assert Message.objects.all().purge() == 1
    assert ids()[-1] == before[-1][0] + 3


def test_what_migrations_and_the_doctor_ask_of_the_table_is_the_same() -> None:
    def described() -> Any:
        with connection.cursor() as cursor:
            columns = [
                (each.name, each.type_code, each.null_ok)
                for each in connection.introspection.get_table_description(cursor, TABLE)
            ]
            return columns, {
                name: (each["columns"], each["primary_key"], each["unique"])
                for name, each in connection.introspection.get_constraints(cursor, TABLE).items()
                if not each["check"]
            }

    before, tables = described(), connection.introspection.table_names()
    partition()
    assert described() == before
    assert connection.introspection.table_names() == tables
    call_command("makemigrations", "--check", "--dry-run", verbosity=0)
    index = ArchivedMessage._meta.indexes[0]
    with connection.schema_editor() as editor:
        editor.remove_index(ArchivedMessage, index)
    with connection.schema_editor() as editor:
        editor.add_index(ArchivedMessage, index)
    assert described() == before
    undo()
    assert described() == before


def test_it_is_not_undone_by_a_copy() -> None:
    partition()
    archive_at(1, 2_500)
    before = rows()
    refused = run("queue_archive", "partition", "--undo", "--yes")
    assert (refused.code, rows()) == (1, before)
    assert "More than the first partition has rows" in refused.err
    assert names() == ["until_2000", "until_3000", "until_4000", "rest"]


def test_an_id_beyond_the_newest_row_counts() -> None:
    archive_at(1, 2_500)
    ArchivedMessage.objects.all().delete()
    partition()
    assert names()[0] == "until_4000"
    assert archive(1)[0] > 2_500


if settings.TEST_DATABASE == "mariadb":  # others have no such mode

    def test_it_counts_on_where_the_next_id_is_hidden() -> None:
        kept = archive(5)
        ArchivedMessage.objects.all().delete()
        with connection.cursor() as cursor:
            cursor.execute("SET sql_mode = CONCAT(@@sql_mode, ',NO_TABLE_OPTIONS')")
        try:
            partition()
        finally:
            connection.close()
        assert archive(1)[0] > kept[-1]


def test_a_history_that_is_not_there_is_not_called_one_table() -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE {TABLE} RENAME TO elsewhere")
        try:
            ended = [run("queue_archive", *arguments) for arguments in (("status",), ("partition", "--undo", "--yes"))]
        finally:
            cursor.execute(f"ALTER TABLE elsewhere RENAME TO {TABLE}")
    assert [(each.code, each.out) for each in ended] == [(1, "")] * 2
    assert all("is missing: run migrate" in each.err for each in ended)


def test_nothing_is_lost_or_doubled_while_messages_are_archived() -> None:
    done, sent, trouble = threading.Event(), [], []

    def archive_on() -> None:
        try:
            while not done.is_set():
                sent.extend(factories.done().pk for _ in range(5))
                Message.objects.all().purge()
        except Exception as error:
            trouble.append(error)
        finally:
            connection.close()

    archiver = threading.Thread(target=archive_on)
    archiver.start()
    partition()
    undo()
    partition()
    done.set()
    archiver.join()
    assert trouble == []
    assert sorted(ArchivedMessage.objects.values_list("message_id", flat=True)) == sorted(sent)


def test_archivers_are_held_though_none_has_ever_archived() -> None:
    factories.done()
    Mutex.objects.all().delete()
    with archivers_held(SESSION):
        assert DoneWalk(SESSION, factories.QUEUE).archive(age=0.0, wait=False) == 0
    assert DoneWalk(SESSION, factories.QUEUE).archive(age=0.0, wait=False) == 1


@pytest.mark.skipif(connection.vendor != "postgresql", reason="On the others, rights belong to a table's name")
def test_rights_come_along() -> None:
    rights = [
        f"has_table_privilege('dbqueue_narrow', '{TABLE}', 'INSERT WITH GRANT OPTION')",
        f"has_column_privilege('dbqueue_narrow', '{TABLE}', 'body', 'UPDATE')",
        "has_sequence_privilege('dbqueue_narrow', pg_get_serial_sequence('" + TABLE + "', 'id'), 'USAGE')",
        f"NOT has_table_privilege('dbqueue_narrow', '{TABLE}', 'DELETE')",
    ]
    of_first = f"NOT has_table_privilege('dbqueue_narrow', '{first_table(2_000)}', 'INSERT')"
    with connection.cursor() as cursor:
        cursor.execute("CREATE ROLE dbqueue_narrow")
        try:
            cursor.execute(f"GRANT INSERT, SELECT ON {TABLE} TO dbqueue_narrow WITH GRANT OPTION")
            cursor.execute(f"GRANT UPDATE (body) ON {TABLE} TO dbqueue_narrow")
            partition()
            cursor.execute(f"SELECT {' AND '.join([*rights, of_first])}")
            assert cursor.fetchone() == (True,)
            cursor.execute(f"REVOKE SELECT ON {TABLE} FROM dbqueue_narrow")
            cursor.execute(f"GRANT SELECT ON {first_table(2_000)} TO dbqueue_narrow")  # of a part is not of the whole
            undo()
            cursor.execute(f"SELECT has_table_privilege('dbqueue_narrow', '{TABLE}', 'SELECT')")
            assert cursor.fetchone() == (False,)
            cursor.execute(f"SELECT {' AND '.join([*rights[:2], rights[3]])}")
            assert cursor.fetchone() == (True,)
        finally:
            cursor.execute("DROP OWNED BY dbqueue_narrow")
            cursor.execute("DROP ROLE dbqueue_narrow")


@pytest.mark.skipif(settings.TEST_DATABASE != "mysql", reason="MariaDB exchanges such tables, PostgreSQL attaches them")
def test_a_column_that_was_added_instantly_is_refused_and_nothing_changed() -> None:
    archive(2)
    before = rows()
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE {TABLE} ADD COLUMN at_once INT NULL, ALGORITHM=INSTANT")
        try:
            refused = run("queue_archive", "partition", "--yes")
            assert (refused.code, rows(), names()) == (1, before, [])
            [advice] = [part for part in refused.err.strip().split(": ") if part.startswith("ALTER TABLE")]
            cursor.execute(advice)
            partition()
            assert rows() == before
            undo()
        finally:
            cursor.execute(f"ALTER TABLE {TABLE} DROP COLUMN at_once, ALGORITHM=INPLACE")


@pytest.mark.skipif(connection.vendor == "postgresql", reason="There it is one transaction")
def test_a_worker_that_has_something_to_archive_gives_the_table_its_name_back(settings: Any) -> None:
    settings.DBQUEUE = {"DEFAULTS": {"retention": 0}}
    [kept] = archive(1)
    message = factories.done()
    with connection.cursor() as cursor:
        cursor.execute(f"RENAME TABLE {TABLE} TO {OLD_TABLE}")
    Maintenance(session_of("default"), (message.queue,))._tidy()
    assert ids() == [kept, kept + 1]
    assert not Message.objects.exists()


def killed_before(number: int, *arguments: str) -> bool:
    """Run the command in a session that dies before its nth statement of DDL; False if it has fewer."""
    left, deaths = [number], []

    def die(execute: Any, statement: str, params: Any, many: Any, context: Any) -> Any:
        if statement.split(None, 1)[0] in {"ALTER", "RENAME", "CREATE", "DROP"} and not deaths:
            left[0] -= 1
            if left[0] < 0:
                deaths.append(statement)
        if deaths:
            raise Killed(deaths[0])
        return execute(statement, params, many, context)

    with connection.execute_wrapper(die), suppress(Killed):
        run("queue_archive", "partition", "--every", str(EVERY), "--yes", *arguments)
    connection.close()
    wait_until(is_free, "the server to notice the death")
    return bool(deaths)


def is_free() -> bool:
    if connection.vendor == "postgresql":
        return bool(SESSION.fetch(sql.postgresql_hold())[0][0] and SESSION.fetch(sql.postgresql_let_go()))
    lock = MYSQL.partitions
    return bool(SESSION.fetch(lock.take_lock())[0][0] and SESSION.fetch(lock.free_lock()))


def is_whole() -> bool:
    """Whether nothing is left of a killed run that could matter: an empty table doesn't."""
    there = set(connection.introspection.table_names())
    with connection.cursor() as cursor:
        return TABLE in there and CHECK not in connection.introspection.get_constraints(cursor, TABLE)


@pytest.mark.parametrize(
    "then",
    ["again", pytest.param("undo", marks=pytest.mark.nightly), pytest.param("worker", marks=pytest.mark.nightly)],
)
@pytest.mark.parametrize("way", ["there", pytest.param("back", marks=pytest.mark.nightly)])
def test_killed_before_any_statement_nothing_is_lost(way: str, then: str) -> None:
    archive(3)
    number = 0
    while True:
        if way == "back":
            partition()
        before = rows()
        if not killed_before(number, *(["--undo"] if way == "back" else [])):
            break
        number += 1
        if then == "worker":
            partitioned.keep(SESSION)
        else:
            assert run("queue_archive", "partition", "--yes", *(["--undo"] if then == "undo" else [])).code in {0, 3}
        assert is_whole()
        assert rows() == before
        assert archive(1)[0] > before[-1][0]
        undo()
        assert not {NEW_TABLE, OLD_TABLE} & set(connection.introspection.table_names())
    assert number >= 4
