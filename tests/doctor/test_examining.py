"""What the doctor finds on every database: nothing where all is well, and every ill that a test can make for real."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import pytest
from django.conf import settings
from django.db import connection
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations.recorder import MigrationRecorder
from django.test import modify_settings, override_settings

from django_dbqueue import doctor
from django_dbqueue.databases import server_of
from django_dbqueue.databases.indexes import Index
from django_dbqueue.doctor import claim_checks, clocks
from django_dbqueue.doctor.check import Check
from django_dbqueue.doctor.checklist import CHECKS
from django_dbqueue.doctor.examination import FIRST
from django_dbqueue.models import Message, StreamClaim
from tests.doctor.conftest import examined, levels, worker, wrong
from tests.factories import QUEUE, done, waiting
from tests.plans import crowd

pytestmark = pytest.mark.django_db


def test_where_all_is_well_every_check_of_this_server_reports_it_and_nothing_is_wrong() -> None:
    waiting(priority=3)
    waiting(priority=-1)
    done()
    worker()
    found = examined()
    assert wrong(found) == []
    server = server_of(connection)
    of_options = ("history-retention", "task-queues")  # which are not set here
    expected = [*FIRST, *dict.fromkeys(each.name for each in CHECKS if each.on(server) and each.name not in of_options)]
    assert list(found) == expected
    assert found["connection"][0].found.endswith("answers.")
    assert levels(found, "workers") == ["ok"]


def test_every_check_that_is_written_is_on_the_list() -> None:
    modules = [import_module(f"{doctor.__name__}.{each.name}") for each in iter_modules(doctor.__path__)]
    written = {id(each) for module in modules for each in vars(module).values() if isinstance(each, Check)}
    assert sorted(written) == sorted(map(id, CHECKS))


def test_the_examination_changes_nothing_and_leaves_no_transaction_open() -> None:
    message = waiting()
    before = Message.objects.values().get()
    examined()
    assert Message.objects.values().get() == before
    [claimed] = Message.objects.claim(1, queue=QUEUE)
    assert claimed.pk == message.pk


# -- what comes first ---------------------------------------------------------------------------------------


@override_settings(DBQUEUE={"DEFAULTS": {"leese": 3}})
def test_wrong_settings_are_reported_and_nothing_else_is_examined() -> None:
    found = examined()
    assert list(found) == ["settings"]
    assert "Did you mean 'lease'" in found["settings"][0].do
    assert levels(found, "settings") == ["problem"]


@override_settings(DBQUEUE={"DEFAULTS": {"backoff": 9, "backoff_max": 3}}, SILENCED_SYSTEM_CHECKS=["dbqueue.W001"])
def test_a_system_check_that_was_silenced_is_a_note() -> None:
    found = examined()
    assert levels(found, "settings") == ["note"]
    assert "dbqueue.W001 is in SILENCED_SYSTEM_CHECKS" in found["settings"][0].found


@modify_settings(INSTALLED_APPS={"append": "tests.doctor.broken_app"})
def test_consumers_that_can_not_be_imported_are_reported() -> None:
    found = examined()
    assert list(found) == ["settings", "consumers"]
    assert "ZeroDivisionError: division by zero" in found["consumers"][0].found


class _Astray:
    def db_for_write(self, _model: Any, **_hints: Any) -> str:
        return "nowhere"


@override_settings(DATABASE_ROUTERS=[_Astray()])
def test_a_router_that_leads_to_no_database_is_reported() -> None:
    found = examined(None)
    assert levels(found, "connection") == ["problem"]
    assert "router sends the queue to 'nowhere'" in found["connection"][0].found


@pytest.mark.django_db(transaction=True)
def test_a_database_that_does_not_answer_is_reported(
    session: BaseDatabaseWrapper, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session.close()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        monkeypatch.setitem(session.settings_dict, "PORT", str(probe.getsockname()[1]))
        if session.vendor == "sqlite":
            monkeypatch.setitem(session.settings_dict, "NAME", str(tmp_path / "no such directory" / "db.sqlite3"))
        found = examined()
    assert list(found) == ["settings", "consumers", "connection"]
    assert levels(found, "connection") == ["problem"]
    assert "The database 'default' doesn't answer" in found["connection"][0].found


def test_a_connection_with_autocommit_off_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(connection.settings_dict, "AUTOCOMMIT", False)
    found = examined()
    assert levels(found, "connection") == ["problem"]
    assert "AUTOCOMMIT off" in found["connection"][0].found


# -- the tables ---------------------------------------------------------------------------------------------


def test_a_migration_that_is_not_applied_is_a_problem_and_the_tables_are_left_alone() -> None:
    applied = MigrationRecorder.Migration.objects.filter(app="django_dbqueue")
    applied.filter(name__in=("0001_squashed", "0016_event_exception")).delete()
    found = examined()
    assert wrong(found) == ["migrations"]
    assert "0001_squashed" in found["migrations"][0].found
    do = found["migrations"][0].do
    assert do.startswith("manage.py migrate django_dbqueue 0016_event_exception --database default  # with the version")
    assert {"claim-plan", "indexes", "workers", "unserved-queues"}.isdisjoint(found)


@pytest.fixture
def without_claim_index(transactional_db: None) -> Iterator[None]:
    [index] = [index for index in Message._meta.indexes if index.name == Index.CLAIM]
    with connection.schema_editor() as editor:
        editor.remove_index(Message, index)
    yield
    with connection.schema_editor() as editor:
        editor.add_index(Message, index)


@pytest.mark.django_db(transaction=True)
def test_a_claim_whose_index_is_gone_is_a_problem(without_claim_index: None) -> None:
    found = examined()
    assert "indexes" in wrong(found)
    assert f"lacks the index {Index.CLAIM} on (queue, status, priority, available_at, id)" in found["indexes"][0].found
    assert f"CREATE INDEX {Index.CLAIM} ON django_dbqueue_message (queue," in found["indexes"][0].do
    if settings.TEST_DATABASE == "postgres":  # which plans without it, and reads a small table whole
        assert levels(found, "claim-plan") == ["ok"]
        assert "The table is small" in found["claim-plan"][0].found
        crowd.fill(done=20_000, delayed=0, stuck=0, dead=0, backlog=0, queues=0)
        found = examined()
        assert "does not use the index dbqueue_claim: it reads by no index" in found["claim-plan"][0].found
    else:
        assert "The claim can't run" in found["claim-plan"][0].found
        assert Index.CLAIM in found["claim-plan"][0].found
    assert levels(found, "claim-plan") == ["problem"]


@pytest.mark.django_db(transaction=True)
def test_a_unique_constraint_that_is_gone_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    [constraint] = StreamClaim._meta.constraints
    with monkeypatch.context() as patch, connection.schema_editor() as editor:
        patch.setattr(StreamClaim._meta, "constraints", ())  # SQLite's makes the table anew, by the model
        editor.remove_constraint(StreamClaim, constraint)
    try:
        found = examined()
    finally:
        with connection.schema_editor() as editor:
            editor.add_constraint(StreamClaim, constraint)
    assert wrong(found) == ["indexes"]
    assert "CREATE UNIQUE INDEX dbqueue_stream_claim ON django_dbqueue_streamclaim (stream, number)" in (
        found["indexes"][0].do
    )
    assert wrong(examined()) == []


# -- the claim ----------------------------------------------------------------------------------------------


def test_plans_are_read_for_so_many_queues_and_priorities_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claim_checks, "MOST", 7)
    explained = []

    def count(execute: Any, sql: str, *rest: Any) -> Any:
        explained.extend(["once"] * sql.startswith("EXPLAIN") * ("available_at <=" in sql))
        return execute(sql, *rest)

    worker(queues=",".join(f"q{number}" for number in range(3)))
    for number in range(3):
        for priority in range(9):
            waiting(queue=f"q{number}", priority=priority)
    with connection.execute_wrapper(count):
        found = examined()
    assert len(explained) == 7
    assert levels(found, "claim-plan") == ["ok", "note"]
    assert "more queues and priorities than the 7" in found["claim-plan"][1].found
    monkeypatch.setattr(claim_checks, "MOST", 200)
    with connection.execute_wrapper(count):
        found = examined()
    assert len(explained) == 7 + 3 * claim_checks.PER_QUEUE
    assert levels(found, "claim-plan") == ["ok"]


# -- clocks -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lead", "took", "level"),
    [(0.2, 0.01, "ok"), (-1.5, 0.01, "note"), (1.5, 1.2, "ok"), (59.0, 0.1, "note"), (-61.0, 0.1, "warning")],
)
def test_clocks_that_differ_matter_by_how_much(lead: float, took: float, level: str) -> None:
    assert clocks.compared(lead, took).level == level
