"""Whose turn it is to partition the history, and what workers do for its partitions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import Error
from django.utils.translation import gettext as _

from django_dbqueue.databases import partitioning_sql as sql
from django_dbqueue.exceptions import PartitioningRefused, UnsupportedDatabase
from django_dbqueue.history import partitions
from django_dbqueue.history.partitioning import TRIES, Partitioner
from django_dbqueue.history.partitioning_mysql import MySQLPartitioner
from django_dbqueue.history.partitioning_postgresql import PostgreSQLPartitioner
from django_dbqueue.sessions.django_session import DjangoSession


def refuse_sqlite(session: DjangoSession) -> None:
    """Raise UnsupportedDatabase where tables have no partitions."""
    if session.server.partitions is None:
        raise UnsupportedDatabase(
            _(
                "SQLite has no partitions: what was exported is deleted from the history in chunks. Partitions need "
                "MySQL, MariaDB or PostgreSQL."
            )
        )


def partitioner_of(session: DjangoSession, *, tries: int = TRIES) -> Partitioner:
    """Return what is to be done on the server of a session; UnsupportedDatabase on SQLite."""
    refuse_sqlite(session)
    return (PostgreSQLPartitioner if _is_transactional(session) else MySQLPartitioner)(session, tries)


@contextmanager
def in_turn(session: DjangoSession, *, tries: int = TRIES) -> Iterator[Partitioner]:
    """Be the only one who changes partitions; what a killed run has left is settled first.

    Raises PartitioningRefused if somebody else is at it.
    """
    partitioner = partitioner_of(session, tries=tries)
    if not _is_transactional(session):
        with partitions.alone(session) as is_alone:
            _require(is_alone)
            partitioner.settle()
            yield partitioner
        return
    _require(session.fetch(sql.postgresql_hold())[0][0])  # longer than a transaction: a constraint is validated outside
    try:
        partitioner.settle()
        yield partitioner
    finally:
        session.fetch(sql.postgresql_let_go())


def _require(is_alone: object) -> None:
    if not is_alone:
        raise PartitioningRefused(_("Somebody else is changing the history's partitions. Nothing was changed."))


def keep(session: DjangoSession) -> None:
    """Do what a worker does for the partitions, each minute: drop, add, and settle what a killed command has left."""
    if session.server.partitions is None:
        return
    there = partitions.existing(session)
    if there:
        partitions.keep(session)
    elif there is None or _is_half_done(session):
        _settle(session)


def _is_half_done(session: DjangoSession) -> bool:
    """Return whether PostgreSQL still has the constraint of a command that is gone, or at work."""
    return _is_transactional(session) and bool(session.fetch(sql.postgresql_find_check()))


def _is_transactional(session: DjangoSession) -> bool:
    sql = session.server.partitions
    return sql is not None and sql.is_transactional


def _settle(session: DjangoSession) -> None:
    try:
        with in_turn(session, tries=1):
            pass
    except PartitioningRefused:
        return
    except Error as error:
        if not partitions.is_refused(error):
            raise
