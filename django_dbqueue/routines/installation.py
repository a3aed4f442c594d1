"""Install, uninstall and print the stored routines.

MySQL and MariaDB commit each CREATE separately, so an installation that fails there drops what it has just created;
PostgreSQL's is one transaction. What is unchanged is left alone, and what isn't ours is never touched.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

from django.core.management.base import CommandError
from django.db import Error, transaction
from django.utils.translation import gettext as _

from django_dbqueue import conf
from django_dbqueue.databases.statement import SPENT_BEFORE, Row
from django_dbqueue.lifecycle.rescue import LEASE_EXPIRED
from django_dbqueue.models import Queue
from django_dbqueue.routines import installer_sql
from django_dbqueue.routines.existing_routines import InstalledRoutine, installed, refuse_foreign, schema_of
from django_dbqueue.routines.failed_installation import explained, half_replaced
from django_dbqueue.routines.rendering import NAMES, Routine, routines
from django_dbqueue.routines.routine_moves import Words
from django_dbqueue.sessions.django_session import DjangoSession

PATIENCE = 60
"""Seconds to wait for another installation into the same database."""
Value = TypeVar("Value")


class Installed(NamedTuple):
    """What an installation created, what was there unchanged, and what it dropped of an older version of ours."""

    made: list[Routine]
    unchanged: list[Routine]
    dropped: list[InstalledRoutine]


def install(session: DjangoSession) -> Installed:
    """Create what is missing or differs, and drop what an older version left."""
    with _alone(session):
        wanted = {(routine.kind, routine.signature): routine for routine in wanted_routines(session)}
        found = {(one.kind, one.signature): one for one in installed(session.using)}
        refuse_foreign(session.using, list(found.values()))
        unchanged = _unchanged(wanted, found)
        missing = [routine for routine in wanted.values() if routine not in unchanged]
        old = [one for key, one in found.items() if key not in wanted]
        try:
            if missing:
                _make(session, missing, [wanted[key] for key in wanted if key not in found])
            _drop(session, old)
            refuse_foreign(session.using, installed(session.using))  # which somebody created meanwhile
        except Error as error:
            raise CommandError(explained(session, error)) from error
    return Installed(missing, unchanged, old)


def _unchanged(wanted: dict[tuple[str, str], Routine], found: dict[tuple[str, str], InstalledRoutine]) -> list[Routine]:
    """Return what is as it should be; another account's counts only if ours would call none of it."""
    as_wanted = [key for key, one in wanted.items() if key in found and found[key].comment == one.comment]
    if len({found[key].owner for key in as_wanted if wanted[key].kind != "VIEW"}) > 1 or len(as_wanted) < len(wanted):
        as_wanted = [key for key in as_wanted if found[key].is_trusted]
    return [wanted[key] for key in as_wanted]


def compare(session: DjangoSession) -> tuple[int, list[str]]:
    """Return how many of our routines are there, and the names of those that ``install`` would create, replace or drop.

    Views are left out: not every account sees what is in them.
    """
    found = {(one.kind, one.signature): one for one in installed(session.using) if one.is_ours and one.kind != "VIEW"}
    if not found:
        return 0, []
    wanted = {(one.kind, one.signature): one for one in wanted_routines(session) if one.kind != "VIEW"}
    same = {key for key in found.keys() & wanted.keys() if found[key].comment == wanted[key].comment}
    old = {one.name for key, one in found.items() if key not in same}
    return len(found), sorted(old | {one.name for key, one in wanted.items() if key not in same})


def uninstall(session: DjangoSession) -> list[InstalledRoutine]:
    """Drop ours, and nothing else; return what was dropped."""
    with _alone(session):
        ours = [one for one in installed(session.using) if one.is_ours]
        ours.sort(key=lambda one: NAMES.index(one.name) if one.name in NAMES else -1, reverse=True)
        try:
            _drop(session, ours)
        except Error as error:
            raise CommandError(explained(session, error)) from error
    return ours


def _drop(session: DjangoSession, ours: list[InstalledRoutine]) -> None:
    for one in ours:
        session.run(installer_sql.drop(one.kind, one.signature))


def script(session: DjangoSession) -> Iterator[str]:
    """Return what ``install`` runs, for the mysql client or psql."""
    refuse_sqlite(session)
    made = wanted_routines(session)
    if session.server.has_schemas:
        yield f"BEGIN;\nSET LOCAL search_path = {installer_sql.SAFE_PATH};\n"
        for routine in made:
            yield from (f"{text};\n" for text in routine.statements)
        yield "COMMIT;"
        return
    yield f"SET SESSION sql_mode = '{installer_sql.STRICT_MODE}';\nDELIMITER //"
    for routine in made:
        yield from (f"{text}//\n" for text in routine.statements)
    yield "DELIMITER ;"


def wanted_routines(session: DjangoSession) -> list[Routine]:
    """Return the routines for this server and these settings."""
    connection = session.connection
    server = session.server
    if server.message not in connection.introspection.table_names():
        raise CommandError(
            _(
                "The queue's table %(table)s is not in the database %(alias)r. Run first:\n"
                "  manage.py migrate --database %(alias)s"
            )
            % {"table": server.message, "alias": session.using}
        )
    return routines(_words(session), _folders(session))


def refuse_sqlite(session: DjangoSession) -> None:
    """Raise CommandError on SQLite, which can't have them."""
    if not session.server.routine_folders:
        raise CommandError(
            _(
                "SQLite has no stored routines: programs in other languages need MySQL, MariaDB or PostgreSQL for "
                "them. Name such a database with --database."
            )
        )


def _folders(session: DjangoSession) -> tuple[str, ...]:
    connection: Any = session.connection
    server = session.server
    if not (server.mariadb_routine_folders and connection.mysql_is_mariadb):
        return server.routine_folders
    try:
        session.fetch(installer_sql.random_bytes())
    except Error:
        return ("mariadb_without_random_bytes", *server.mariadb_routine_folders)
    return server.mariadb_routine_folders


def _words(session: DjangoSession) -> Words:
    options = {name: conf.queue_options(name or "") for name in (None, *sorted(conf.get("QUEUES")))}
    return Words(
        queues=Queue._meta.db_table,
        lease=_that_differ({name: each.lease for name, each in options.items()}),
        max_reads=_that_differ({name: each.max_reads for name, each in options.items()}),
        priority=_that_differ({name: each.priority for name, each in options.items()}),
        removes=_that_differ({name: each.on_ack == conf.DELETE for name, each in options.items()}),
        is_whole=_that_differ({name: each.group is not None for name, each in options.items()}),
        group_limit=_that_differ({name: each.group_limit for name, each in options.items()}),
        group_batch=_that_differ({name: each.group_batch for name, each in options.items()}),
        holds_dead=_that_differ({name: each.on_dead == conf.HOLD for name, each in options.items()}),
        max_bytes=conf.get("MAX_PAYLOAD_BYTES"),
        notify=conf.get("NOTIFY"),
        lease_expired=LEASE_EXPIRED,
        spent_before=SPENT_BEFORE,
        forbidden=conf.get("OPERATIONS_QUEUE"),
        schema=schema_of(session.using) if session.server.has_schemas else "",
    )


def _that_differ(values: dict[str | None, Value]) -> dict[str | None, Value]:
    return {name: value for name, value in values.items() if name is None or value != values[None]}


@contextmanager
def _alone(session: DjangoSession) -> Iterator[None]:
    """Keep others from installing at the same time, and restore the session afterwards."""
    refuse_sqlite(session)
    if session.server.has_schemas:
        with transaction.atomic(using=session.using):
            session.fetch(installer_sql.lock_on_postgresql())
            yield
        return
    if session.connection.in_atomic_block:
        raise CommandError(_("MySQL and MariaDB commit at each CREATE: call this outside atomic()."))
    lock, unlock = installer_sql.lock_on_mysql(PATIENCE)
    if session.fetch(lock) != [(1,)]:
        raise CommandError(
            _(
                "Another installation into %(alias)r still holds the lock after %(seconds)d s. Try again when it has "
                "ended."
            )
            % {"alias": session.using, "seconds": PATIENCE}
        )
    mode = str(session.fetch(installer_sql.sql_mode())[0][0])
    try:
        session.run(installer_sql.set_sql_mode(installer_sql.STRICT_MODE))
        yield
    finally:
        session.run(installer_sql.set_sql_mode(mode))
        session.fetch(unlock)


def _make(session: DjangoSession, missing: list[Routine], new: list[Routine]) -> None:
    if session.server.has_schemas:
        # The view's operators are resolved when it is created
        path = str(session.fetch(installer_sql.path())[0][0])
        session.fetch(installer_sql.set_path(installer_sql.SAFE_PATH))
        for routine in missing:
            _run_all(session, routine)
        session.fetch(installer_sql.set_path(path))
        return
    make_probe, drop_probe = installer_sql.probe(f"dbqueue_probe_{secrets.token_hex(8)}")
    session.run(make_probe)
    session.run(drop_probe)
    made: list[Routine] = []
    try:
        for routine in missing:
            grants = [] if routine in new else _grants(session, routine)
            try:
                _run_all(session, routine)
                for account in grants:
                    session.run(installer_sql.grant_on_mysql(routine, *account))
            except Error as error:
                if routine not in new and not _is_as_it_was(session, routine):
                    raise half_replaced(session, routine, grants, error) from error
                raise
            made.append(routine)
    except Error as error:
        left = [routine.signature for routine in reversed(made) if routine in new and not _dropped(session, routine)]
        if left:
            raise CommandError(
                _(
                    "The database %(alias)r refused: %(error)s\n"
                    "These were created before that, and could not be dropped: %(names)s. Run: manage.py "
                    "queue_routines uninstall --database %(alias)s"
                )
                % {"alias": session.using, "error": error, "names": ", ".join(left)}
            ) from error
        raise


def _is_as_it_was(session: DjangoSession, routine: Routine) -> bool:
    """Return whether the server refused to replace a routine before it had dropped it."""
    try:
        there = {(one.kind, one.signature): one for one in installed(session.using)}
    except Error:
        return False
    before = there.get((routine.kind, routine.signature))
    return before is not None and before.comment != routine.comment


def _dropped(session: DjangoSession, routine: Routine) -> bool:
    try:
        session.run(installer_sql.drop(routine.kind, routine.signature))
    except Error:
        return False
    return True


def _run_all(session: DjangoSession, routine: Routine) -> None:
    with session.connection.cursor() as cursor:
        for text in routine.statements:
            cursor.execute(text)


def _grants(session: DjangoSession, routine: Routine) -> list[Row]:
    """Return who may execute a routine about to be dropped; [] if we may not see that (docs/routines.md)."""
    if len(routine.statements) == 1:
        return []  # CREATE OR REPLACE keeps them
    try:
        return session.fetch(installer_sql.grants_on_mysql(routine))
    except Error:
        return []
