from __future__ import annotations

from typing import Any

import pytest
from django.db.backends.base.base import BaseDatabaseWrapper

from django_dbqueue.checks.database import check_alias
from django_dbqueue.databases import postgresql_facts
from tests.checks.conftest import judged

pytestmark = pytest.mark.usefixtures("database")


def test_psycopg_2_is_refused(session: BaseDatabaseWrapper, monkeypatch: Any) -> None:
    monkeypatch.delattr(session.Database, "ClientCursor")  # as psycopg 2 has none
    messages = check_alias("default")
    assert [message.id for message in messages] == ["dbqueue.E012"]
    assert "psycopg 3.2" in str(messages[0].hint)


@pytest.mark.parametrize(
    ("setting", "check", "words"),
    [
        ("synchronous_commit = off", "dbqueue.W010", "synchronous_commit off"),
        ("default_transaction_isolation = 'serializable'", "dbqueue.W011", "SERIALIZABLE"),
    ],
    ids=["it answers before it is on disk", "another isolation"],
)
def test_a_session_that_is_not_as_it_should_be_is_warned_of(
    session: BaseDatabaseWrapper, setting: str, check: str, words: str
) -> None:
    with session.cursor() as cursor:
        cursor.execute(f"SET {setting}")
    [message] = check_alias("default")
    assert message.id == check
    assert words in message.msg


@pytest.mark.parametrize("name", ["fsync", "full_page_writes"])
def test_a_server_that_a_crash_can_damage_is_warned_of(name: str) -> None:
    assert [message.id for message in judged(postgresql_facts.durability, {name: "off"})] == ["dbqueue.W010"]
    assert judged(postgresql_facts.durability, {name: "on", "synchronous_commit": "local"}) == []


@pytest.mark.parametrize(("name", "found"), [("REPEATABLE_READ", ["dbqueue.W011"]), ("READ_COMMITTED", [])])
def test_the_isolation_that_options_set_counts(
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
