"""Installing as a process of its own: several at once, without our tables, by accounts that may do less, elsewhere."""

from __future__ import annotations

import os
import subprocess
import sys
from urllib.parse import urlsplit, urlunsplit

import pytest
from django.db import connection
from django.test import override_settings

from django_dbqueue.routines.existing_routines import installed as all_installed
from tests.routines.accounts import IS_MYSQL, account, database, run
from tests.routines.client import Client
from tests.routines.installing import command, everything, installed

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("nothing_there")]


def manage(
    environment: dict[str, str], *arguments: str, who: tuple[str, str] | None = None, **more: str
) -> subprocess.Popen[str]:
    if who is not None:
        url = urlsplit(os.environ["DBQUEUE_TEST_URL"])
        place = f"{who[0]}:{who[1]}@{url.hostname}:{url.port}"
        more["DBQUEUE_TEST_URL"] = urlunsplit(url._replace(netloc=place))
    return subprocess.Popen(
        [sys.executable, "-m", "django", *arguments],
        env=environment | more, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def failed(process: subprocess.Popen[str]) -> str:
    output, errors = process.communicate()
    assert process.returncode == 1, output + errors
    assert "Traceback" not in errors
    return errors


def test_two_installations_at_once_both_succeed(worker_env: dict[str, str]) -> None:
    processes = [manage(worker_env, "queue_routines", "install") for _ in range(3)]
    for process in processes:
        _, errors = process.communicate()
        assert process.returncode == 0, errors
    assert installed() == everything()


def test_a_database_without_our_tables_is_refused_with_the_command_that_is_missing(worker_env: dict[str, str]) -> None:
    name = urlsplit(os.environ["DBQUEUE_TEST_URL"]).path.strip("/")
    errors = failed(manage(worker_env, "queue_routines", "install", DBQUEUE_TEST_NAME=name))
    assert "manage.py migrate --database default" in errors


if IS_MYSQL:

    def test_an_ordinary_account_under_a_binary_log_learns_what_to_do_and_nothing_is_left(
        worker_env: dict[str, str],
    ) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT @@log_bin, @@log_bin_trust_function_creators")
            assert cursor.fetchone() == (1, 0), "this test needs a server with a binary log that trusts nobody"
        with account(f"ALL ON {database()}.*") as who:
            errors = failed(manage(worker_env, "queue_routines", "install", who=who))
            assert "SET GLOBAL log_bin_trust_function_creators = 1" in errors
            assert "queue_routines print" in errors
            assert installed() == set()

    def test_where_an_administrator_installed_them_an_ordinary_account_finds_nothing_to_make(
        worker_env: dict[str, str],
    ) -> None:
        command("install")
        with account(f"ALL ON {database()}.*") as who:
            output, errors = manage(worker_env, "queue_routines", "install", who=who).communicate()
        assert (output, errors) == (f"0 created, {len(everything())} unchanged\n", "")

    def test_an_upgrade_that_is_refused_leaves_the_older_routines_as_they_were(worker_env: dict[str, str]) -> None:
        with override_settings(DBQUEUE={"MAX_PAYLOAD_BYTES": 5}):
            command("install")
        before = {(one.name, one.comment) for one in all_installed("default")}
        with account(f"ALL ON {database()}.*") as who:
            failed(manage(worker_env, "queue_routines", "install", who=who))
        assert {(one.name, one.comment) for one in all_installed("default")} == before

    def test_an_installation_that_fails_at_its_end_takes_away_what_it_made(worker_env: dict[str, str]) -> None:
        rights = "CREATE ROUTINE, ALTER ROUTINE, EXECUTE, SELECT, INSERT, UPDATE, DELETE"
        with account(f"{rights} ON {database()}.*", "SUPER ON *.*") as who:
            errors = failed(manage(worker_env, "queue_routines", "install", who=who))
            assert "CREATE VIEW" in errors
            assert installed() == set()

    def test_an_account_that_may_make_no_routine_learns_what_it_lacks(worker_env: dict[str, str]) -> None:
        with account(f"SELECT ON {database()}.*") as who:
            errors = failed(manage(worker_env, "queue_routines", "install", who=who))
            assert "The account needs CREATE ROUTINE" in errors

else:

    def test_a_role_that_may_make_nothing_learns_what_it_lacks_and_nothing_is_left(worker_env: dict[str, str]) -> None:
        run("REVOKE CREATE ON SCHEMA public FROM PUBLIC")  # as PostgreSQL 15 has it by itself
        with account("SELECT ON ALL TABLES IN SCHEMA public") as who:
            errors = failed(manage(worker_env, "queue_routines", "install", who=who))
            assert "The account needs CREATE on the table's schema" in errors
            assert installed() == set()

    def test_in_a_schema_with_a_name_of_its_own_they_are_where_the_table_is(worker_env: dict[str, str]) -> None:
        quoted = '"My ""own"" schema"'
        run(f"CREATE SCHEMA {quoted}")
        try:
            there = {"PGOPTIONS": '-c search_path="My\\ ""own""\\ schema"'}
            for arguments in (("migrate", "-v0"), ("queue_routines", "install"), ("queue_routines", "install")):
                process = manage(worker_env, *arguments, **there)
                output, errors = process.communicate()
                assert process.returncode == 0, errors
            assert output.splitlines()[-1] == f"0 created, {len(everything())} unchanged"
            client = Client(connection.settings_dict)
            message_id = client.value(f"{quoted}.put_message_in_queue", "q", "x", 0, 60)
            assert [row["id"] for row in client.call(f"{quoted}.get_message_from_queue", "q")] == [message_id]
            client.close()
            assert installed() == set()
        finally:
            run(f"DROP SCHEMA {quoted} CASCADE")
