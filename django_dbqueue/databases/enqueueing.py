"""How messages come in, and how an update by key overwrites one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django_dbqueue.databases.words import (
    MESSAGE_COLUMNS,
    Statement,
    Words,
)
from django_dbqueue.statuses import NEW, RUNNING


class Enqueueing(Words):
    """INSERTs, and what meets a key that stands already."""

    inserted = (
        "queue",
        "key",
        "key_hash",
        "live",
        "body",
        "content_type",
        "headers",
        "priority",
        "max_reads",
        "lease_seconds",
        "available_at",
        "due_at",
        "created_at",
        "status",
        "read_count",
        "crashes",
    )

    def insert(
        self, rows: Sequence[tuple[tuple[Any, ...], float, Any]], *, returning: str = "", ignore: bool = False
    ) -> Statement:
        """Insert rows of (the first ten columns, delay, at); a taken key raises, or writes nothing (ignore)."""
        values, params = [], []
        for row, delay, at in rows:
            due, due_params = self.due_from_now(delay, at)
            values.append(f"({self.holes(len(row))}, {due}, {due}, {self.now}, '{NEW}', 0, 0)")
            params += [*row, *due_params, *due_params]
        tail = self.ignore_duplicate if ignore else ""
        if returning:
            tail += f" RETURNING {returning}"
        return Statement(
            f"INSERT INTO {self.message} ({self.columns(self.inserted)}) VALUES {', '.join(values)}{tail}",
            tuple(params),
        )

    def notify(self, queue: str) -> Statement:
        """Wake listening workers when the transaction commits (PostgreSQL)."""
        return Statement("SELECT pg_notify('django_dbqueue', %s)", (queue,))

    def live_by_hash(self, hashes: Sequence[str]) -> Statement:
        """Lock and read the live rows of these keys: the newest committed ones, whatever the isolation."""
        return Statement(
            f"SELECT {self.columns(MESSAGE_COLUMNS)} FROM {self.message}{self.use_live_key} "
            f"WHERE key_hash IN ({self.holes(len(hashes))}) AND live = 1{self.lock_row}",
            tuple(hashes),
        )

    def overwrite(self, message_id: int, row: Sequence[Any], delay: float, at: Any) -> Statement:
        """{n, run} → n with new content: body, content type, headers, priority, max_reads, lease."""
        due, due_params = self.due_from_now(delay, at)
        return Statement(
            f"UPDATE {self.message} SET body = %s, content_type = %s, headers = %s, priority = %s, max_reads = %s, "
            f"lease_seconds = %s, available_at = {due}, due_at = {due}, status = '{NEW}', conn_id = NULL, "
            "worker_id = NULL, finished_at = NULL, read_count = 0, crashes = 0, error = NULL "
            f"WHERE id = %s AND live = 1 AND status IN ('{NEW}', '{RUNNING}')",
            (*row, *due_params, *due_params, message_id),
        )
