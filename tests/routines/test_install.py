"""Installing, taking away, printing; what is refused, and that nothing is left half made.

What it is in a process of its own, and by accounts that may do less, is in ``test_install_as_a_process.py``.
"""

from __future__ import annotations

import os
import re
import subprocess
import threading

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command
from django.db import connection, transaction
from django.test import override_settings

from django_dbqueue.models import Message
from django_dbqueue.routines import installation
from django_dbqueue.routines.rendering import NAMES
from django_dbqueue.sessions.django_session import DjangoSession
from tests.routines.accounts import IS_MYSQL, run
from tests.routines.client import Client
from tests.routines.installing import command, everything, installed
from tests.servers.private import find_program

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("nothing_there")]
FUNCTION = "() RETURNS INT DETERMINISTIC NO SQL RETURN 7" if IS_MYSQL else "() RETURNS int LANGUAGE sql AS 'SELECT 7'"


def mark(name: str) -> None:
    """Make a function as an older version of ours would have left it."""
    if IS_MYSQL:
        run(f"CREATE FUNCTION {name}() RETURNS INT DETERMINISTIC NO SQL COMMENT 'django_dbqueue 0123' RETURN 7")
    else:
        run(
            f"CREATE FUNCTION {name}(int) RETURNS int LANGUAGE sql AS 'SELECT 7'",
            f"COMMENT ON FUNCTION {name}(int) IS 'django_dbqueue 0123'",
        )


def test_install_shows_what_it_made_and_a_second_one_makes_nothing_again() -> None:
    output = command("install")
    assert {line.split()[2].partition("(")[0].removeprefix("public.") for line in output[:-1]} == everything()
    assert output[-1] == f"{len(everything())} created, 0 unchanged"
    assert installed() == everything() <= set(NAMES)
    assert {routine.name for routine in installation.install(DjangoSession("default"))[0]} == set()


def test_uninstall_takes_ours_away_and_nothing_else_and_is_safe_to_run_twice() -> None:
    run("DROP FUNCTION IF EXISTS somebodys_own", f"CREATE FUNCTION somebodys_own{FUNCTION}")
    command("install")
    output = command("uninstall")
    assert output[-1] == f"{len(everything())} dropped"
    assert installed() == set()
    assert command("uninstall") == ["0 dropped"]
    run("DROP FUNCTION somebodys_own")


def test_a_change_of_the_settings_remakes_what_it_touches_and_no_more() -> None:
    command("install")
    with override_settings(DBQUEUE={"MAX_PAYLOAD_BYTES": 5}):
        assert {routine.name for routine in installation.install(DjangoSession("default"))[0]} == {
            "put_message_in_queue",
            "put_message_in_group",
        }
    with override_settings(DBQUEUE={"MAX_PAYLOAD_BYTES": 5, "QUEUES": {"q": {"on_ack": "delete"}}}):
        made = {routine.name for routine in installation.install(DjangoSession("default"))[0]}
    ends = {"dbqueue_delete"} if IS_MYSQL else {"delete_message_from_queue"}
    assert made == {"ack_message", "dbqueue_lane_moved"} | ends


def test_what_an_older_version_left_is_dropped() -> None:
    names = ["dbqueue_of_old", "claim_messages"]  # one that is called otherwise now, one of another kind or signature
    for name in names:
        mark(name)
    output = command("install")
    assert sorted(line.split()[2].partition("(")[0] for line in output if line.startswith("dropped")) == sorted(
        name if IS_MYSQL else f"public.{name}" for name in names
    )
    assert installed() == everything()
    mark("dbqueue_of_old")
    assert any("dbqueue_of_old" in line for line in command("uninstall"))
    assert installed() == set()


def test_a_foreign_function_of_the_same_name_is_refused_and_left_alone() -> None:
    run(f"CREATE FUNCTION ack_message{FUNCTION}")
    try:
        with pytest.raises(CommandError, match=r"did not create these.*FUNCTION.*ack_message"):
            command("install")
        assert installed() == {"ack_message"}
        assert command("uninstall") == ["0 dropped"]
        with connection.cursor() as cursor:
            cursor.execute("SELECT ack_message()")
            assert cursor.fetchone() == (7,)
    finally:
        run("DROP FUNCTION ack_message")


@pytest.mark.parametrize(
    ("kind", "rest"),
    [("TABLE", "(id INT)"), ("VIEW", "AS SELECT 1 AS id"), ("VIEW", "AS SELECT id FROM django_dbqueue_message")],
)
def test_a_foreign_table_or_view_of_the_views_name_is_refused_and_left_alone(kind: str, rest: str) -> None:
    run(f"CREATE {kind} main_queue {rest}")
    try:
        with pytest.raises(CommandError, match=rf"did not create these.*{kind} (public\.)?main_queue"):
            command("install")
        assert command("uninstall") == ["0 dropped"]
        assert installed() == {"main_queue"}
    finally:
        run(f"DROP {kind} main_queue")


def test_an_unknown_database_is_refused_with_a_guess() -> None:
    with pytest.raises(CommandError, match=r"no database 'defualt' in DATABASES\. Did you mean 'default'"):
        call_command("queue_routines", "install", database="defualt")


if IS_MYSQL:

    def test_inside_a_transaction_it_is_refused_because_it_would_commit_it() -> None:
        with transaction.atomic(), pytest.raises(CommandError, match=r"call this outside atomic\(\)"):
            command("install")

    def test_the_sessions_mode_stays_as_it_was_and_the_routines_are_strict() -> None:
        with connection.cursor() as cursor:
            cursor.execute("SET SESSION sql_mode = 'ANSI_QUOTES'")
            command("install")
            cursor.execute("SELECT @@sql_mode")
            assert cursor.fetchone() == ("ANSI_QUOTES",)
            cursor.execute(
                "SELECT DISTINCT SQL_MODE FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA = DATABASE() "
                "AND ROUTINE_COMMENT LIKE 'django_dbqueue%'"
            )
            assert cursor.fetchall() == (("STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION",),)
        connection.close()

    def test_no_routine_begins_or_ends_a_transaction_or_uses_a_variable_of_the_session() -> None:
        lines = "\n".join(command("print")).upper().splitlines()
        text = "\n".join(line for line in lines if not line.strip().startswith("--"))
        for word in ("START TRANSACTION", "COMMIT", "ROLLBACK", "SAVEPOINT", "PREPARE", "LOCK TABLES"):
            assert word not in text.replace("@@AUTOCOMMIT", ""), word
        assert set(re.findall(r"@@?\w+", text)) <= {"@@AUTOCOMMIT", "@@IN_TRANSACTION"}

else:

    def test_what_print_prints_installs_through_psql_and_install_finds_nothing_to_add() -> None:
        psql = find_program("psql")
        assert psql, "On Debian: apt-get install postgresql-client"
        server = connection.settings_dict
        done = subprocess.run(
            [psql, "--quiet", "--no-psqlrc", "-v", "ON_ERROR_STOP=1", str(server["NAME"])],
            input="\n".join(command("print")), capture_output=True, text=True, check=False,
            env=os.environ | {
                "PGHOST": str(server["HOST"]), "PGPORT": str(server["PORT"]), "PGUSER": str(server["USER"]),
                "PGPASSWORD": str(server["PASSWORD"]),
            },
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert command("install") == [f"0 created, {len(everything())} unchanged"]

    def test_an_installation_is_undone_with_its_transaction() -> None:
        with transaction.atomic():
            command("install")
            transaction.set_rollback(True)
        assert installed() == set()


def test_who_calls_while_routines_are_replaced_is_served_or_learns_that_they_are_not_there() -> None:
    command("install")
    client, stop, refused, put = Client(connection.settings_dict), threading.Event(), set(), []

    def keep_putting() -> None:
        while not stop.is_set():
            try:
                put.append(client.put("busy", "x"))
            except client.Error as error:
                refused.add(client.code(error))

    thread = threading.Thread(target=keep_putting)
    thread.start()
    try:
        for limit in range(1_000, 1_020):
            with override_settings(DBQUEUE={"MAX_PAYLOAD_BYTES": limit}):
                assert "put_message_in_queue" in {
                    routine.name for routine in installation.install(DjangoSession("default"))[0]
                }
    finally:
        stop.set()
        thread.join()
        client.close()
    assert refused <= ({1305} if settings.TEST_DATABASE == "mysql" else set())
    assert sorted(Message.objects.values_list("pk", flat=True)) == put != []
