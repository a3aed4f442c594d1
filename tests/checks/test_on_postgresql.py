from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from django_dbqueue.checks.database import check_alias
from django_dbqueue.databases import postgresql_facts
from tests.checks.conftest import judged

if TYPE_CHECKING:
    from django.db.backends.base.base import BaseDatabaseWrapper

pytestmark = pytest.mark.usefixtures("database")


def test_psycopg_2_is_refused(session: BaseDatabaseWrapper, monkeypatch: Any) -> None:
    monkeypatch.delattr(session.Database, "ClientCursor")  # as psycopg 2 has none
    messages = check_alias("default")
    assert [message.id for message in messages] == ["dbqueue.E012"]
    assert "psycopg 3.2" in str(messages[0].hint)


def test_a_session_that_answers_before_it_is_on_disk_is_warned_of(session: BaseDatabaseWrapper) -> None:
    with session.cursor() as cursor:
        cursor.execute("SET synchronous_commit = off")
    messages = check_alias("default")
    assert [message.id for message in messages] == ["dbqueue.W010"]
    assert "synchronous_commit off" in messages[0].msg


@pytest.mark.parametrize("name", ["fsync", "full_page_writes"])
def test_a_server_that_a_crash_can_damage_is_warned_of(name: str) -> None:
    assert [message.id for message in judged(postgresql_facts.durability, {name: "off"})] == ["dbqueue.W010"]
    assert judged(postgresql_facts.durability, {name: "on", "synchronous_commit": "local"}) == []


def test_another_isolation_of_the_session_is_warned_of(session: BaseDatabaseWrapper) -> None:
    with session.cursor() as cursor:
        cursor.execute("SET default_transaction_isolation = 'serializable'")
    messages = check_alias("default")
    assert [message.id for message in messages] == ["dbqueue.W011"]
    assert "SERIALIZABLE" in messages[0].msg


@pytest.mark.parametrize(("name", "found"), [("REPEATABLE_READ", ["dbqueue.W011"]), ("READ_COMMITTED", [])])
def test_the_isolation_that_options_say_counts(
    session: BaseDatabaseWrapper, monkeypatch: Any, name: str, found: list[str]
) -> None:
    from django.db.backends.postgresql.psycopg_any import IsolationLevel

    monkeypatch.setitem(session.settings_dict["OPTIONS"], "isolation_level", IsolationLevel[name])
    session.close()
    messages = check_alias("default")
    session.close()
    assert [message.id for message in messages] == found


def test_an_encoding_that_lacks_characters_is_warned_of() -> None:
    assert [message.id for message in judged(postgresql_facts.characters, {"server_encoding": "LATIN1"})] == [
        "dbqueue.W016"
    ]
