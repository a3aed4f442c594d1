"""A flush after a test that commits which empties the tables that have rows, and leaves content types and permissions.

Django truncates every table, and then makes each content type and permission anew: more than half of a short test.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.apps import AppConfig, apps
from django.contrib.auth.models import Permission
from django.contrib.contenttypes.management import create_contenttypes
from django.contrib.contenttypes.models import ContentType
from django.db import connection
from django.db.models import Count, Max
from django.db.models.signals import post_migrate

_KEPT = (ContentType, Permission)
_SMALL = 8 * 8192
"""Bytes of a PostgreSQL table up to which its rows are deleted: so few pages of dead rows mislead no plan."""


def keep_permissions() -> None:
    """From now on whatever is migrated or flushed gets the rows that are there now."""
    kept = [(model, list(model._default_manager.all())) for model in _KEPT]

    def put_back(sender: AppConfig, using: str, **options: Any) -> None:
        if sender is not _first_app():
            return
        _make_none_again()  # a test that changes INSTALLED_APPS has connected them again
        ContentType.objects.clear_cache()
        for model, rows in kept:
            if using != connection.alias or _rows(model) != before[model]:
                model._default_manager.using(using).bulk_create(rows, ignore_conflicts=True)

    before = {model: _rows(model) for model in _KEPT}
    _make_none_again()
    post_migrate.connect(put_back, weak=False)
    if connection.vendor != "sqlite":  # where no empty table costs anything
        _empty_what_has_rows(before)


def _empty_what_has_rows(before: dict[Any, Any]) -> None:
    ops, flush = connection.ops, connection.ops.sql_flush

    def sql_flush(
        style: Any, tables: Sequence[str], *, reset_sequences: bool = False, allow_cascade: bool = False
    ) -> list[str]:
        if reset_sequences:
            return flush(style, tables, reset_sequences=True, allow_cascade=allow_cascade)
        as_they_were = {model._meta.db_table for model in _KEPT if _rows(model) == before[model]}
        filled = _filled([table for table in tables if table not in as_they_were])
        if connection.vendor == "postgresql" and all(size <= _SMALL for size in filled.values()):
            # To truncate takes a new file for each index; constraints are deferred to the commit
            return [f"DELETE FROM {ops.quote_name(table)}" for table in filled]
        # Those that refer to a full table, and are empty themselves, have to come along
        return flush(style, list(filled), allow_cascade=True)

    ops.sql_flush = sql_flush


def _filled(tables: Sequence[str]) -> dict[str, int]:
    """The tables that have rows, with their bytes on PostgreSQL."""
    size = "pg_relation_size('{0}')" if connection.vendor == "postgresql" else "0"
    quoted = [(table, connection.ops.quote_name(table)) for table in tables]
    query = f"SELECT '{{0}}', {size} FROM (SELECT 1 AS one) AS once WHERE EXISTS (SELECT 1 FROM {{1}})"
    with connection.cursor() as cursor:
        cursor.execute(" UNION ALL ".join(query.format(*each) for each in quoted))
        return dict(cursor.fetchall())


def _rows(model: Any) -> Any:
    """What tells whether a row was added or removed."""
    return model._default_manager.aggregate(Count("pk"), Max("pk"))


def _first_app() -> AppConfig:
    return next(app for app in apps.get_app_configs() if app.models_module)


def _make_none_again() -> None:
    post_migrate.disconnect(create_contenttypes)
    post_migrate.disconnect(dispatch_uid="django.contrib.auth.management.create_permissions")
