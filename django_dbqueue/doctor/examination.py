"""Every check in turn; if one can't see something, or fails, that is a finding like any other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial

from django.db import Error, connections, router
from django.utils.connection import ConnectionDoesNotExist
from django.utils.translation import gettext as _

from django_dbqueue import conf
from django_dbqueue.checks import check_project
from django_dbqueue.checks.database import check_autocommit
from django_dbqueue.consumers import registry
from django_dbqueue.databases import means, server_of
from django_dbqueue.doctor import schedule_checks
from django_dbqueue.doctor.check import Check, judged
from django_dbqueue.doctor.checklist import CHECKS
from django_dbqueue.doctor.examined_database import ExaminedDatabase, first_line
from django_dbqueue.doctor.finding import PROBLEM, Finding, fine, note, problem, warning
from django_dbqueue.exceptions import UnsupportedDatabase
from django_dbqueue.models import Message
from django_dbqueue.sessions.advice import advice

FIRST = ("settings", "consumers", "connection")
"""Examined before the checks; if one of these fails, the rest can't be asked."""
TABLES = "migrations"
"""The check after whose failure nothing that needs tables is examined."""


def examine(alias: str | None = None, *, sets_back: bool = False) -> Iterator[Finding]:
    """Examine a database (None: where the queue lives, or will live); yield findings as they are made.

    ``sets_back``: let schedules that are ahead of the server's clock continue from now, before they are checked.
    """
    steps: tuple[Callable[[], Iterable[Finding]], ...] = (_settings, _consumers, partial(_connection, alias))
    is_ill = False
    for name, step in zip(FIRST, steps, strict=True):
        for finding in step():
            is_ill = is_ill or finding.is_at_least(PROBLEM)
            yield replace(finding, check=name)
        if is_ill:
            return
    connection = connections[alias or _home()]
    database = None
    try:
        database = ExaminedDatabase.at(connection)
        yield from _examine(database, sets_back=sets_back)
    except Error as error:
        yield replace((_lost if database else _unreported)(connection.alias, error), check="connection")


def _home() -> str:
    return conf.get("DATABASE") or router.db_for_write(Message)


def _examine(database: ExaminedDatabase, *, sets_back: bool) -> Iterator[Finding]:
    has_tables = True
    for check in CHECKS:
        if not check.on(database.server) or (check.needs_tables and not has_tables):
            continue
        if sets_back and check is schedule_checks.schedules:
            yield from (replace(finding, check=check.name) for finding in schedule_checks.set_back(database.alias))
        for finding in _run(check, database):
            if check.name == TABLES and finding.is_at_least(PROBLEM):
                has_tables = False
            yield replace(finding, check=check.name)


def _run(check: Check, database: ExaminedDatabase) -> list[Finding]:
    """Run a check to its end, so that nothing is reported inside its transaction."""
    session = database.connection.connection
    try:
        with database.examining():
            return list(check.examine(database))
    except Error as error:
        if database.connection.connection is not session or not database.connection.is_usable():
            raise  # Django drops a connection that can't be rolled back, and would open another unasked
        return [_unseen(check, database, error)]


def _unseen(check: Check, database: ExaminedDatabase, error: Error) -> Finding:
    account = database.account
    grant = check.grant(database.server) % {"account": account}
    what = {"error": first_line(error), "grant": grant}
    if means(error, "denied") or means(error, "shut out"):
        return note(
            _("The account %(account)s may not see this: %(error)s") % {"account": account, **what},
            _("To check this: %(grant)s") % what if grant else _("Run the doctor with an account that may see it."),
        )
    if means(error, "waited"):
        return warning(
            _("This check gave up waiting for a lock that another session holds: %(error)s") % what,
            _("Find the session that holds it: a running ALTER TABLE or LOCK TABLES blocks the queue as well."),
        )
    return warning(
        _("This could not be checked: %(error)s") % what,
        _("See the server's log, and check that the queue supports this server."),
    )


def _settings() -> Iterable[Finding]:
    return judged(check_project(), otherwise=_("The settings in DBQUEUE are valid."))


def _consumers() -> Iterable[Finding]:
    try:
        registry.autodiscover()
        found = sorted(registry.registered())
    except Exception as error:  # a module of the project may raise anything when it is imported
        yield problem(
            _("The consumers can't be loaded: %(kind)s: %(error)s")
            % {"kind": type(error).__name__, "error": first_line(error)},
            _("Fix that: no worker can start."),
        )
        return
    if not found:
        yield note(
            _("No consumer is registered in this project."),
            _("If workers should run here, write a function with @consumer in queue_consumers.py of an installed app."),
        )
        return
    yield fine(_("Consumers are registered for: %(queues)s.") % {"queues": ", ".join(found)})


def _connection(chosen: str | None) -> Iterable[Finding]:
    alias = chosen or _home()
    try:
        connection = connections[alias]
        server_of(connection)
        connection.ensure_connection()
        version = ".".join(map(str, connection.get_database_version()))
    except ConnectionDoesNotExist:
        yield problem(
            _("A database router sends the queue to %r, which is not in DATABASES.") % alias,
            _("Correct db_for_write in DATABASE_ROUTERS, or name a database in DBQUEUE['DATABASE']."),
        )
        return
    except UnsupportedDatabase as error:
        yield problem(str(error), _("In DBQUEUE['DATABASE'], name a database that the queue supports."))
        return
    except Error as error:
        yield problem(
            _("The database %(alias)r doesn't answer: %(error)s") % {"alias": alias, "error": first_line(error)},
            advice(connections[alias], error),
        )
        return
    answers = _("%(server)s %(version)s answers.") % {"server": connection.display_name, "version": version}
    yield from judged(check_autocommit(connection), otherwise=answers)


def _unreported(alias: str, error: Error) -> Finding:
    return problem(
        _("The database %(alias)r answers, but doesn't report its version or settings: %(error)s")
        % {"alias": alias, "error": first_line(error)},
        _("If it is locked, find the session that holds the lock. Then run the doctor again."),
    )


def _lost(alias: str, error: Error) -> Finding:
    return problem(
        _("The connection to the database %(alias)r was lost during the check: %(error)s")
        % {"alias": alias, "error": first_line(error)},
        _("See the server's log for what ended the session. Then run the doctor again."),
    )
