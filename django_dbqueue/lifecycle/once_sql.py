"""Senders' tokens: which message came with each, and until when no other may. Only for senders who give one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

from django_dbqueue.databases.indexes import Index
from django_dbqueue.databases.server import Server
from django_dbqueue.databases.statement import Statement, holes
from django_dbqueue.statements.message_columns import ARCHIVED_COLUMNS


def take(server: Server, seconds: Mapping[str, float]) -> Statement:
    """Take tokens, given as hash and seconds, that are new or have expired; ``returns_rows``: and return them all.

    It waits for whoever has taken one of them and not ended yet.
    """
    row = f"(%s, 0, {server.from_now})"
    known = server.or_replace(server.once, "hash", ("message_id", "expires_at"), if_expired=True)
    returning = " RETURNING hash, message_id" if server.returns_rows else ""
    return Statement(
        f"INSERT INTO {server.once} (hash, message_id, expires_at) VALUES {', '.join([row] * len(seconds))}"
        f"{known}{returning}",
        tuple(chain.from_iterable(seconds.items())),
    )


def read_back(server: Server, hashes: Sequence[str]) -> Statement:
    """Read what the above took, where it returns no rows."""
    # One is read under the lock that the INSERT has, past the caller's snapshot. For a list, the servers may read a
    # small table in full, and wait for everybody's locks; a snapshot shows what its own transaction took
    lock = server.lock_row if len(hashes) == 1 else ""
    return Statement(
        f"SELECT hash, message_id FROM {server.once}{server.use[Index.PRIMARY]} "
        f"WHERE hash IN ({holes(len(hashes))}){lock}",
        tuple(hashes),
    )


def name(server: Server, messages: Mapping[str, int]) -> Statement:
    """Say of tokens which message came with each."""
    given = server.values(("token", "message"), [*messages.items()])
    return server.update_each(server.once, given, "message_id = given.message", "t.hash = given.token")


def in_history(server: Server, message_id: int) -> Statement:
    """Read how a message ended that is in the history."""
    return Statement(
        f"SELECT outcome, message_id, {server.columns(ARCHIVED_COLUMNS)} FROM {server.archived} "
        "WHERE message_id = %s ORDER BY id DESC LIMIT 1",
        (message_id,),
    )


def expired(server: Server, limit: int, *, lock: bool = True) -> Statement:
    """Lock tokens that have expired, skipping those that others have locked; or only read them."""
    return Statement(
        f"SELECT hash FROM {server.once} WHERE expires_at <= {server.now} "
        f"ORDER BY expires_at LIMIT %s{server.skip_locked if lock else ''}",
        (limit,),
    )


def delete(server: Server, hashes: Sequence[str]) -> Statement:
    """Delete tokens that the same transaction has locked."""
    return server.delete_each(server.once, ("hash",), [(each,) for each in hashes])
