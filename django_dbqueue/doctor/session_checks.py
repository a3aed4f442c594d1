"""The connection: what its session does with values and transactions, how long it lives, and what is in between."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from django.utils.translation import gettext as _

from django_dbqueue import conf
from django_dbqueue.checks import mysql_checks, sqlite_checks
from django_dbqueue.checks.answers import check_isolation
from django_dbqueue.checks.postgresql_checks import isolation_of
from django_dbqueue.databases import NetworkServer
from django_dbqueue.doctor.check import MYSQL, POSTGRESQL, SERVERS, SQLITE, examines, judged
from django_dbqueue.doctor.examined_database import Patient, leases
from django_dbqueue.doctor.finding import Finding, fine, note, warning
from django_dbqueue.liveness.guardian import blind_to_sessions, blind_to_workers
from django_dbqueue.liveness.presence import told_by_driver
from django_dbqueue.sessions.django_session import session_of

SHORTEST_TIMEOUT: Final = 20
"""Seconds that SQLite should wait for another writer."""
SHORTEST_STATEMENT: Final = 30_000
"""Milliseconds that PostgreSQL should let a statement run."""


@examines("sql-mode", on=MYSQL)
def sql_mode(patient: Patient) -> Iterable[Finding]:
    """Check whether values that don't fit are refused."""
    return judged(
        mysql_checks.check_strict(patient.alias, patient.said),
        otherwise=_("Sessions are strict: values that don't fit are refused, not truncated."),
    )


@examines("isolation", on=SERVERS)
def isolation(patient: Patient) -> Iterable[Finding]:
    """Check how the project's transactions are isolated; the queue's own are READ COMMITTED in any case."""
    if patient.vendor == POSTGRESQL:
        level = isolation_of(patient.connection, patient.said)
    else:
        level = mysql_checks.isolation_of(patient.said)
    return judged(check_isolation(patient.alias, level), otherwise=_("Transactions are READ COMMITTED."))


@examines("transaction-mode", on=SQLITE)
def transaction_mode(patient: Patient) -> Iterable[Finding]:
    """Check whether transactions take the write lock as they begin, and how long they wait for it."""
    yield from judged(
        sqlite_checks.check_transaction_mode(patient.connection),
        otherwise=_("Transactions take the write lock as they begin."),
    )
    timeout = float(patient.options.get("timeout", 5))
    if timeout < SHORTEST_TIMEOUT:
        yield note(
            _("A writer waits %(seconds)g seconds for another, then fails with 'database is locked'.")
            % {"seconds": timeout},
            _("Set 'timeout': %s in OPTIONS.") % SHORTEST_TIMEOUT,
        )


@examines("read-timeout", on=MYSQL)
def read_timeout_on_mysql(patient: Patient) -> Iterable[Finding]:
    """Check whether the client notices that a server is gone, and doesn't mistake a lock wait for that."""
    yield from judged(
        mysql_checks.check_timeouts(patient.connection),
        otherwise=_("The client waits %s seconds for an answer (read_timeout).") % patient.options.get("read_timeout"),
    )
    timeout, wait = patient.options.get("read_timeout"), patient.number("innodb_lock_wait_timeout")
    if timeout and wait is not None and timeout <= wait:
        yield warning(
            _(
                "read_timeout (%(timeout)s s) is not longer than innodb_lock_wait_timeout (%(wait)s s): a session "
                "that waits for a row lock loses its connection, and never learns the outcome, before the server "
                "ends the wait."
            )
            % {"timeout": timeout, "wait": wait},
            _("Set read_timeout in OPTIONS to more than innodb_lock_wait_timeout."),
        )


@examines("read-timeout", on=POSTGRESQL)
def read_timeout_on_postgresql(patient: Patient) -> Iterable[Finding]:
    """Check the same; PostgreSQL's client has no such timeout, but the operating system has."""
    if not patient.options.get("tcp_user_timeout"):
        yield note(
            _(
                "OPTIONS has no tcp_user_timeout: if the server vanishes without closing the connection, only the "
                "operating system's keepalive notices, by default after two hours."
            ),
            _("Set 'tcp_user_timeout': 60_000 in OPTIONS, in milliseconds."),
        )
    else:
        yield fine(
            _("The client gives up on an unresponsive server after %s ms (tcp_user_timeout).")
            % patient.options["tcp_user_timeout"]
        )
    limit = patient.number("statement_timeout")
    if limit and limit < SHORTEST_STATEMENT:
        yield warning(
            _("statement_timeout cancels statements after %s ms: maintenance of a large queue may never finish.")
            % limit,
            _("Set a longer one for the workers' account: ALTER ROLE %s SET statement_timeout = '60s'.")
            % patient.account,
        )


@examines("idle-timeout", on=SERVERS)
def idle_timeout(patient: Patient) -> Iterable[Finding]:
    """Check whether the server ends sessions that the holder of a long lease may still need."""
    name, unit = ("wait_timeout", 1) if patient.vendor == MYSQL else ("idle_session_timeout", 1000)
    limit = patient.number(name)
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


@examines("lock-wait", on=MYSQL)
def lock_wait(patient: Patient) -> Iterable[Finding]:
    """Check whether a lease outlives one statement's wait for a row."""
    wait = patient.number("innodb_lock_wait_timeout")
    if wait is None:
        return
    short = sorted(name for name, lease in leases().items() if lease < wait)
    if not short:
        yield fine(_("A statement waits up to %s s for a row lock, and every lease is longer.") % wait)
        return
    yield warning(
        _(
            "A statement may wait %(wait)s s for a row lock (innodb_lock_wait_timeout), longer than these leases: "
            "%(names)s."
        )
        % {"wait": wait, "names": ", ".join(short)},
        _(
            "Put \"SET SESSION innodb_lock_wait_timeout = 5\" into 'init_command' of the workers' OPTIONS, or use "
            "longer leases."
        ),
    )


@examines("characters", on=MYSQL)
def characters(patient: Patient) -> Iterable[Finding]:
    """Check whether the session supports every character; another check covers the tables."""
    return judged(
        mysql_checks.check_characters(patient.alias, patient.said),
        otherwise=_("Sessions use the character set %s.") % patient.said.get("character_set_client"),
    )


@examines("pooler", on=SERVERS)
def pooler(patient: Patient) -> Iterable[Finding]:
    """Check whether this session is the one that the server greeted: a pooler sends its own greeting."""
    first, second = (patient.ask(_of_server(patient).sessions.me())[0] for _time in range(2))
    greeted = told_by_driver(patient.connection)
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
            + (notify if patient.vendor == POSTGRESQL else ""),
        )
    else:
        yield fine(
            _(
                "There is no connection pooler in front of the server: the session that was opened is the one that "
                "answers."
            )
        )
    if patient.options.get("pool"):
        yield note(_("OPTIONS has 'pool': workers and queue_rescue connect without it."))


@examines("sight", on=SQLITE)
def no_sight(patient: Patient) -> Iterable[Finding]:  # noqa: ARG001
    """Report that there are no sessions to see."""
    yield note(_("SQLite has no sessions: the messages of a dead worker come back when their leases expire."))


@examines("sight", on=SERVERS, needs_tables=True)
def sight(patient: Patient) -> Iterator[Finding]:
    """Check whether a guardian on this connection could tell the dead from the living."""
    server = _of_server(patient)
    hidden, unjudged = (
        blind_to_sessions(session_of(patient.alias), server),
        blind_to_workers(session_of(patient.alias), server),
    )
    for spot in hidden:
        yield _hidden(spot, patient, conf.get("SESSION_LOCKS"))
    for spot in unjudged:
        yield warning(spot, _("See docs/databases.md, *Who is dead*."))
    if not hidden and not unjudged:
        yield fine(_("Whether a worker is alive can be seen from here."))


def _of_server(patient: Patient) -> NetworkServer:
    assert isinstance(patient.server, NetworkServer)  # this check runs on SERVERS
    return patient.server


def _hidden(spot: str, patient: Patient, locks: object) -> Finding:
    grant = "GRANT PROCESS ON *.* TO %s" % patient.account  # noqa: UP031 - as in the other grants
    if locks:
        return note(
            _("%s This is needed only where workers can't take named locks (GET_LOCK), which show that they are alive.")
            % spot,
            grant,
        )
    return warning(spot, grant)
