"""Which migrations of the queue a database lacks."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from typing import Final

from django.db import Error
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations import Migration
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

APP: Final = "django_dbqueue"


def unapplied_migrations(connection: BaseDatabaseWrapper, *, strict: bool = False) -> list[str]:
    """Return the names of the queue's migrations that are not applied, in order.

    Empty where nobody can tell: the project has no migrations for it, this account may not read what was applied, or
    none of them is recorded, since somebody has made the tables in another way. ``strict``: raise the database's error
    then, and name all of them.
    """
    # no graph: it would import the migrations of the whole project into every worker
    place, _is_explicit = MigrationLoader.migrations_module(APP)
    if place is None:
        return []
    recorder, applied = MigrationRecorder(connection), set[str]()
    try:
        if not strict or recorder.has_table():
            applied = set(recorder.migration_qs.filter(app=APP).values_list("name", flat=True))
    except Error:
        if strict:
            raise
    names = (each.name for each in iter_modules(import_module(place).__path__) if each.name[0] not in "_~")
    missing = sorted(name for name in names if name not in applied) if applied or strict else []
    return [name for name in missing if not _is_replaced(import_module(f"{place}.{name}").Migration, applied)]


def _is_replaced(migration: type[Migration], applied: set[str]) -> bool:
    """Check whether all that a squashed migration replaces was applied, so that ``migrate`` will only note its name."""
    return bool(migration.replaces) and all(name in applied for _app, name in migration.replaces)
