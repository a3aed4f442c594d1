"""The connection: what its session does with values and transactions, how long it lives, and what is in between."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from django.utils.translation import gettext as _

from django_dbqueue import conf
from django_dbqueue.databases.sessions_sql import SessionsSQL
from django_dbqueue.doctor.check import a_file, a_server, examines, judges
from django_dbqueue.doctor.examined_database import ExaminedDatabase, leases
from django_dbqueue.doctor.finding import Finding, fine, note, warning
from django_dbqueue.liveness.dead_workers import blind_to_sessions, blind_to_workers
from django_dbqueue.liveness.presence import driver_session_id
from django_dbqueue.sessions.django_session import session_of

sql_mode = judges("sql-mode")
isolation = judges("isolation")
transaction_mode = judges("transaction-mode")
read_timeout = judges("read-timeout")


@examines("idle-timeout", on=lambda server: server.facts.idle is not None)
def idle_timeout(database: ExaminedDatabase) -> Iterable[Finding]:
    """Check whether the server ends sessions that the holder of a long lease may still need."""
    assert database.server.facts.idle is not None
    name, unit = database.server.facts.idle
    limit = database.number(name)
    longest = max(leases().values())
    if limit and limit / unit < longest:
        yield warning(
            _(
                "The server ends sessions that are idle for %(limit)g s (%(name)s), and leases last up to %(lease)g "
                "s: a handler that uses its connection again may find it closed."
            )
            % {"limit": limit / unit, "name": name, "lease": longest},
            _("Set %(name)s above %(lease)g seconds, or use shorter leases; workers extend them automatically.")
            % {"name": name, "lease": longest},
        )
        return
    lasts = _("%g seconds") % (limit / unit) if limit else _("for ever")
    yield fine(
        _("An idle session lives %(lasts)s (%(name)s), longer than the longest lease.") % {"lasts": lasts, "name": name}
    )


@examines("lock-wait", on=lambda server: server.facts.lock_wait != "")
def lock_wait(database: ExaminedDatabase) -> Iterable[Finding]:
    """Check whether a lease outlives one statement's wait for a row."""
    wait = database.number(database.server.facts.lock_wait)
    if wait is None:
        return
    shorter = sorted(name for name, lease in leases().items() if lease < wait)
    if not shorter:
        yield fine(_("A statement waits up to %s s for a row lock, and every lease is longer.") % wait)
        return
    yield warning(
        _(
            "A statement may wait %(wait)s s for a row lock (innodb_lock_wait_timeout), longer than these leases: "
            "%(names)s."
        )
        % {"wait": wait, "names": ", ".join(shorter)},
        _(
            "Put \"SET SESSION innodb_lock_wait_timeout = 5\" into 'init_command' of the workers' OPTIONS, or use "
            "longer leases."
        ),
    )


@examines("pooler", on=a_server)
def pooler(database: ExaminedDatabase) -> Iterable[Finding]:
    """Check whether this session is the one that the server greeted: a pooler sends its own greeting."""
    first, second = (database.ask(_sessions(database).me())[0] for _time in range(2))
    greeted = driver_session_id(database.connection)
    works = int(first[0])
    signs = []
    if greeted is not None and greeted != works % 2**32:
        signs.append(
            _("the connection was opened as session %(greeted)s but works as session %(works)s")
            % {"greeted": greeted, "works": works}
        )
    if first != second:
        signs.append(_("two statements ran in two different sessions"))
    if signs:
        notify = _(" Set DBQUEUE['NOTIFY'] = False where it shares sessions between transactions.")
        yield warning(
            _(
                "There is a connection pooler in front of the server (%s). It hides whether a worker is alive, so "
                "the messages of a dead worker wait until their leases expire."
            )
            % "; ".join(signs),
            _("Connect the workers to the server directly; everything else may use the pooler.")
            + (notify if database.server.notifies else ""),
        )
    else:
        yield fine(
            _(
                "There is no connection pooler in front of the server: the session that was opened is the one that "
                "answers."
            )
        )
    if database.options.get("pool"):
        yield note(_("OPTIONS has 'pool': workers and queue_rescue connect without it."))


@examines("sight", on=a_file)
def no_sight(database: ExaminedDatabase) -> Iterable[Finding]:  # noqa: ARG001
    """Report that there are no sessions to see."""
    yield note(_("SQLite has no sessions: the messages of a dead worker come back when their leases expire."))


@examines("sight", on=a_server, needs_tables=True)
def sight(database: ExaminedDatabase) -> Iterator[Finding]:
    """Check whether a guardian on this connection could tell the dead from the living."""
    sessions = _sessions(database)
    hidden, unjudged = (
        blind_to_sessions(session_of(database.alias), sessions),
        blind_to_workers(session_of(database.alias), sessions),
    )
    for spot in hidden:
        yield _hidden(spot, database, conf.get("SESSION_LOCKS"))
    for spot in unjudged:
        yield warning(spot, _("See docs/databases.md, *Who is dead*."))
    if not hidden and not unjudged:
        yield fine(_("Whether a worker is alive can be seen from here."))


def _sessions(database: ExaminedDatabase) -> SessionsSQL:
    sessions = database.server.sessions
    assert sessions is not None  # this check runs on servers
    return sessions


def _hidden(spot: str, database: ExaminedDatabase, locks: object) -> Finding:
    grant = "GRANT PROCESS ON *.* TO %s" % database.account  # noqa: UP031 - as in the other grants
    if locks:
        return note(
            _("%s This is needed only where workers can't take named locks (GET_LOCK), which show that they are alive.")
            % spot,
            grant,
        )
    return warning(spot, grant)
