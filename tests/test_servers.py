"""The ground that the other tests stand on."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from django.contrib.auth.models import Group
from django.db import connection, transaction

from tests.servers.directory import own_directory
from tests.servers.suite import Result, Selection, without_empty

if TYPE_CHECKING:
    from django.db.backends.base.base import BaseDatabaseWrapper


def test_another_connection_sees_what_is_committed_and_nothing_else(
    other_connection: BaseDatabaseWrapper,
) -> None:
    def groups_seen() -> int:
        with other_connection.cursor() as cursor:
            cursor.execute("SELECT COUNT(*) FROM auth_group")
            return int(cursor.fetchone()[0])

    with transaction.atomic():
        Group.objects.create(name="seen after commit")
        if connection.vendor != "sqlite":
            assert groups_seen() == 0
    assert groups_seen() == 1


def test_a_child_process_works_on_the_test_database(worker_env: dict[str, str]) -> None:
    program = (
        "import django; django.setup(); from django.contrib.auth.models import Group; "
        "Group.objects.create(name='by the child')"
    )
    subprocess.run([sys.executable, "-c", program], env=worker_env, check=True, timeout=60)
    assert Group.objects.filter(name="by the child").exists()


def test_sqlite_runs_as_the_docs_say(transactional_db: None, database: str) -> None:
    if database != "sqlite":
        return
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA journal_mode")
        assert cursor.fetchone() == ("wal",)
    assert connection.transaction_mode == "IMMEDIATE"


def test_the_directory_of_a_server_is_gone_even_when_its_block_fails() -> None:
    seen = []

    def fail_inside() -> None:
        with own_directory("trial") as path:
            (path / "file").touch()
            seen.append(path)
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        fail_inside()
    assert not seen[0].exists()


def test_the_tests_on_spark_run_one_by_one_in_a_pass_of_their_own() -> None:
    others, on_spark = Selection().passes(first=True)
    assert others.arguments == ("-m", "not nightly and not spark")
    assert on_spark.arguments == ("-m", "not nightly and spark", "-n", "0")


def test_what_is_left_out_is_left_out_of_every_pass_beside_the_markers_that_the_caller_chose() -> None:
    (only,) = Selection("slow or spark", slow=False, spark=False, nightly=True).passes(first=True)
    assert only.arguments == ("-m", "(slow or spark) and not slow and not spark")


def test_what_no_database_makes_a_difference_to_is_asked_on_the_first_alone() -> None:
    (later,) = Selection("slow", spark=False).passes(first=False)
    assert later.arguments == ("-m", "(slow) and not once and not nightly and not spark")


def test_a_later_database_may_have_nothing_that_was_named_and_the_run_may_not() -> None:
    done, nothing = Result("sqlite", passed=1), Result("mariadb", problem="no test ran")
    broken = Result("mysql", problem="pytest ended with exit code 3")
    assert [each.bad for each in without_empty([done, nothing, broken])] == [False, False, True]
    assert [each.bad for each in without_empty([nothing, nothing])] == [True, True]
    assert [each.bad for each in without_empty([Result("mysql", tested=False), nothing])] == [False, True]
