"""Senders' tokens: which message came with each, and until when no other may. Only for senders who give one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

from django_dbqueue.databases.indexes import Index
from django_dbqueue.databases.server import Subject
from django_dbqueue.databases.statements import ARCHIVED_COLUMNS, Statement, holes


class OnceSQL(Subject):
    """Statements about tokens. A token that a transaction has taken names message 0 until ``name`` says which."""

    def take(self, seconds: Mapping[str, float]) -> Statement:
        """Take tokens, given as hash and seconds, that are new or have expired; ``returns_rows``: and return them all.

        It waits for whoever has taken one of them and not ended yet.
        """
        row = f"(%s, 0, {self.sql.plus(self.sql.now, '%s')})"
        known = self.sql.or_replace_expired(self.sql.once, "hash", ("message_id", "expires_at"))
        returning = " RETURNING hash, message_id" if self.sql.returns_rows else ""
        return Statement(
            f"INSERT INTO {self.sql.once} (hash, message_id, expires_at) VALUES {', '.join([row] * len(seconds))}"
            f"{known}{returning}",
            tuple(chain.from_iterable(seconds.items())),
        )

    def taken(self, hashes: Sequence[str]) -> Statement:
        """Read what the above took, where it returns no rows."""
        # One is read under the lock that the INSERT has, past the caller's snapshot. For a list, the servers may read a
        # small table in full, and wait for everybody's locks; a snapshot shows what its own transaction took
        lock = self.sql.lock_row if len(hashes) == 1 else ""
        return Statement(
            f"SELECT hash, message_id FROM {self.sql.once}{self.sql.use[Index.PRIMARY]} "
            f"WHERE hash IN ({holes(len(hashes))}){lock}",
            tuple(hashes),
        )

    def name(self, messages: Mapping[str, int]) -> Statement:
        """Say of tokens which message came with each."""
        given = self.sql.values(("token", "message"), [*messages.items()])
        return self.sql.update_each(self.sql.once, given, "message_id = given.message", "t.hash = given.token")

    def in_history(self, message_id: int) -> Statement:
        """Read how a message ended that is in the history."""
        return Statement(
            f"SELECT outcome, message_id, {self.sql.columns(ARCHIVED_COLUMNS)} FROM {self.sql.archived} "
            "WHERE message_id = %s ORDER BY id DESC LIMIT 1",
            (message_id,),
        )

    def expired(self, limit: int, *, lock: bool = True) -> Statement:
        """Lock tokens that have expired, skipping those that others have locked; or only read them."""
        return Statement(
            f"SELECT hash FROM {self.sql.once} WHERE expires_at <= {self.sql.now} "
            f"ORDER BY expires_at LIMIT %s{self.sql.skip_locked if lock else ''}",
            (limit,),
        )

    def delete(self, hashes: Sequence[str]) -> Statement:
        """Delete tokens that the same transaction has locked."""
        return self.sql.delete_each(self.sql.once, ("hash",), [(each,) for each in hashes])
