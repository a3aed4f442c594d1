"""What is read from the text of a statement: what it may leave open, and what of its session it changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from django.db import Error, connections
from django.db.backends.utils import CursorWrapper

from django_dbqueue.databases.leftovers import begins_nothing
from django_dbqueue.worker.traces import Trace, is_as_made, note_calls, trace_of, watch


@pytest.mark.parametrize(
    "text",
    [
        "BEGIN",
        "SELECT 1;-- x\nBEGIN",
        "SELECT 1;--\nBEGIN",
        "SELECT 1 ; # x\n begin",
        "SELECT 1;/* x */ START TRANSACTION",
        "SELECT 1;/*!50000 BEGIN*/",
        "SELECT 1;/*M!100100 BEGIN*/",
        "SELECT 'it''s'; SELECT \"a\\\";\"; SET autocommit = 0",
        "SELECT 1; SELECT 2;\n-- ;\n/* ; */ LOCK TABLES t WRITE",
        "SELECT 1; IF 1 THEN START TRANSACTION; END IF",
        "-- x\nBEGIN",
    ],
)
def test_a_statement_that_may_begin_something_is_found_wherever_it_hides(text: str) -> None:
    assert not begins_nothing(text.encode())


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1",
        "SELECT 1;",
        "select 1; -- begin\n",
        'INSERT INTO t VALUES (\'a; BEGIN\', "b; -- \\"; SET x", `c; d`)',
        "UPDATE t SET a = 'it''s; begin'; DELETE FROM t",
        "SELECT 1 /* ; BEGIN */; SELECT 2 # ; BEGIN",
    ],
)
def test_semicolons_in_values_names_and_comments_begin_nothing(text: str) -> None:
    assert begins_nothing(text.encode())


CHANGES = {
    "mysql": [
        "SET SESSION TRANSACTION READ ONLY",
        "set names latin1",
        "USE other",
        "/* x */ USE other",
        "SELECT 1; -- x\nUSE other",
        "SELECT @a := 1",
        "SELECT 1 INTO @a",
        "CREATE TEMPORARY TABLE t (n int)",
        "CALL anything()",
        "PREPARE s FROM 'SELECT 1'",
        "/*!50000 SET sql_mode = '' */",
        "CREATE /* x */ TEMPORARY TABLE t (n int)",
        "SELECT 1 INTO /* x */ @a",
        "UPDATE t SET a = (@a := 1)",
        "TABLE t INTO @a",
        "LOCK INSTANCE FOR BACKUP",
        "LOCK -- x\n INSTANCE FOR BACKUP",
        'SELECT `a`, "b; \\" c" INTO @a FROM `t`',
    ],
    "postgresql": [
        "SET search_path = other",
        "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY",
        "SET ROLE other",
        "SELECT set_config('a.b', %s, false)",
        "SELECT set_config('a.b', %s, %s)",
        "CREATE TEMP TABLE t AS SELECT 1",
        "SELECT 1 INTO TEMP t",
        "LISTEN them",
        "DO $$ BEGIN SET a.b = 1; END $$",
        "DECLARE c CURSOR WITH HOLD FOR SELECT 1",
        "SELECT set_config('a.b', 'x, true)', false)",
        "SELECT set_config('a.b', %s, false), f(1, true)",
        "SELECT set_config /* , true) */ ('a.b', %s, false)",
        "SELECT \"set_config\"('a.b', %s, false)",
        "SELECT E'\\'', set_config('a.b', %s, false), E'\\''",
        "SELECT $$'$$, set_config('a.b', %s, false), $x$'$x$",
        "INSERT INTO t SELECT set_config('a.b', %s, false)",
        "SELECT 1 INTO/* x */TEMP t",
        "CREATE -- x\n TEMP TABLE t (n int)",
        "SELECT set_config('a.b', COALESCE(%s, ''), false)",
        "SELECT set_config('a.b', f(%s, true), is_local => false)",
        'SELECT "a"INTO TEMP t FROM "b"',
        'SELECT "a" AS "n", set_config(\'a.b\', %s, false), \'x\' AS "m"',
    ],
    "sqlite": ["PRAGMA query_only = 1", "PRAGMA foreign_keys(0)", "ATTACH 'x' AS y", "CREATE TEMP TABLE t (n)"],
}
LOCKS = {
    "mysql": [
        "SELECT GET_LOCK('x', 1)",
        "DO GET_LOCK('x', 1)",
        "(select get_lock('x', 1))",
        "SELECT get_lock /* x */ ('x', 1)",
        "INSERT INTO t SELECT GET_LOCK('x', 1)",
        "SELECT GET_LOCK-- x\n('x', 1)",
    ],
    "postgresql": [
        "SELECT pg_advisory_lock(1)",
        "SELECT pg_try_advisory_lock_shared(1)",
        "UPDATE t SET a = pg_try_advisory_lock(1)",
        'SELECT 1 AS "n", pg_advisory_lock(1), \'x\' AS "m"',
        'SELECT "pg_advisory_lock"(1)',
    ],
}
NOTHING = {
    "mysql": [
        "SELECT 1",
        "(SELECT 1) UNION (SELECT 2)",
        "INSERT INTO t VALUES (%s)",
        "SET TRANSACTION ISOLATION LEVEL READ COMMITTED",
        "SET STATEMENT max_statement_time = 1 FOR SELECT 1",
        "BEGIN; UPDATE t SET a = 1",
        "SELECT RELEASE_LOCK('x')",
        "CREATE TABLE t (n int)",
        "SELECT 'SET x'; SELECT \"USE y; SET z\"",
        "SAVEPOINT a",
        "SELECT 'GET_LOCK(1)', '@a := 1' -- INTO @a",
        "UNLOCK INSTANCE",
        "INSERT INTO t (instance) VALUES (%s)",
        'INSERT INTO t VALUES ("SELECT x INTO @y")',
        "INSERT INTO `into @a` VALUES (%s)",
        "UPDATE `t` SET `a` = 'it\\'s; USE x' WHERE `b` = \"c\\\"; SET d\"",
        "SELECT /*+ MAX_EXECUTION_TIME(1000) */ `t`.`id` FROM `t` FOR UPDATE SKIP LOCKED",
    ],
    "postgresql": [
        "SET LOCAL lock_timeout = 1; SELECT 1; SET LOCAL lock_timeout TO DEFAULT",
        "SET CONSTRAINTS ALL IMMEDIATE",
        "SELECT set_config('a.b', %s, true)",
        "SELECT pg_advisory_xact_lock(1)",
        "SELECT pg_advisory_unlock(1)",
        "SELECT make_interval(days := 1)",
        "DECLARE c CURSOR FOR SELECT 1",
        "NOTIFY them",
        "SELECT 'set_config(' /* pg_advisory_lock(1) */",
        "INSERT INTO temperatures VALUES (%s)",
        "INSERT INTO temp VALUES (%s)",
        "SELECT set_config('a.b', 'x', true), f(1)",
        'SELECT "t"."set_config" FROM "t"',
        """UPDATE "t" SET "data" = '{"kind": "x; y"}'::jsonb WHERE "id" = %s""",
        """NOTIFY "ch", '{"id": 1; }'""",
        'INSERT INTO "t" ("a") VALUES (%s) ON CONFLICT ("a") DO NOTHING RETURNING "t"."id"',
        "SELECT $x$ a; SET b = 1 $x$, E'it\\'s; SET c = 1'",
        "SELECT set_config('app.tenant', COALESCE(%s, ''), true)",
        "SELECT set_config('app.tenant', CAST(%s AS text), true)",
        "SELECT set_config('app.tenant', COALESCE(NULLIF(current_setting('x', true), ''), %s), true)",
        "SELECT set_config('app.tenant', current_setting('x')::text, is_local => true)",
        "INSERT\n  INTO temp VALUES (%s)",
        "MERGE INTO temp USING t ON true WHEN MATCHED THEN DELETE",
    ],
    "sqlite": [
        "PRAGMA table_info(t)",
        "PRAGMA journal_mode",
        "BEGIN IMMEDIATE",
        "SELECT 1",
        """INSERT INTO "t" ("a") VALUES ('{"b": "c; d"}')""",
        'SELECT "t"."id" FROM "t" WHERE "t"."a" LIKE %s ESCAPE \'\\\'',
    ],
}


READ_ONLY = {
    "mysql": [
        "SET TRANSACTION READ ONLY",
        "START TRANSACTION READ ONLY",
        "start transaction with consistent snapshot, read only",
    ],
    "postgresql": [
        "BEGIN READ ONLY",
        "BEGIN ISOLATION LEVEL SERIALIZABLE,\n READ  ONLY",
        "SET LOCAL transaction_read_only = on",
    ],
}


@pytest.mark.parametrize(
    ("trace", "vendor", "text"),
    [
        (trace, vendor, text)
        for trace, texts in (
            (Trace.CHANGE, CHANGES),
            (Trace.LOCKS, LOCKS),
            (Trace.READ_ONLY, READ_ONLY),
            (Trace.NOTHING, NOTHING),
        )
        for vendor in texts
        for text in texts[vendor]
    ],
)
def test_what_a_statement_leaves_is_read_from_its_text(trace: Trace, vendor: str, text: str) -> None:
    assert trace_of(vendor, text) == trace


def call_procedure(connection: Any) -> None:
    with connection.cursor() as cursor, suppress(Error, AttributeError):  # there is none, and SQLite has no CALL
        cursor.callproc("no_such_procedure", [1])


THROUGH_THE_DRIVER: dict[str, list[Callable[[Any], object]]] = {
    "mysql": [
        lambda connection: connection.connection.select_db("information_schema"),
        lambda connection: connection.connection.set_character_set("latin1"),
    ],
    "postgresql": [
        lambda connection: setattr(connection.connection, "read_only", True),
        lambda connection: setattr(connection.connection, "isolation_level", 4),
        lambda connection: setattr(connection.connection, "row_factory", print),
    ],
    "sqlite": [
        lambda connection: setattr(connection.connection, "row_factory", print),
        lambda connection: setattr(connection.connection, "text_factory", bytes),
    ],
}


@pytest.fixture
def watched(db: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A connection of a worker's thread."""
    monkeypatch.setattr(CursorWrapper, "callproc", CursorWrapper.callproc)
    note_calls()
    connection = connections.create_connection("default")
    watch(connection)
    yield connection
    connection.close()


def test_what_a_driver_is_made_to_change_is_noticed_until_the_next_session(watched: Any) -> None:
    for change in (call_procedure, *THROUGH_THE_DRIVER[watched.vendor]):
        watched.connect()
        assert is_as_made(watched)
        with watched.cursor() as cursor:
            cursor.execute("SELECT 1")
        assert is_as_made(watched)
        change(watched)
        assert not is_as_made(watched), change
        watched.close()
