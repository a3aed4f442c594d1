"""What the doctor finds on MySQL and MariaDB, in sessions and tables that are ill for real."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.conf import settings
from django.db import connection
from django.db.backends.base.base import BaseDatabaseWrapper
from django.test import override_settings

from django_dbqueue.databases import facts, retries
from django_dbqueue.doctor import versions
from django_dbqueue.doctor.examined_database import ExaminedDatabase
from django_dbqueue.doctor.finding import Finding
from django_dbqueue.models import Message, Mutex, Queue, Schedule, Worker
from tests.concurrency.steps import polls
from tests.doctor.conftest import examined, examined_between, levels, run, wrong
from tests.factories import waiting
from tests.process.pooler import relay
from tests.whole_server import WholeServer

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize(
    ("spoiled", "check", "level", "words"),
    [
        ("SET SESSION sql_mode = 'NO_ENGINE_SUBSTITUTION'", "sql-mode", "problem", "not strict"),
        ("SET SESSION binlog_format = 'STATEMENT'", "binary-log", "problem", "writes statements"),
        ("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ", "isolation", "warning", "are REPEATABLE READ"),
        ("SET SESSION TRANSACTION READ ONLY", "writable", "problem", "The database refuses writes (t"),
        ("SET NAMES utf8mb3", "characters", "warning", "use utf8mb3"),
        ("SET SESSION wait_timeout = 59", "idle-timeout", "warning", "idle for 59 s (wait_timeout)"),
        ("SET SESSION innodb_lock_wait_timeout = 61", "lock-wait", "warning", "DEFAULTS, tests"),
        ("SET SESSION innodb_lock_wait_timeout = 120", "read-timeout", "warning", "not longer than innodb_lock_wait"),
        ("SET SESSION timestamp = UNIX_TIMESTAMP() + 3600", "clocks", "warning", "differ by +3"),
        ("SET SESSION timestamp = UNIX_TIMESTAMP() - 30", "clocks", "note", "differ by -3"),
    ],
)
def test_a_session_that_is_not_as_it_should_be(
    session: BaseDatabaseWrapper, spoiled: str, check: str, level: str, words: str
) -> None:
    run(session, spoiled)
    [*_fine, finding] = examined()[check]
    assert finding.level == level
    assert words in finding.found


def test_a_read_timeout_that_is_not_set_is_a_warning(session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(session.settings_dict["OPTIONS"], "read_timeout")
    assert levels(examined(), "read-timeout") == ["warning"]


def test_the_lease_of_a_consumer_counts(session: BaseDatabaseWrapper, register: Callable[..., None]) -> None:
    register("quick", lease=10)
    register("slow", lease=30_000)
    found = examined()
    assert "longer than these leases: quick." in found["lock-wait"][0].found
    assert "up to 30000 s" in found["idle-timeout"][0].found
    assert wrong(found) == ["idle-timeout", "lock-wait"]


def test_payloads_larger_than_a_packet_are_a_warning(session: BaseDatabaseWrapper) -> None:
    with override_settings(DBQUEUE={"MAX_PAYLOAD_BYTES": 512 * 1024 * 1024}):
        found = examined()
    assert wrong(found) == ["packet-size"]
    assert "max_allowed_packet" in found["packet-size"][0].do


@pytest.mark.parametrize("name", ["innodb_flush_log_at_trx_commit", "sync_binlog"])
def test_commits_that_a_crash_takes_back_are_a_warning(
    session: BaseDatabaseWrapper, whole_server: WholeServer, name: str
) -> None:
    with whole_server.saying(session, name, 0):
        found = examined()
    assert wrong(found) == ["durability"]
    assert f"{name} is 0" in found["durability"][0].found


def test_a_server_whose_sessions_begin_with_autocommit_off_is_a_problem(
    session: BaseDatabaseWrapper, whole_server: WholeServer
) -> None:
    with whole_server.saying(session, "autocommit", 0):
        found = examined()
    assert levels(found, "durability") == ["problem"]
    assert "start with autocommit off" in found["durability"][0].found


# -- tables -------------------------------------------------------------------------------------------------


@contextmanager
def altered(session: BaseDatabaseWrapper, model: Any, change: str) -> Iterator[None]:
    """Change a table, and make it anew afterwards."""
    run(session, f"ALTER TABLE {model._meta.db_table} {change}")
    try:
        yield
    finally:
        with connection.schema_editor() as editor:
            editor.delete_model(model)
            editor.create_model(model)


def test_a_table_without_transactions_is_a_problem(session: BaseDatabaseWrapper) -> None:
    with altered(session, Schedule, "ENGINE=MyISAM"):
        found = examined()
    assert wrong(found) == ["storage"]
    assert "ALTER TABLE django_dbqueue_schedule ENGINE=InnoDB" in found["storage"][0].do
    assert wrong(examined()) == []


@pytest.mark.parametrize(
    ("converted", "texts"),
    [
        ("utf8mb3 COLLATE utf8mb3_bin", ["can't hold every character"]),
        ("utf8mb4 COLLATE utf8mb4_unicode_ci", ["not compared exactly"]),
        ("latin1 COLLATE latin1_swedish_ci", ["can't hold every character", "not compared exactly"]),
    ],
)
def test_a_table_that_somebody_converted_is_a_problem(
    session: BaseDatabaseWrapper, converted: str, texts: list[str]
) -> None:
    with altered(session, Mutex, f"CONVERT TO CHARACTER SET {converted}"):
        found = examined()
        for finding in found["collations"]:
            run(session, finding.do)
        mended = examined()
    assert wrong(found) == ["collations"]
    for finding, words in zip(found["collations"], texts, strict=True):
        assert finding.level == "problem"
        assert words in finding.found
        assert "django_dbqueue_mutex (name)" in finding.found
    assert wrong(mended) == [], "the advice, run as it stands, mends it"


@pytest.mark.parametrize("model", [Message, Queue, Worker])
def test_the_advice_leaves_what_a_column_has_besides_its_characters(session: BaseDatabaseWrapper, model: Any) -> None:
    """Its default, whether it may be NULL, the words of an ENUM."""
    before = definition(session, model)
    with altered(session, model, "CONVERT TO CHARACTER SET utf8mb3 COLLATE utf8mb3_general_ci"):
        assert definition(session, model) != before
        [poor, *_loose] = examined()["collations"]
        run(session, poor.do)
        assert wrong(examined()) == []
        assert definition(session, model) == before


def definition(session: BaseDatabaseWrapper, model: Any) -> list[tuple[str, ...]]:
    """A table's columns, each with its type, characters, NULL and default."""
    with session.cursor() as cursor:
        cursor.execute(f"SHOW FULL COLUMNS FROM {model._meta.db_table}")
        return [row[:6] for row in cursor.fetchall()]


def test_an_index_that_the_optimiser_may_not_see_is_a_problem_and_the_claim_stands_still(
    session: BaseDatabaseWrapper,
) -> None:
    hide, show = ("IGNORED", "NOT IGNORED") if settings.TEST_DATABASE == "mariadb" else ("INVISIBLE", "VISIBLE")
    index = "ALTER TABLE django_dbqueue_message ALTER INDEX dbqueue_claim"
    found = examined_between(session, f"{index} {hide}", f"{index} {show}")
    assert {"indexes", "claim-plan"} <= set(wrong(found))
    assert found["indexes"][0].do == f"{index} {show}"
    assert levels(found, "claim-plan") == ["problem"]


# -- old versions, and who keeps them -----------------------------------------------------------------------


def polled(check: Callable[[], Any], is_there: Callable[[Any], bool]) -> Any:
    """What is seen when it is there: the list of transactions is a copy as long as somebody read it a moment ago."""
    for _ in polls():
        if is_there(found := check()):
            return found
    raise AssertionError(found)


def test_a_transaction_that_is_open_for_long_and_what_it_keeps_are_warnings(
    session: BaseDatabaseWrapper, other_connection: BaseDatabaseWrapper, monkeypatch: pytest.MonkeyPatch
) -> None:
    message = waiting()
    run(other_connection, "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    run(other_connection, "START TRANSACTION WITH CONSISTENT SNAPSHOT", "SELECT COUNT(*) FROM django_dbqueue_message")
    for number in range(40):
        Message.objects.filter(pk=message.pk).update(crashes=number)
    with other_connection.cursor() as cursor:
        cursor.execute("SELECT CONNECTION_ID()")
        [number] = cursor.fetchone()
    found = examined()
    assert levels(found, "oldest-transaction") == ["ok"], "it has not been open for five minutes"
    monkeypatch.setattr(versions, "LONG_TRANSACTION", -1.0)
    monkeypatch.setattr(facts, "MOST_SHOWN", 1000)  # other tests on this server have transactions too
    monkeypatch.setattr(versions, "LONG_HISTORY", 30)
    found = polled(examined, lambda found: f"session {number} for " in found["oldest-transaction"][0].found)
    assert levels(found, "oldest-transaction") == levels(found, "history") == ["warning"]
    assert f"KILL {number}" in found["oldest-transaction"][0].do
    assert "see the check 'oldest-transaction'" in found["history"][0].do


def test_the_age_of_a_transaction_does_not_depend_on_the_sessions_time_zone(
    session: BaseDatabaseWrapper, other_connection: BaseDatabaseWrapper
) -> None:
    run(session, "SET SESSION time_zone = '-11:00'")
    run(other_connection, "BEGIN", "SELECT COUNT(*) FROM django_dbqueue_message FOR UPDATE")
    assert levels(examined(), "oldest-transaction") == ["ok"]


if settings.TEST_DATABASE == "mysql":

    def test_where_a_statement_keeps_transactions_from_being_listed_that_is_a_note(
        session: BaseDatabaseWrapper, other_connection: BaseDatabaseWrapper, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        database = ExaminedDatabase.at(session)

        def check() -> list[Finding]:
            return list(versions.oldest.examine(database))

        name = f"{settings.TEST_RUN} {session.settings_dict['NAME']}"
        run(session, f"SELECT GET_LOCK('{name}', 0)")
        run(other_connection, "BEGIN", "SELECT COUNT(*) FROM django_dbqueue_message")
        with ThreadPoolExecutor(1) as aside:
            waits = aside.submit(run, other_connection, f"SELECT GET_LOCK('{name}', 60), '\N{PILE OF POO}'")
            while not waits.done() and not _waits_for_a_lock(session, name):
                pass
            with monkeypatch.context() as patch:
                patch.setattr(retries, "ATTEMPTS", 1)  # meanwhile nobody else on this server could list them
                [found] = polled(check, lambda found: found[0].level != "ok")
            run(session, f"SELECT RELEASE_LOCK('{name}')")
            waits.result()
        assert found.level == "note"
        assert "a four-byte character" in found.found
        [found] = polled(check, lambda found: found[0].level != "note")
        assert found.level == "ok"

    def _waits_for_a_lock(session: BaseDatabaseWrapper, name: str) -> bool:
        with session.cursor() as cursor:
            cursor.execute(
                "SELECT COUNT(*) FROM performance_schema.metadata_locks WHERE lock_status = 'PENDING' "
                "AND object_name = %s",
                [name],
            )
            return bool(cursor.fetchone()[0])


# -- who stands in between ----------------------------------------------------------------------------------


def test_a_pooler_is_a_warning(session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    there = session.settings_dict
    session.close()
    with relay(f"mysql://{there['USER']}@{there['HOST']}:{there['PORT']}/x") as url:
        monkeypatch.setitem(there, "HOST", "127.0.0.1")
        monkeypatch.setitem(there, "PORT", str(urlsplit(url).port))
        found = examined()
        session.close()
    assert wrong(found) == ["pooler"]
    assert "opened as session 987654321" in found["pooler"][0].found
    assert "NOTIFY" not in found["pooler"][0].do


def test_a_time_zone_that_the_server_has_no_table_of_is_a_note(session: BaseDatabaseWrapper) -> None:
    with override_settings(TIME_ZONE="Europe/Berlin"):
        found = examined()
    with session.cursor() as cursor:
        cursor.execute("SELECT COUNT(*) FROM mysql.time_zone_name WHERE Name IN ('UTC', 'Europe/Berlin')")
        has_it = cursor.fetchone() == (2,)
    assert levels(found, "time-zones") == ["ok" if has_it else "note"]
    assert "Europe/Berlin" in found["time-zones"][0].found
