"""What differs between servers, queried by capability; text and parameters only, no Django (executors run it too)."""

from __future__ import annotations

from typing import Final, Protocol

from django_dbqueue.databases.errors import Kind, is_among
from django_dbqueue.databases.mysql import MYSQL
from django_dbqueue.databases.postgresql import POSTGRESQL
from django_dbqueue.databases.server import Server
from django_dbqueue.databases.sqlite import SQLITE
from django_dbqueue.databases.statement import Change, Claim, EventRecord, InOrder, Statement
from django_dbqueue.exceptions import UnsupportedDatabase

__all__ = [
    "Change",
    "Claim",
    "EventRecord",
    "InOrder",
    "Server",
    "Statement",
    "is_of_a_driver",
    "means",
    "server_of",
    "server_of_scheme",
    "terms_of",
]

SERVERS: Final[dict[str, Server]] = {each.vendor: each for each in (MYSQL, POSTGRESQL, SQLITE)}


class HasVendor(Protocol):
    """A connection of Django's, or one that says as much."""

    @property
    def vendor(self) -> str: ...


def server_of(connection: HasVendor) -> Server:
    """Return the server of a connection that names its ``vendor``, as Django's do."""
    try:
        return SERVERS[connection.vendor]
    except KeyError:
        raise UnsupportedDatabase(
            f"django_dbqueue runs on MySQL, MariaDB, PostgreSQL and SQLite, not on {connection.vendor!r}: "
            "name one of those in DBQUEUE['DATABASE']."
        ) from None


def terms_of(vendor: str) -> Server:
    """Return the terms of any connection's server: SQLite's, which are the plainest, where the queue can't live."""
    return SERVERS.get(vendor, SQLITE)


def server_of_scheme(scheme: str) -> Server | None:
    """Return the server whose URLs begin with this scheme, in whatever case; None if none does."""
    return next((each for each in SERVERS.values() if scheme.lower() in each.schemes), None)


def is_of_a_driver(error: BaseException) -> bool:
    """Return whether an error is one of the drivers' own."""
    module = type(error).__module__.partition(".")[0]
    return any(module == server.driver.module for server in SERVERS.values())


def means(error: BaseException, kind: Kind) -> bool:
    """Return whether a driver's error, or Django's, is of this kind on any server."""
    return any(is_among(error, server.errors.get(kind, frozenset())) for server in SERVERS.values())
