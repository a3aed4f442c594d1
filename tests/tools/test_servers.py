"""The ground that the other tests stand on."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from django.contrib.auth.models import Group
from django.db import connection, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from tests.conftest import ROOT
from tests.left_out import BROWSER, PARTS, SPARK, Part, sentences
from tests.patience import patience
from tests.servers import private
from tests.servers.directory import own_directory
from tests.servers.private import PrivateServer, first_ephemeral_port, free_port
from tests.servers.suite import KILLS, Result, Selection, end_of, in_random_order, without_empty
from tests.servers.times import dearest_folders


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
    subprocess.run([sys.executable, "-c", program], env=worker_env, check=True, timeout=patience(60))
    assert Group.objects.filter(name="by the child").exists()


def test_sqlite_runs_as_the_docs_state(transactional_db: None, database: str) -> None:
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


class Answering(PrivateServer):
    """A server that can do nothing but tell its version."""

    name = "answering"
    accounts = ()
    stop_signal = signal.SIGTERM
    program = """
import socket, sys
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
while True:
    with listener.accept()[0] as client:
        client.sendall(client.recv(100) + b"redis_version:1")
"""

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    def set_up_command(self) -> list[str]:
        return ["true"]

    def command(self) -> list[str]:
        return [sys.executable, "-c", self.program, str(self.port)]


def test_a_server_has_a_port_that_the_system_gives_to_no_other() -> None:
    assert all(free_port() < first_ephemeral_port() for _ in range(20))


def test_a_server_whose_port_somebody_took_before_it_listened_takes_another_and_keeps_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(private, "_account", lambda _names: None)
    with socket.socket() as used:
        used.bind(("127.0.0.1", 0))
        ports = [free_port(), used.getsockname()[1]]
        expected = ports[0]
        monkeypatch.setattr(private, "free_port", ports.pop)
        with Answering.running(tmp_path) as server:
            assert server.port == expected
            server.kill()
            server.start()
            assert server.port == expected


def test_the_tests_on_spark_run_one_by_one_in_a_pass_of_their_own() -> None:
    others, on_spark = Selection().passes(first=True)
    assert others.arguments == ("-m", "not nightly and not spark")
    assert on_spark.arguments == ("-m", "not nightly and spark", "-n", "0")


def test_what_is_left_out_is_left_out_of_every_pass_with_the_markers_that_the_caller_chose() -> None:
    (only,) = Selection("slow or spark", slow=False, spark=False, nightly=True).passes(first=True)
    assert only.arguments == ("-m", "(slow or spark) and not slow and not spark")


def test_a_quick_run_leaves_out_the_browser_and_the_kills() -> None:
    (only,) = Selection(slow=False, spark=False, browser=False, kills=False).passes(first=True)
    left_out = [word.removeprefix(f"--ignore-glob={ROOT}/") for word in only.arguments[2:]]
    assert left_out == [*BROWSER.files, *KILLS]
    assert all(list(ROOT.glob(pattern)) for pattern in left_out)


def test_what_needs_more_than_is_installed_is_left_out_and_reported() -> None:
    part = Part(
        "of the moon", ("tests/moon/*.py",), packages=("pytest", "moon_rover"), programs=(("sh", "ash"), ("moo",))
    )
    assert part.missing() == ["moon_rover", "moo"]
    assert part.has(ROOT / "tests/moon/landing.py")
    assert not part.has(ROOT / "tests/test_moon.py")
    [sentence] = sentences([part])
    assert sentence.startswith("NOT TESTED: what is of the moon; it needs moon_rover, moo.")


def test_a_file_that_imports_what_is_not_in_the_extra_test_belongs_to_a_part_that_is_left_out_without_it() -> None:
    imports = re.compile(rf"^(?:from|import) ({'|'.join([*BROWSER.packages, *SPARK.packages])})\b", re.M)
    found = {file for file in ROOT.glob("tests/**/test_*.py") if imports.search(file.read_text())}
    assert len(found) > 10
    assert {str(file) for file in found if not any(part.has(file) for part in PARTS)} == set()


def test_a_run_shows_which_folders_its_seconds_were_for() -> None:
    cases = {
        "tests.process.test_bank": 200.4,
        "tests.process.test_pools": 9.8,
        "tests.test_docs": 40,
        "tests.admin.x": 0.2,
    }
    suite = ElementTree.Element("testsuite")
    for name, seconds in cases.items():
        ElementTree.SubElement(suite, "testcase", classname=name, time=str(seconds))
    assert dearest_folders(suite) == "seconds of tests: process 210, test_docs 40"
    assert dearest_folders(ElementTree.Element("testsuite")) == ""


def test_a_run_draws_its_order_once_and_keeps_the_one_that_it_was_given() -> None:
    [seed] = in_random_order(["-x"])
    assert re.fullmatch(r"--randomly-seed=\d+", seed)
    assert in_random_order([seed]) == in_random_order(["-p", "no:randomly"]) == []


def test_what_no_database_makes_a_difference_to_is_tested_on_the_first_alone() -> None:
    (later,) = Selection("slow", spark=False).passes(first=False)
    assert later.arguments == ("-m", "(slow) and not once and not nightly and not spark")


def test_a_later_database_may_have_nothing_that_was_named_and_the_run_may_not() -> None:
    done, nothing = Result("sqlite", passed=1), Result("mariadb", problem="no test ran")
    broken = Result("mysql", problem="pytest ended with exit code 3")
    assert [each.bad for each in without_empty([done, nothing, broken])] == [False, False, True]
    assert [each.bad for each in without_empty([nothing, nothing])] == [True, True]
    assert [each.bad for each in without_empty([Result("mysql", tested=False), nothing])] == [False, True]


def test_who_runs_several_suites_gets_a_row_for_each_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = tmp_path / "table"
    monkeypatch.setenv("DBQUEUE_TEST_TABLE", str(table))
    end_of([Result("sqlite", "3.40.1", 3, 1, 2, 90), Result("mysql", tested=False)])
    assert table.read_text() == "sqlite 3.40.1|3|1|2|1.5|\nmysql |0|0|0|0.0|NOT TESTED\n"
