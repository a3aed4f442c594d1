"""The queue's tables: whether all exist, stored so that a commit counts, compared exactly, and indexed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from django.apps import apps
from django.db import models
from django.utils.translation import gettext as _

from django_dbqueue.checks.text_columns import WHOLE, listed, mended, spoiled
from django_dbqueue.checks.unapplied import unapplied_migrations
from django_dbqueue.doctor.check import answering, examines, judges
from django_dbqueue.doctor.examined_database import APP, ExaminedDatabase
from django_dbqueue.doctor.finding import Finding, fine, problem, warning

COMPARED: Final = ("queue", "key", "key_hash", "status", "body", "content_type", "name", "stream")
"""Columns that must be compared exactly, or hold what was sent."""
transactions = judges("storage", needs_tables=True)


@examines("migrations", grant=lambda _: "GRANT SELECT ON django_migrations TO %(account)s")
def migrations(database: ExaminedDatabase) -> Iterable[Finding]:
    """Check whether the tables are those that this version of the package needs."""
    if missing := unapplied_migrations(database.connection, strict=True):
        yield problem(
            _("Migrations are not applied: %s. Checks that need the tables were skipped.") % ", ".join(missing.names),
            missing.cure(database.alias),
        )
    else:
        yield fine(_("All migrations are applied."))


@examines("storage", on=answering("storage"), needs_tables=True)
def logged(database: ExaminedDatabase) -> Iterable[Finding]:
    """Check whether rows survive a crash, and dead ones are vacuumed."""
    found = database.answer("storage", database.tables)
    unlogged = sorted(name for name, persistence, _options in found if persistence == "u")
    unswept = sorted(name for name, _persistence, options in found if "autovacuum_enabled=false" in options)
    for name in unlogged:
        yield problem(
            _("The table %s is UNLOGGED: a crash of the server empties it.") % name, f"ALTER TABLE {name} SET LOGGED"
        )
    for name in unswept:
        yield warning(
            _("Autovacuum is switched off for the table %s: dead rows pile up, and claims have to read past them.")
            % name,
            f"ALTER TABLE {name} RESET (autovacuum_enabled)",
        )
    if database.answers.get("autovacuum") == "off":
        yield warning(
            _("Autovacuum is switched off: dead rows pile up, and claims have to read past them."),
            "ALTER SYSTEM SET autovacuum = on; SELECT pg_reload_conf()",
        )
    if not unlogged:
        yield fine(_("All tables are logged: a crash empties none of them."))


@examines("collations", on=answering("collations"), needs_tables=True)
def collations(database: ExaminedDatabase) -> Iterator[Finding]:
    """Check whether text is compared exactly, and can hold every character; somebody may have converted the tables."""
    found = spoiled(database.connection)
    poor = [column for column in found if column.characters not in WHOLE]
    loose = [column for column in found if column.name in COMPARED and not column.collation.endswith("_bin")]
    if poor:
        yield problem(
            _("These columns can't hold every character (such as emoji), so what has others is refused: %s.")
            % listed(poor),
            mended(poor, database.connection),
        )
    if loose:
        yield problem(
            _("These columns are not compared exactly, so different keys or queues count as the same: %s.")
            % listed(loose),
            mended(loose, database.connection),
        )
    if not poor and not loose:
        yield fine(_("Names, keys and bodies are compared exactly, and hold every character."))


@examines("indexes", needs_tables=True)
def indexes(database: ExaminedDatabase) -> Iterable[Finding]:
    """Check whether all indexes and unique constraints of the models exist, and may be used."""
    ill = False
    for model in apps.get_app_config(APP).get_models():
        for name, columns, unique in _wanted(model):
            if not _has(database, model._meta.db_table, columns, unique=unique):
                ill = True
                yield problem(
                    _("The table %(table)s lacks the index %(name)s on (%(columns)s).")
                    % {"table": model._meta.db_table, "name": name, "columns": ", ".join(columns)},
                    _("Create it again: CREATE %(unique)sINDEX %(name)s ON %(table)s (%(columns)s)")
                    % {
                        "unique": "UNIQUE " if unique else "",
                        "name": name,
                        "table": model._meta.db_table,
                        "columns": ", ".join(columns),
                    },
                )
    has_unused = "unused indexes" in database.server.facts.questions
    for table, name in database.answer("unused indexes", database.tables) if has_unused else ():
        ill = True
        yield problem(
            _("The index %(name)s of the table %(table)s exists, but the server may not use it.")
            % {"name": name, "table": table},
            database.server.facts.questions["use index"](database.connection, table, name).sql,
        )
    if not ill:
        yield fine(_("Every table has its indexes."))


def _wanted(model: type[models.Model]) -> Iterator[tuple[str, tuple[str, ...], bool]]:
    """Yield name, columns and uniqueness of each index except the primary key."""
    meta: Any = model._meta
    for index in meta.indexes:
        yield index.name, tuple(str(meta.get_field(name).column) for name in index.fields), False
    for constraint in meta.constraints:
        if isinstance(constraint, models.UniqueConstraint):
            yield constraint.name, tuple(str(meta.get_field(name).column) for name in constraint.fields), True
    for field in meta.local_concrete_fields:
        if field.db_index and not field.unique:
            yield f"{meta.db_table}_{field.column}", (str(field.column),), False


def _has(database: ExaminedDatabase, table: str, columns: tuple[str, ...], *, unique: bool) -> bool:
    with database.connection.cursor() as cursor:
        there = database.connection.introspection.get_constraints(cursor, table)
    return any(
        (each["index"] or each["unique"]) and tuple(each["columns"]) == columns and (each["unique"] or not unique)
        for each in there.values()
    )
