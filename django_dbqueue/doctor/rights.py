"""What the account may do with the tables that workers write: who lacks one right can claim, and never ack."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from django.apps import apps
from django.db import Error, models
from django.utils.translation import gettext as _

from django_dbqueue.databases import means
from django_dbqueue.databases.own_tables import Tables
from django_dbqueue.doctor.check import answering, examines
from django_dbqueue.doctor.examined_database import ExaminedDatabase
from django_dbqueue.doctor.finding import Finding, fine, problem

VERBS: Final = ("SELECT", "INSERT", "UPDATE", "DELETE")
READ: Final = (Tables.batch, Tables.reader)
"""Tables that workers only read: before they purge."""
OF_SPARK: Final = (Tables.published, Tables.replica_beat, Tables.staged, Tables.stream_progress)
"""Tables that only Spark reads and writes."""

Lacks = Mapping[str, Iterable[str]]
"""Privileges that are missing, by table."""


def needed() -> dict[str, tuple[str, ...]]:
    """Return the privileges that a worker needs, by table."""
    names = [model._meta.db_table for model in _models()]
    return {name: VERBS[:1] if name in READ else VERBS for name in names if name not in OF_SPARK}


@examines("rights", on=answering("try rights"), needs_tables=True)
def tried(database: ExaminedDatabase) -> Iterable[Finding]:
    """Try on every table what a worker does there."""
    wanted, lacks = needed(), dict[str, list[str]]()
    for model in _models():
        table = model._meta.db_table
        lacking = [verb for verb in wanted.get(table, ()) if not _may(database, verb, model)]
        if lacking:
            lacks[table] = lacking
    grants = [f"GRANT {verbs} ON {table} TO" for verbs, tables in _by_verbs(lacks) for table in tables]
    return _judged(lacks, grants, database)


@examines("rights", on=answering("rights denied", "counters denied"), needs_tables=True)
def queried(database: ExaminedDatabase) -> Iterable[Finding]:
    """Check the same; and, where a table draws its ids from a sequence of its own, whether it may draw."""
    lacks: dict[str, list[str]] = {}
    for table, verb in database.answer("rights denied", needed()):
        lacks.setdefault(table, []).append(verb)
    grants = [f"GRANT {verbs} ON {', '.join(tables)} TO" for verbs, tables in _by_verbs(lacks)]
    for (counter,) in database.answer("counters denied", list(needed())):
        lacks[counter] = ["USAGE"]
        grants.append(f"GRANT USAGE ON SEQUENCE {counter} TO")
    return _judged(lacks, grants, database)


def _judged(lacks: Lacks, grants: list[str], database: ExaminedDatabase) -> Iterator[Finding]:
    if not lacks:
        yield fine(_("The account %s has the privileges that workers need, for all tables.") % database.account)
        return
    yield problem(
        _("The account %(account)s lacks privileges that workers need: %(lacks)s.")
        % {
            "account": database.account,
            "lacks": "; ".join(f"{verbs}: {', '.join(tables)}" for verbs, tables in _by_verbs(lacks)),
        },
        "; ".join(f"{grant} {database.account}" for grant in grants),
    )


def _by_verbs(lacks: Lacks) -> list[tuple[str, list[str]]]:
    """Return the privileges as GRANT lists them, each list with its tables."""
    found: dict[str, list[str]] = {}
    for table, verbs in lacks.items():
        found.setdefault(", ".join(verbs), []).append(table)
    return list(found.items())


def _may(database: ExaminedDatabase, verb: str, model: type[models.Model]) -> bool:
    key: Any = model._meta.pk_fields[0]  # the whole of it, or its first part: sql_safe_updates asks for an index
    quote = database.connection.ops.quote_name
    nothing = "''" if isinstance(key, models.CharField) else "0"
    try:
        database.answer("try rights", verb, quote(model._meta.db_table), quote(key.column), nothing)
    except Error as error:
        if not (means(error, "denied") or means(error, "shut out")):
            raise
        return False
    return True


def _models() -> list[type[models.Model]]:
    return list(apps.get_app_config("django_dbqueue").get_models())
