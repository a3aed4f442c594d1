"""Article 002's own session, in its own database, through the command-line client; the page that tells it is run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.conf import settings
from django.db import connection

from tests.conftest import ROOT
from tests.patience import patience
from tests.servers.private import find_program

PAGE = ROOT / "docs" / "systems" / "002-sqs-in-sql.md"
SCHEMA = "main_schema"
OURS = "made_by_the_tests_of_django_dbqueue"
"""A table that says whose main_schema it is: one that isn't ours is not touched."""
MOMENT = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6}")
PATIENCE = patience(300)

if settings.TEST_DATABASE in ("mysql", "mariadb"):

    @contextmanager
    def article_database(other: Any) -> Iterator[None]:
        """main_schema, ours alone: others who test on this server at the same time wait."""
        with other.cursor() as cursor:
            cursor.execute("SELECT GET_LOCK('django_dbqueue.tests.main_schema', %s)", (PATIENCE,))
            assert cursor.fetchone() == (1,), "somebody has kept main_schema for minutes"
            _drop_if_ours(cursor)
            cursor.execute(f"CREATE DATABASE {SCHEMA} CHARACTER SET utf8mb4")
            try:
                cursor.execute(f"CREATE TABLE {SCHEMA}.{OURS} (id INT)")
                yield
            finally:
                cursor.execute(f"DROP DATABASE {SCHEMA}")
                cursor.execute("SELECT RELEASE_LOCK('django_dbqueue.tests.main_schema')")

    def _drop_if_ours(cursor: Any) -> None:
        cursor.execute("SELECT SCHEMA_NAME FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = %s", (SCHEMA,))
        if not cursor.fetchall():
            return
        cursor.execute(f"SHOW TABLES FROM {SCHEMA}")
        names = [name for (name,) in cursor.fetchall()]
        if names and OURS not in names:
            pytest.fail(f"The test server has a database {SCHEMA} that these tests did not make: name another server.")
        cursor.execute(f"DROP DATABASE {SCHEMA}")

    @pytest.fixture
    def schema(other_connection: Any, worker_env: dict[str, str]) -> Iterator[dict[str, str]]:
        """The environment of programs that work on it."""
        with article_database(other_connection):
            yield worker_env | {"DBQUEUE_TEST_NAME": SCHEMA}

    def mysql_client(*arguments: str, script: str, database: str = "") -> str:
        """Run the client on a script; return what it printed."""
        program = find_program("mysql", "mariadb")
        if program is None:
            pytest.fail("There is no mysql client. On Debian: apt-get install mariadb-client-core")
        server = connection.settings_dict
        done = subprocess.run(
            [
                program, "--no-defaults", "--protocol=TCP", f"--host={server['HOST']}", f"--port={server['PORT']}",
                f"--user={server['USER']}", "--default-character-set=utf8mb4", *arguments, *filter(None, [database]),
            ],
            input=script, capture_output=True, text=True, check=False,
            env=os.environ | {"MYSQL_PWD": str(server["PASSWORD"])},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    def session_of_the_page() -> list[tuple[str, str]]:
        """The statements of the page's session, each with what it prints."""
        [session] = re.findall(r"^```text\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
        return [
            (statement, comparable(printed))
            for statement, printed in re.findall(
                r"^mysql> (.+?);\n(.*?)(?=^mysql> |\Z)", session, re.MULTILINE | re.DOTALL
            )
        ]

    def comparable(printed: str) -> str:
        """What two runs have in common: all but moments, durations, and the server's way of counting."""
        text = MOMENT.sub("(moment)", printed)
        text = re.sub(r" \(\d+\.\d+ sec\)", "", text)
        return re.sub(r"Query OK, \d+ rows? affected", "Query OK", text).strip()

    def printed_for(statements: list[str]) -> list[str]:
        """What the client prints for each statement, in one session."""
        output = mysql_client("--table", "-vvv", script="".join(f"{statement};\n" for statement in statements))
        parts = re.split(r"^-{14}\n(.*?)\n-{14}\n", output, flags=re.MULTILINE | re.DOTALL)[1:]
        assert parts[::2] == [statement for statement in statements if not statement.startswith("USE ")]
        return [part.removesuffix("Bye\n") for part in parts[1::2]]

    def cells(table: str) -> dict[str, str]:
        head, row = (
            [cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if line.startswith("|")
        )
        return dict(zip(head, row, strict=True))

    def django(environment: dict[str, str], *arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "django", *arguments], env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def follow_the_page(environment: dict[str, str]) -> None:
        """Run the page's console commands."""
        commands = re.findall(r"^\$ python manage.py (.+)$", PAGE.read_text(), re.MULTILINE)
        assert commands == ["migrate", "queue_routines install"]
        for command in commands:
            django(environment, *command.split())

    def test_the_articles_session_runs_in_the_mysql_client_as_it_is_written(schema: dict[str, str]) -> None:
        follow_the_page(schema)
        page = session_of_the_page()
        statements = [statement for statement, _ in page]
        assert statements == [
            "USE main_schema",
            "SELECT put_message_in_queue ('default', '{}', 2, 0) AS _message_id",
            "CALL main_schema.get_message_from_queue('default')",
            "CALL main_schema.get_message_from_queue('default')",
            "CALL main_schema.get_message_from_queue('default')",
            "CALL main_schema.delete_message_from_queue(1)",
            "SELECT * FROM main_schema.main_queue",
        ]
        printed = printed_for(statements)
        assert [comparable(part) for part in printed] == [expected for _, expected in page[1:]]
        _, first, second, third, _, at_last = printed
        assert third.startswith("\nEmpty set")
        one, two, end = cells(first), cells(second), cells(at_last)
        assert one["created_at"] < one["last_read"] == one["next_read"] < two["last_read"] == two["next_read"]
        assert end == two | {"deleted_at": end["deleted_at"]}
        assert end["deleted_at"] > end["last_read"]

    def test_what_print_prints_installs_through_the_client_and_install_finds_nothing_to_add(
        schema: dict[str, str],
    ) -> None:
        django(schema, "migrate", "-v0")
        mysql_client(script=django(schema, "queue_routines", "print"), database=SCHEMA)
        assert django(schema, "queue_routines", "install").startswith("0 created, ")
        output = mysql_client(
            "--batch", script="SELECT put_message_in_queue('q', 'ü€😀', 1, 0); CALL get_message_from_queue('q');",
            database=SCHEMA,
        )  # fmt: skip
        assert "\tü€😀\t1\t1\t" in output
