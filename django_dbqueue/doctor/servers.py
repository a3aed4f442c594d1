"""The server: whether a commit is a commit, and whether it takes the queue's statements at all."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from django.utils.translation import gettext as _

from django_dbqueue.checks import mysql_checks, postgresql_checks, sqlite_checks
from django_dbqueue.claims import claims_sql
from django_dbqueue.doctor.check import MYSQL, POSTGRESQL, SERVERS, SQLITE, TO_WORK, examines, judged
from django_dbqueue.doctor.examined_database import NOBODYS, Patient
from django_dbqueue.doctor.finding import Finding, fine, problem
from django_dbqueue.states.counts import grouped
from django_dbqueue.statuses import NEW

_ON = ("ON", "on", "1")


@examines("durability", on=MYSQL)
def durability_on_mysql(patient: Patient) -> Iterable[Finding]:
    """Check whether commits outlive a crash of the machine, and are made at all (promise P1)."""
    said = patient.said
    logs = _("sync_binlog is %s") % said.get("sync_binlog") if said.get("log_bin") in _ON else _("no binary log")
    flush = said.get("innodb_flush_log_at_trx_commit")
    return judged(
        [*mysql_checks.check_durability(patient.alias, said), *mysql_checks.check_autocommit(patient.connection)],
        otherwise=_(
            "A commit is on disk when the server confirms it (innodb_flush_log_at_trx_commit is %(flush)s, %(logs)s)."
        )
        % {"flush": flush, "logs": logs},
    )


@examines("durability", on=POSTGRESQL)
def durability_on_postgresql(patient: Patient) -> Iterable[Finding]:
    """Check the same; ``synchronous_commit`` may be set by the session."""
    fine_words = _(
        "A commit is on disk when the server confirms it (synchronous_commit is %(commit)s, fsync is %(fsync)s)."
    )
    return judged(
        postgresql_checks.check_durability(patient.alias, patient.said),
        otherwise=fine_words % {"commit": patient.said.get("synchronous_commit"), "fsync": patient.said.get("fsync")},
    )


@examines("durability", on=SQLITE)
def durability_on_sqlite(patient: Patient) -> Iterable[Finding]:
    """Check the same; a database in memory ends with its process."""
    if patient.connection.is_in_memory_db():
        yield problem(
            _("The database is in memory: it disappears with its process, and no worker can share it."),
            _("Set NAME in DATABASES[%r] to a file.") % patient.alias,
        )
        return
    yield from judged(
        sqlite_checks.check_durability(patient.alias, patient.said),
        otherwise=_("A commit is on disk when the server confirms it (PRAGMA synchronous is %s).")
        % patient.said.get("synchronous"),
    )


@examines("journal-mode", on=SQLITE)
def journal_mode(patient: Patient) -> Iterable[Finding]:
    """Check whether readers and the writer hold each other up."""
    if patient.connection.is_in_memory_db():
        return ()
    return judged(
        sqlite_checks.check_journal(patient.alias, patient.said),
        otherwise=_("Readers and the writer don't wait for each other (PRAGMA journal_mode is %s).")
        % patient.said.get("journal_mode"),
    )


@examines("writable", on=MYSQL)
def writable_on_mysql(patient: Patient) -> Iterable[Finding]:
    """Check whether this server is the one that is written to."""
    names = (
        "read_only",
        "super_read_only",
        "innodb_read_only",
        "offline_mode",
        "transaction_read_only",
        "tx_read_only",
    )
    return _writable([name for name in names if patient.said.get(name) in (*_ON, "NO_LOCK", "NO_LOCK_NO_ADMIN")])


@examines("writable", on=POSTGRESQL)
def writable_on_postgresql(patient: Patient) -> Iterable[Finding]:
    """Check whether this is the primary, and the session may write."""
    names = ("in_hot_standby", "default_transaction_read_only")
    return _writable([name for name in names if patient.said.get(name) in _ON])


@examines("writable", on=SQLITE)
def writable_on_sqlite(patient: Patient) -> Iterable[Finding]:
    """Check whether this account may write the file, and its directory, where the journal goes; and this session."""
    if patient.connection.is_in_memory_db():
        return ()
    path = Path(patient.connection.settings_dict["NAME"]).absolute()
    by_effective = os.access in os.supports_effective_ids
    closed = [str(it) for it in (path, path.parent) if not os.access(it, os.W_OK, effective_ids=by_effective)]
    return _writable([*closed, *(["PRAGMA query_only"] if patient.said.get("query_only") == "1" else [])])


def _writable(forbids: list[str]) -> Iterator[Finding]:
    if not forbids:
        yield fine(_("The database accepts writes."))
        return
    yield problem(
        _("The database refuses writes (%s): nothing can be enqueued, claimed or acknowledged here.")
        % ", ".join(forbids),
        _("Point HOST and PORT to the primary, or make this server writable. A replica can't hold a queue."),
    )


@examines("skip-locked", on=SERVERS, needs_tables=True, grant=TO_WORK)
def skip_locked(patient: Patient) -> Iterable[Finding]:
    """Check for it by version, and try it: the claim's own lock, on a queue that can have no rows."""
    if patient.vendor == MYSQL and (found := list(mysql_checks.check_skip_locked(patient.connection))):
        yield from judged(found, otherwise="")
        return
    patient.ask(claims_sql.due(patient.server, ("id",), NOBODYS, NEW, 0, 1))
    yield fine(_("The server supports SELECT … FOR UPDATE SKIP LOCKED, and ran one on the message table."))


@examines("skip-locked", on=SQLITE)
def returning(patient: Patient) -> Iterable[Finding]:
    """Check for RETURNING, which the queue needs; with one writer, there is nothing to skip."""
    return judged(
        sqlite_checks.check_returning(patient.connection),
        otherwise=_("SQLite allows one writer at a time, so there is nothing to skip. It supports RETURNING."),
    )


@examines("binary-log", on=MYSQL)
def binary_log(patient: Patient) -> Iterable[Finding]:
    """Check whether replicas get rows, and InnoDB accepts the queue's writes."""
    said = patient.said
    form = said.get("binlog_format", "ROW") if said.get("log_bin") in _ON else _("off")
    return judged(
        mysql_checks.check_binary_log(patient.alias, said), otherwise=_("The format of the binary log is %s.") % form
    )


@examines("cluster", on=MYSQL)
def cluster(patient: Patient) -> Iterable[Finding]:
    """Check whether row locks reach all writers."""
    return judged(
        mysql_checks.check_writers(patient.alias, patient.said),
        otherwise=_("The server is not part of a cluster with several writers (Galera, Group Replication)."),
    )


@examines("packet-size", on=MYSQL)
def packet_size(patient: Patient) -> Iterable[Finding]:
    """Check whether a payload of the largest allowed size gets through."""
    return judged(
        mysql_checks.check_packet(patient.alias, patient.said),
        otherwise=_(
            "Packets of up to %(bytes)s bytes (max_allowed_packet) hold every payload that MAX_PAYLOAD_BYTES allows."
        )
        % {"bytes": grouped(patient.number("max_allowed_packet") or 0)},
    )


@examines("characters", on=POSTGRESQL)
def encoding(patient: Patient) -> Iterable[Finding]:
    """Check whether the database can hold every character."""
    return judged(
        postgresql_checks.check_characters(patient.alias, patient.said),
        otherwise=_("The database's encoding is %s.") % patient.said.get("server_encoding"),
    )
