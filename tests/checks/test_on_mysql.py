from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from django.db import OperationalError, connection, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.test import override_settings
from django.test.utils import CaptureQueriesContext

from django_dbqueue.checks import blocking_errors
from django_dbqueue.checks.database import TABLES, check_alias
from django_dbqueue.databases import mysql_facts
from django_dbqueue.models import Message
from django_dbqueue.value_types import TYPES
from tests.checks.conftest import ids, judged, run
from tests.whole_server import WholeServer


def test_a_session_that_cuts_values_forbids_a_worker(session: BaseDatabaseWrapper) -> None:
    run(session, "SET SESSION sql_mode = 'NO_ENGINE_SUBSTITUTION'")
    assert ids() == ["E014"]
    assert [message.id for message in blocking_errors("default")] == ["dbqueue.E014"]
    run(session, "SET SESSION sql_mode = ''")
    assert ids() == ["E014"]
    run(session, "SET SESSION sql_mode = 'STRICT_ALL_TABLES'")
    assert ids() == []


@pytest.mark.parametrize("engine", ["MyISAM", "MEMORY"])
def test_a_table_without_transactions_forbids_a_worker(session: BaseDatabaseWrapper, engine: str) -> None:
    run(session, f"CREATE TABLE scratch_of_checks (id int) ENGINE={engine}")
    try:
        messages = judged(
            mysql_facts.storage, {}, session, ["scratch_of_checks", "no_such_table", Message._meta.db_table]
        )
    finally:
        run(session, "DROP TABLE scratch_of_checks")
    assert [message.id for message in messages] == ["dbqueue.E013"]
    assert "ALTER TABLE scratch_of_checks ENGINE=InnoDB" in messages[0].hint


def test_the_tables_that_are_checked_are_the_ones_that_messages_live_in_and_archivers_lock() -> None:
    from django_dbqueue.models import ArchivedMessage, Mutex

    assert [model._meta.db_table for model in (Message, ArchivedMessage, Mutex)] == list(TABLES)


def test_a_binary_log_of_statements_forbids_a_worker_and_would_refuse_its_writes(
    session: BaseDatabaseWrapper,
) -> None:
    run(session, "SET SESSION binlog_format = 'STATEMENT'")
    assert ids() == ["E015"]
    with pytest.raises(OperationalError, match="1665"):
        Message.objects.enqueue(1)


def test_a_mixed_binary_log_is_fine(session: BaseDatabaseWrapper) -> None:
    run(session, "SET SESSION binlog_format = 'MIXED'")
    assert ids() == []
    Message.objects.enqueue(1)
    assert [message.payload for message in Message.objects.claim(5)] == [1]


def test_statements_are_no_danger_without_a_binary_log() -> None:
    assert judged(mysql_facts.binary_log, {"log_bin": "OFF", "binlog_format": "STATEMENT"}) == []
    assert judged(mysql_facts.binary_log, {}) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [("innodb_flush_log_at_trx_commit", 2), ("innodb_flush_log_at_trx_commit", 0), ("sync_binlog", 0)],
)
def test_commits_that_a_crash_takes_back_are_warned_of(
    session: BaseDatabaseWrapper, whole_server: WholeServer, name: str, value: int
) -> None:
    with whole_server.saying(session, name, value):
        messages = check_alias("default")
    assert [message.id for message in messages] == ["dbqueue.W010"]
    assert f"{name} is {value}" in messages[0].msg
    assert not messages[0].is_serious()


def test_a_server_whose_sessions_begin_with_autocommit_off_forbids_a_worker(
    session: BaseDatabaseWrapper, whole_server: WholeServer
) -> None:
    with whole_server.saying(session, "autocommit", 0):
        messages = check_alias("default")
        blocking = blocking_errors("default")
    assert [message.id for message in messages] == ["dbqueue.E017"]
    assert "start with autocommit off" in messages[0].msg
    assert [message.id for message in blocking] == ["dbqueue.E017"]


def test_a_session_that_somebody_switched_off_behind_django_forbids_a_worker(session: BaseDatabaseWrapper) -> None:
    run(session, "SET autocommit = 0")
    [message] = check_alias("default")
    assert message.id == "dbqueue.E017"
    assert "though Django says that it is on" in message.msg
    run(session, "SET autocommit = 1")
    assert ids() == []


def test_a_transaction_of_the_caller_is_no_session_with_autocommit_off(session: BaseDatabaseWrapper) -> None:
    with transaction.atomic():
        assert ids() == []


def test_an_unsynced_binary_log_is_no_danger_when_there_is_none(session: BaseDatabaseWrapper) -> None:
    assert judged(mysql_facts.durability, {"log_bin": "OFF", "sync_binlog": "0"}, session) == []


@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE", "READ UNCOMMITTED"])
def test_another_isolation_is_warned_of(session: BaseDatabaseWrapper, level: str) -> None:
    run(session, f"SET SESSION TRANSACTION ISOLATION LEVEL {level}")
    messages = check_alias("default")
    assert [message.id for message in messages] == ["dbqueue.W011"]
    assert level in messages[0].msg


def test_the_isolation_that_options_leave_to_the_server_is_warned_of(
    session: BaseDatabaseWrapper, monkeypatch: Any
) -> None:
    monkeypatch.setitem(session.settings_dict["OPTIONS"], "isolation_level", None)
    session.close()
    assert ids() == ["W011"]
    session.close()


def test_a_missing_read_timeout_is_warned_of(session: BaseDatabaseWrapper, monkeypatch: Any) -> None:
    monkeypatch.delitem(session.settings_dict["OPTIONS"], "read_timeout")
    assert ids() == ["W012"]


def test_payloads_larger_than_a_packet_are_warned_of(session: BaseDatabaseWrapper) -> None:
    with session.cursor() as cursor:
        cursor.execute("SELECT @@max_allowed_packet")
        packet = cursor.fetchone()[0]
    with override_settings(DBQUEUE={"MAX_PAYLOAD_BYTES": packet // 2 + 1}):
        messages = check_alias("default")
    assert [message.id for message in messages] == ["dbqueue.W013"]
    allowed = int(messages[0].hint.rsplit("MAX_PAYLOAD_BYTES to ", 1)[1].split(" or")[0].replace(",", ""))
    with override_settings(DBQUEUE={"MAX_PAYLOAD_BYTES": allowed}):
        assert ids() == []
        Message.objects.enqueue('"' * (allowed // 2 - 10))  # each is two bytes as JSON, and four as SQL


@pytest.mark.django_db
@pytest.mark.parametrize("text", ["\\" * 3_000, "\N{PILE OF POO}" * 3_000, "x\N{PILE OF POO}" * 400_000])
def test_messages_that_are_sent_together_fit_the_packet_that_is_required(text: str) -> None:
    assert judged(mysql_facts.packet_size, {"max_allowed_packet": str(4 * 1024 * 1024)}) == []
    [warning] = judged(mysql_facts.packet_size, {"max_allowed_packet": str(3 * 1024 * 1024)})
    assert warning.id == "dbqueue.W013"
    needed = int(str(warning.hint).split("max_allowed_packet to ")[1].split(" or")[0].replace(",", ""))
    with override_settings(DBQUEUE={"MAX_PAYLOAD_BYTES": 2_000_000}), CaptureQueriesContext(connection) as captured:
        Message.objects.enqueue_many(text for _ in range(1_200 if len(text) < 10_000 else 3))
    assert needed / 8 < max(len(query["sql"].encode()) for query in captured) <= needed


@pytest.mark.django_db
def test_a_message_with_as_many_headers_and_types_as_it_may_have_fits_the_packet_that_is_required() -> None:
    most, quotes = 1024 * 1024, '"' * 8_180  # each is two bytes as JSON, and four as SQL
    headers = {"a": quotes, TYPES: {quotes: "uuid"}}
    [warning] = judged(mysql_facts.packet_size, {"max_allowed_packet": "1000"})
    needed = int(str(warning.msg).split("which may take ")[1].split(" in")[0].replace(",", ""))
    with CaptureQueriesContext(connection) as captured:
        Message.objects.enqueue(['"' * (most // 2 - 2)], queue="q", key="k" * 200, headers=headers, group="g" * 200)
    assert needed - 32 * 1024 < max(len(query["sql"].encode()) for query in captured) <= needed


def test_a_session_that_lacks_characters_is_warned_of(session: BaseDatabaseWrapper) -> None:
    run(session, "SET NAMES utf8mb3")
    assert ids() == ["W016"]


def test_a_cluster_of_writers_is_warned_of() -> None:
    for variables in ({"wsrep_on": "ON"}, {"group_replication_single_primary_mode": "OFF"}):
        assert [message.id for message in judged(mysql_facts.cluster, variables)] == ["dbqueue.W017"]
    assert judged(mysql_facts.cluster, {"wsrep_on": "OFF"}) == []
    assert judged(mysql_facts.cluster, {"group_replication_single_primary_mode": "ON"}) == []


def test_a_server_without_skip_locked_forbids_a_worker(session: BaseDatabaseWrapper, monkeypatch: Any) -> None:
    monkeypatch.setattr(session.features, "has_select_for_update_skip_locked", False)
    assert ids() == ["E012"]


def test_a_mysql_without_a_table_of_its_sessions_forbids_a_worker() -> None:
    features = SimpleNamespace(has_select_for_update_skip_locked=True)
    for version, expected in (((8, 0, 21), ["dbqueue.E012"]), ((8, 0, 22), []), ((9, 0, 0), [])):
        session = SimpleNamespace(features=features, mysql_is_mariadb=False, mysql_version=version)
        assert [message.id for message in judged(mysql_facts.skip_locked, {}, session)] == expected
