"""Which migrations of the queue a database lacks."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from typing import Final, NamedTuple

from django.db import Error
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations import Migration
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

APP: Final = "django_dbqueue"


class Unapplied(NamedTuple):
    """Migrations that a database lacks, and the last of those that a checkout had in their place, if it has some."""

    names: list[str]
    needs_first: str | None = None

    def cure(self, alias: str) -> str:
        """Return the command that applies them."""
        if self.needs_first is None:
            return f"manage.py migrate --database {alias}"
        return f"manage.py migrate {APP} {self.needs_first} --database {alias}  # with the version that made them"


def unapplied_migrations(connection: BaseDatabaseWrapper, *, strict: bool = False) -> Unapplied | None:
    """Return which of the queue's migrations are not applied, in order; None if all are.

    None also where nobody can tell: the project has no migrations for it, this account may not read what was applied,
    or none of them is recorded, since somebody has made the tables in another way. ``strict``: raise the database's
    error then, and name all of them.
    """
    # no graph: it would import the migrations of the whole project into every worker
    place, _is_explicit = MigrationLoader.migrations_module(APP)
    if place is None:
        return None
    recorder, applied = MigrationRecorder(connection), set[str]()
    try:
        if not strict or recorder.has_table():
            applied = set(recorder.migration_qs.filter(app=APP).values_list("name", flat=True))
    except Error:
        if strict:
            raise
    if not applied and not strict:
        return None
    modules = iter_modules(import_module(place).__path__)
    missing = sorted({each.name for each in modules if not each.ispkg and each.name[0] not in "_~"} - applied)
    replaced = {name: _replaced_by(import_module(f"{place}.{name}").Migration) for name in missing}
    names = [name for name in missing if not replaced[name] or not applied.issuperset(replaced[name])]
    begun = [max(replaced[name]) for name in names if not applied.isdisjoint(replaced[name])]
    return Unapplied(names, begun[0] if begun else None) if names else None


def _replaced_by(migration: type[Migration]) -> list[str]:
    """Return what a squashed migration replaces: where all is applied, ``migrate`` will only note the new name."""
    return [name for _app, name in migration.replaces]
