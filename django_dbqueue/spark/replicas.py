"""Reads from a replica: where it is, and what it must have got before anything is read from it.

Each session on the replica is asked first, since behind one name there may be several servers. One that is behind is as
good as away: it is waited for, and nothing is read from it meanwhile. Nothing ever falls back to the primary, which
would get the load that it was to be spared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from django_dbqueue.exceptions import InvalidPipeline, ReplicaBehind
from django_dbqueue.history import history_sql
from django_dbqueue.spark import replicas_sql
from django_dbqueue.spark.connection import Connection
from django_dbqueue.spark.credentials import Credentials
from django_dbqueue.spark.source_options import Options

FILE_OPTION: Final = "replica_file"
ENVIRONMENT_OPTION: Final = "replica_env"
MAX_LAG_OPTION: Final = "maxReplicaLag"
OPTIONS: Final = (FILE_OPTION, ENVIRONMENT_OPTION, MAX_LAG_OPTION)
MAX_LAG: Final = 30
MOST_LAG: Final = 7 * 86_400


@dataclass(frozen=True, slots=True)
class SeenBeat:
    """A moment of the primary's clock, of which a beat must have arrived: what was committed before it is there too."""

    since: object
    lag: int

    def check(self, connection: Connection) -> None:
        if not connection.fetch(replicas_sql.has_beat(connection.server, self.since)):
            raise ReplicaBehind(
                f"The replica has not got yet what was committed {self.lag:,} s before the read began (the option "
                f"{MAX_LAG_OPTION!r})"
            )


@dataclass(frozen=True, slots=True)
class AllRows:
    """A range of archive ids, of which the replica must have all rows that the primary had: they never change."""

    after: int
    last: int
    rows: int

    def check(self, connection: Connection) -> None:
        [(_, rows)] = connection.fetch(history_sql.count_history(connection.server, self.after, self.last))
        if rows != self.rows:
            raise ReplicaBehind(
                f"Of the {self.rows:,} rows of the history after id {self.after:,} up to {self.last:,}, the replica "
                f"has {rows:,}"
            )


def replica_of(options: Mapping[str, str], primary: Credentials) -> Credentials | None:
    """Return the replica that the options name, None if they name none; InvalidPipeline if it can't be one."""
    chosen = {name.lower(): value for name, value in options.items()}
    if FILE_OPTION not in chosen and ENVIRONMENT_OPTION not in chosen:
        if MAX_LAG_OPTION.lower() in chosen:
            raise InvalidPipeline(
                f"The option {MAX_LAG_OPTION!r} bounds the lag of a replica, and there is none: name its credentials "
                f"in {FILE_OPTION!r} or {ENVIRONMENT_OPTION!r}."
            )
        return None
    found = Credentials.named(chosen, FILE_OPTION, ENVIRONMENT_OPTION)
    if found.vendor != primary.vendor or found.server.is_file:
        raise InvalidPipeline(
            f"The replica is {found.vendor}, and the database {primary.vendor}: a replica is another server of the "
            "same kind, and SQLite has none."
        )
    return replace(found, max_connections=primary.max_connections)


def max_lag(options: Options) -> int:
    """Return how many seconds a replica may be behind."""
    return options.whole(MAX_LAG_OPTION, MAX_LAG, least=0, most=MOST_LAG)


def beat(connection: Connection, lag: int) -> SeenBeat:
    """Write a beat on the primary, and return what a replica must show that is ``lag`` seconds behind at most."""
    server = connection.server
    [(since,)] = connection.fetch(history_sql.moment_before(server, float(lag)))  # first, so that the beat is no older

    def write() -> None:
        with connection.transaction():
            connection.run(replicas_sql.create_beat(server))
            connection.run(replicas_sql.beat(server))

    connection.outermost(write)
    return SeenBeat(since, lag)


def rows_between(connection: Connection, after: int, last: int) -> AllRows:
    """Count on the primary what a replica must have."""
    [(_, rows)] = connection.fetch(history_sql.count_history(connection.server, after, last))
    return AllRows(after, last, int(rows))
