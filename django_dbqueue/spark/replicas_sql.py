"""A beat that is written on the primary and read on its replicas: the one honest measure of how far they are."""

from __future__ import annotations

from typing import Final

from django_dbqueue.databases.server import Server
from django_dbqueue.databases.statement import Statement

BEAT: Final = "primary"
"""The name of the only row."""


def create_beat(server: Server) -> Statement:
    """Create the row, unless it exists."""
    return Statement(
        f"INSERT INTO {server.replica_beat} (name, at) VALUES ('{BEAT}', {server.now})"
        f"{server.or_nothing(server.replica_beat, 'name')}",
        (),
    )


def beat(server: Server) -> Statement:
    """Write the primary's clock into it, which never goes back."""
    return Statement(
        f"UPDATE {server.replica_beat} SET at = {server.now} WHERE name = '{BEAT}' AND at < {server.now}", ()
    )


def has_beat(server: Server, since: object) -> Statement:
    """Return a row if the beat is not older than a moment of the primary's clock."""
    return Statement(f"SELECT 1 FROM {server.replica_beat} WHERE name = '{BEAT}' AND at >= %s", (since,))
