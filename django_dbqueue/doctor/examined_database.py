"""The database under examination: its connection, and what it reports about itself, asked once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from sqlite3 import SQLITE_BUSY
from typing import Any, Final

from django.db import Error, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from django_dbqueue import conf
from django_dbqueue.checks import mysql_checks, postgresql_checks
from django_dbqueue.checks.answers import answers
from django_dbqueue.consumers import registry
from django_dbqueue.databases import Server, Statement
from django_dbqueue.databases.server_facts import (
    mysql_account,
    mysql_variables,
    postgresql_account,
    postgresql_settings,
    sqlite_pragmas,
    waits_as_before,
    waits_briefly,
)
from django_dbqueue.databases.statement import Row
from django_dbqueue.databases.transient_errors import sqlstate_of
from django_dbqueue.sessions.django_session import session_of

NOBODYS: Final = ":nobody"
"""A queue's name that no queue can have."""
WAITS: Final = 3
"""Maximum seconds that a check waits for a lock."""
_MYSQL: Final = (
    "innodb_lock_wait_timeout",
    "innodb_read_only",
    "lock_wait_timeout",
    "offline_mode",
    "read_only",
    "super_read_only",
    "transaction_read_only",
    "tx_read_only",
    "wait_timeout",
)
_POSTGRESQL: Final = (
    "autovacuum",
    "default_transaction_read_only",
    "idle_session_timeout",
    "in_hot_standby",
    "statement_timeout",
)
_DENIED: Final = (1044, 1045, 1142, 1143, 1227, 1370)
_DENIED_STATES: Final = ("42501",)
_WAITED: Final = (1205, 3572)
_UNSHOWABLE: Final = (3854,)
_WAITED_STATES: Final = ("55P03", "57014")


@dataclass(frozen=True, slots=True)
class Patient:
    """A database under examination.

    ``said``: variables of MySQL and MariaDB, settings of PostgreSQL, pragmas of SQLite; names in lower case.
    """

    connection: Any
    said: dict[str, str]
    account: str
    """As GRANT names it; '' on SQLite."""

    @classmethod
    def at(cls, connection: BaseDatabaseWrapper) -> Patient:
        """Ask a server what it reports about itself."""
        return cls(connection, answers(connection, _question(connection.vendor)), _account(connection))

    @property
    def alias(self) -> str:
        """The database's name in DATABASES."""
        return str(self.connection.alias)

    @property
    def vendor(self) -> str:
        """As Django names it."""
        return str(self.connection.vendor)

    @property
    def server(self) -> Server:
        """The builder of the queue's statements."""
        return session_of(self.alias).server

    @property
    def options(self) -> dict[str, Any]:
        """OPTIONS of the database's settings."""
        return dict(self.connection.settings_dict.get("OPTIONS", {}))

    def ask(self, question: Statement) -> list[Row]:
        """Return the rows of an answer."""
        return session_of(self.alias).fetch(question)

    def number(self, name: str) -> int | None:
        """Return the value reported under this name, if it is a whole number."""
        value = self.said.get(name, "")
        return int(value) if value.isdigit() else None

    @contextmanager
    def looked_at(self) -> Iterator[None]:
        """Examine without waiting long for anybody's locks; on servers, in a transaction that is rolled back."""
        is_sqlite = self.vendor == "sqlite"  # where a transaction would take the write lock
        with nullcontext() if is_sqlite else session_of(self.alias).transaction():
            session_of(self.alias).run(waits_briefly(self.vendor, WAITS))
            try:
                yield
            finally:
                if self.vendor != "postgresql":
                    with suppress(Error):  # a session that is gone needs nothing restored
                        session_of(self.alias).run(waits_as_before(self.vendor, self.said))
                if not is_sqlite:
                    transaction.set_rollback(True, using=self.alias)


def leases() -> dict[str, float]:
    """Return seconds by source: each registered consumer, each queue of the settings, and DEFAULTS."""
    queues = {name: each.resolved().lease for name, each in registry.registered().items()}
    named = {name: conf.queue_options(name).lease for name in conf.get("QUEUES")}
    return {"DEFAULTS": conf.queue_options("").lease} | named | queues


def is_denied(error: Error) -> bool:
    """Return whether the account lacks a privilege."""
    return _is(error, _DENIED, _DENIED_STATES)


def has_waited(error: Error) -> bool:
    """Return whether waiting for somebody's lock timed out."""
    return _is(error, _WAITED, _WAITED_STATES) or getattr(error.__cause__, "sqlite_errorcode", None) == SQLITE_BUSY


def is_unshowable(error: BaseException) -> bool:
    """Return whether MySQL can't show a list (3854) because a statement in it has a four-byte character."""
    return isinstance(error, Error) and _is(error, _UNSHOWABLE, ())


def first_line(error: BaseException) -> str:
    """Return a driver error's text, without the statement that some drivers add."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def _is(error: Error, numbers: tuple[int, ...], states: tuple[str, ...]) -> bool:
    cause = error.__cause__
    number = cause.args[0] if cause is not None and cause.args else None
    return number in numbers or sqlstate_of(cause) in states


def _question(vendor: str) -> Statement:
    if vendor == "mysql":
        return mysql_variables((*mysql_checks.VARIABLES, *_MYSQL))
    if vendor == "postgresql":
        return postgresql_settings((*postgresql_checks.SETTINGS, *_POSTGRESQL))
    return sqlite_pragmas()


def _account(connection: BaseDatabaseWrapper) -> str:
    question = {"mysql": mysql_account, "postgresql": postgresql_account}.get(connection.vendor)
    return str(session_of(connection.alias).fetch(question())[0][0]) if question else ""
