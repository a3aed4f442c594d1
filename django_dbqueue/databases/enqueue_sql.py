"""How messages are inserted, and how an update by key overwrites one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

from django_dbqueue.databases.indexes import Index
from django_dbqueue.databases.inserts_sql import DEFAULTS, LIVE_KEY, InsertsSQL
from django_dbqueue.databases.statements import MESSAGE_COLUMNS, Statement, holes
from django_dbqueue.statuses import NEW, RUNNING


class EnqueueSQL(InsertsSQL):
    """INSERTs, and how they handle a key that exists already."""

    def insert(
        self, row: Mapping[str, object], delay: float, at: object, *, returning: str = "", ignore: bool = False
    ) -> Statement:
        """Insert a row with these columns; a taken key raises, or writes nothing (ignore). In a lane it is parked."""
        due, due_params = self.sql.due_from_now(delay, at) if delay or at is not None else ("", ())
        said = {name: value for name, value in row.items() if value != DEFAULTS.get(name)}
        is_parked = "lane" in said
        text = _insert_one(self, tuple(said), due, returning, ignore, is_parked)
        return Statement(text, (*said.values(), *(() if is_parked else due_params), *due_params))

    def insert_many(
        self,
        columns: Mapping[str, Sequence[object]],
        delays: Sequence[float],
        moments: Sequence[object],
        *,
        returning: str = "",
        ignore: bool = False,
        parked: bool = False,
    ) -> Statement:
        """Insert rows, given as columns of equal length, as ``insert`` does; all of them are in lanes, or none is."""
        return self.insert_values(columns, delays, moments, self.ending(returning, ignore=ignore), parked=parked)

    def ending(self, returning: str, *, ignore: bool) -> str:
        """Return the end of an INSERT."""
        return (self.sql.or_nothing(self.sql.message, LIVE_KEY) if ignore else "") + (
            f" RETURNING {returning}" if returning else ""
        )

    def notify(self, queue: str) -> Statement:
        """Wake listening workers when the transaction commits (PostgreSQL)."""
        return Statement("SELECT pg_notify('django_dbqueue', %s)", (queue,))

    def returning_id(self, *, notify: bool) -> str:
        """Return the RETURNING list of one message, so that ``notify`` costs no statement and no commit of its own."""
        return "id, pg_notify('django_dbqueue', queue)" if notify else "id"

    def live_by_hash(self, hashes: Sequence[str]) -> Statement:
        """Lock and read the live rows of these keys: the newest committed ones, whatever the isolation level."""
        return Statement(
            f"SELECT {self.sql.columns(MESSAGE_COLUMNS)} FROM {self.sql.message}{self.sql.use[Index.LIVE_KEY]} "
            f"WHERE key_hash IN ({holes(len(hashes))}) AND live = 1{self.sql.lock_row}",
            tuple(hashes),
        )

    def id_step(self) -> Statement:
        """Read by how much the ids of one INSERT's rows differ (MySQL)."""
        return Statement("SELECT @@auto_increment_increment", ())

    def by_id(self, message_id: int) -> Statement:
        """Read a message."""
        return Statement(
            f"SELECT {self.sql.columns(MESSAGE_COLUMNS)} FROM {self.sql.message} WHERE id = %s", (message_id,)
        )

    def overwrite(self, message_id: int, row: Sequence[object], delay: float, at: object) -> Statement:
        """{n, run} → n with new content: body, content type, headers, priority, max_reads, lease, lane, group."""
        due, due_params = self.sql.due_from_now(delay, at)
        return Statement(
            f"UPDATE {self.sql.message} SET body = %s, content_type = %s, headers = %s, priority = %s, max_reads = %s, "
            f"lease_seconds = %s, lane = %s, group_name = %s, available_at = {due}, due_at = {due}, status = '{NEW}', "
            "conn_id = NULL, worker_id = NULL, finished_at = NULL, read_count = 0, crashes = 0, error = NULL "
            f"WHERE id = %s AND live = 1 AND status IN ('{NEW}', '{RUNNING}')",
            (*row, *due_params, *due_params, message_id),
        )


@cache
def _insert_one(
    enqueue: EnqueueSQL, names: tuple[str, ...], due: str, returning: str, ignore: bool, is_parked: bool
) -> str:
    """Return the text of an INSERT; there are few, since a call sets few of the columns, and always the same ones."""
    dues = {"available_at": due, "due_at": due} if due else {}
    if is_parked:
        dues["available_at"] = enqueue.sql.parked
    values = ", ".join([*["%s"] * len(names), *dues.values()])
    return f"{enqueue.insert_into((*names, *dues))} VALUES ({values}){enqueue.ending(returning, ignore=ignore)}"
