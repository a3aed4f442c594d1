"""Senders' tokens: which message came with each, and until when no other may. Only for senders who give one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import chain

from django_dbqueue.databases.statements import ARCHIVED_COLUMNS, Statement
from django_dbqueue.databases.vocabulary import Subject


class OnceSQL(Subject):
    """Statements about tokens. A token that a transaction has taken names message 0 until ``name`` says which."""

    def take(self, seconds: Mapping[str, float]) -> Statement:
        """Take tokens, given as hash and seconds, that are new or have expired; return each with its message.

        It waits for whoever has taken one of them and not ended yet.
        """
        row = f"(%s, 0, {self.sql.plus(self.sql.now, '%s')})"
        return Statement(
            f"INSERT INTO {self.sql.once} (hash, message_id, expires_at) VALUES {', '.join([row] * len(seconds))}"
            f"{self.on_known}",
            tuple(chain.from_iterable(seconds.items())),
        )

    @property
    def on_known(self) -> str:
        """How the INSERT ends: it compares and sets what is there."""
        is_over = f"{self.sql.once}.expires_at <= {self.sql.now}"
        return (
            f" ON CONFLICT (hash) DO UPDATE SET message_id = CASE WHEN {is_over} THEN 0 "
            f"ELSE {self.sql.once}.message_id END, expires_at = CASE WHEN {is_over} THEN excluded.expires_at "
            f"ELSE {self.sql.once}.expires_at END RETURNING hash, message_id"
        )

    def taken(self, hashes: Sequence[str]) -> Statement | None:  # noqa: ARG002
        """Read what the above returns, where an INSERT returns no rows (MySQL)."""
        return None

    def name(self, messages: Mapping[str, int]) -> Statement:
        """Say of tokens which message came with each."""
        cases = " ".join(f"WHEN %s THEN {message_id:d}" for message_id in messages.values())
        return Statement(
            f"UPDATE {self.sql.once} SET message_id = CASE hash {cases} END "
            f"WHERE hash IN ({self.sql.holes(len(messages))})",
            (*messages, *messages),
        )

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
        return Statement(f"DELETE FROM {self.sql.once} WHERE hash IN ({self.sql.holes(len(hashes))})", tuple(hashes))


class MySQLOnceSQL(OnceSQL):
    """Reads what it took with a second statement."""

    @property
    def on_known(self) -> str:
        # Assigned from left to right, so the first one compares what was there
        is_over = f"expires_at <= {self.sql.now}"
        return (
            f" ON DUPLICATE KEY UPDATE message_id = IF({is_over}, 0, message_id), "
            f"expires_at = IF({is_over}, VALUES(expires_at), expires_at)"
        )

    def taken(self, hashes: Sequence[str]) -> Statement | None:
        # One is read under the lock that the INSERT has, past the caller's snapshot. For a list, the servers may read a
        # small table in full, and wait for everybody's locks; a snapshot shows what its own transaction took
        is_one = len(hashes) == 1
        return Statement(
            f"SELECT hash, message_id FROM {self.sql.once}{self.sql.use_primary_key} "
            f"WHERE hash IN ({self.sql.holes(len(hashes))}){self.sql.lock_row if is_one else ''}",
            tuple(hashes),
        )

    def name(self, messages: Mapping[str, int]) -> Statement:
        given = self._given([*messages.items()])
        return Statement(f"UPDATE {given.sql} SET o.message_id = given.message_id", given.params)

    def delete(self, hashes: Sequence[str]) -> Statement:
        given = self._given([(each,) for each in hashes])
        return Statement(f"DELETE o FROM {given.sql}", given.params)

    def _given(self, rows: Sequence[tuple[str] | tuple[str, int]]) -> Statement:
        # Looked up one by one: for a list, the servers read a small table in full, and wait for everybody's locks
        columns = "hash CHAR(64) PATH '$[0]', message_id BIGINT PATH '$[1]'"
        return Statement(
            f"JSON_TABLE(%s, '$[*]' COLUMNS ({columns})) AS given STRAIGHT_JOIN {self.sql.once} AS o"
            f"{self.sql.use_primary_key} ON o.hash = CONVERT(given.hash USING ascii) COLLATE ascii_bin",
            (json.dumps(rows),),
        )
