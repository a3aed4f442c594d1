"""Each text column says its characters: in a database that lacks some by default, ours hold all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.apps import apps
from django.db import OperationalError, connection, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations.executor import MigrationExecutor
from django.db.models import CharField, TextField

from django_dbqueue.checks.text_columns import check_columns, listed, mended, spoiled

APP = "django_dbqueue"
TEXT = "Ошибка, \N{PILE OF POO}"
pytestmark = pytest.mark.django_db(transaction=True)


@contextmanager
def database_of(characters: str) -> Iterator[BaseDatabaseWrapper]:
    """A database with this default, without tables, under an alias of its own: where migrations note themselves."""
    other = connection.copy(alias=characters)
    other.settings_dict["NAME"] = name = f"{connection.settings_dict['NAME']}_{characters}"
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {connection.ops.quote_name(name)} CHARACTER SET {characters}")
    connections[characters] = other
    try:
        yield other
    finally:
        other.close()
        del connections[characters]
        with connection.cursor() as cursor:
            cursor.execute(f"DROP DATABASE {connection.ops.quote_name(name)}")


def run(session: BaseDatabaseWrapper, sql: str, *params: str) -> list[Any]:
    with session.cursor() as cursor:
        cursor.execute(sql, params or None)
        return list(cursor.fetchall()) if cursor.description else []


def pause(session: BaseDatabaseWrapper, name: str, reason: str = TEXT) -> None:
    sql = "INSERT INTO django_dbqueue_queue (name, is_paused, created_at, pause_reason) VALUES (%s, 1, NOW(), %s)"
    run(session, sql, name, reason)


def test_each_text_field_names_its_characters() -> None:
    fields = [
        field
        for model in apps.get_app_config(APP).get_models()
        for field in model._meta.local_concrete_fields
        if isinstance(field, CharField | TextField)
    ]
    assert fields
    unnamed = [field for field in fields if " COLLATE " not in (field.db_type(connection) or "")]
    assert unnamed == [], "a column of these gets the default of the database: use the fields of models/fields.py"


@pytest.mark.parametrize("characters", ["utf8mb3", "latin1"])
def test_a_database_that_lacks_characters_holds_all_of_ours(characters: str) -> None:
    with database_of(characters) as other:
        executor = MigrationExecutor(other)
        executor.migrate(executor.loader.graph.leaf_nodes(APP))
        pause(other, "as made")
        assert (listed(spoiled(other)), list(check_columns(other))) == ("", [])
        run(other, "DELETE FROM django_dbqueue_queue")
        run(other, f"ALTER TABLE django_dbqueue_queue CONVERT TO CHARACTER SET {characters}")
        with pytest.raises(OperationalError, match="1366"):
            pause(other, "as converted")
        [warning] = check_columns(other)
        assert "django_dbqueue_queue (name, paused_by, pause_reason)" in warning.msg
        pause(other, "before", "möwe")
        run(other, mended(spoiled(other), other))
        pause(other, "as mended")
        reasons = "SELECT name, pause_reason, paused_by FROM django_dbqueue_queue ORDER BY name"
        assert run(other, reasons) == [("as mended", TEXT, ""), ("before", "möwe", "")]
        assert (listed(spoiled(other)), list(check_columns(other))) == ("", [])
