"""Fills the history by SQL, on the server: rows whose columns follow from their number, so that any size can grow on.

Row ``n`` has the id ``n`` and ended ``n`` steps after BEGIN, so that a larger history goes on where a smaller one ends,
and its last hours hold as many rows as the smaller one's.
"""

from __future__ import annotations

import shutil
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from django.db import connections

from django_dbqueue.models import ArchivedMessage, ExportBatch, HistoryReader, Message, PublishedJob
from tests.servers.private import ServerError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TABLE: Final = ArchivedMessage._meta.db_table
BEGIN: Final = datetime(2020, 1, 1, tzinfo=UTC)
STEP: Final = timedelta(milliseconds=90)
"""Between the ends of two messages: 40,000 an hour, a million in 25 hours, a billion in three years."""
QUEUES: Final = ("emails", "invoices", "webhooks", "reports", "imports")
KEY_EVERY, ROWS_OF_A_KEY = 4, 8
"""Every fourth message has a key, and eight have the same one; they are 32 ids apart at most."""
BYTES_A_ROW: Final = 300
"""What a row takes on disk with its three index entries, and what its INSERT has in the log, at most."""
_AT_ONCE: Final = 500_000

_MYSQL: Final = {
    "numbers": "seq_{first}_to_{last}",
    "n": "seq",
    "moment": "TIMESTAMPADD(MICROSECOND, {microseconds}, '{begin}')",
    "joined": "CONCAT({parts})",
    "comma": ", ",
}
_POSTGRESQL: Final = {
    "numbers": "generate_series({first}::bigint, {last}::bigint) AS numbers (n)",
    "n": "n",
    "moment": "TIMESTAMPTZ '{begin}+00' + ({microseconds}) * INTERVAL '1 microsecond'",
    "joined": "({parts})",
    "comma": " || ",
}


def last_id(alias: str) -> int:
    """Return the history's last id; 0 if it has no rows."""
    with connections[alias].cursor() as cursor:
        cursor.execute(f"SELECT COALESCE(MAX(id), 0) FROM {TABLE}")
        return int(cursor.fetchone()[0])


def require_room(place: Path, rows: int) -> None:
    """Raise ServerError if a disk lacks the space for this many more rows, with a tenth to spare."""
    needed, free = rows * BYTES_A_ROW * 11 // 10, shutil.disk_usage(place).free
    if needed > free:
        raise ServerError(
            f"{rows:,} rows take up to {needed / 1e9:.0f} GB, and {place} has {free / 1e9:.0f} GB free. Give fewer "
            "with --rows, or name a larger disk by TMPDIR."
        )


def fill(alias: str, until: int, announce: Callable[[str], None], *, first: int = 1) -> None:
    """Add rows after the last one (an empty history begins with the first), up to this id, and count them."""
    have = last_id(alias) or first - 1
    for first in range(have + 1, until + 1, _AT_ONCE):
        last = min(first + _AT_ONCE - 1, until)
        with connections[alias].cursor() as cursor:
            if connections[alias].vendor == "mysql":
                cursor.execute("SET SESSION sql_log_bin = 0")  # a replica that is not there needs no copy
            cursor.execute(_insert(connections[alias].vendor, first, last))
        if last % (10 * _AT_ONCE) == 0:
            announce(f"{last:,} of {until:,} rows")
    if have < until:
        _settle(alias)


def forget_earlier_runs(alias: str) -> None:
    """Forget the lakes, streams and replays of runs before this one: they would hold the purge, or have been done."""
    for model in (ExportBatch, HistoryReader, Message, PublishedJob):
        model._base_manager.using(alias).all().delete()


def _insert(vendor: str, first: int, last: int) -> str:
    words = _MYSQL if vendor == "mysql" else _POSTGRESQL
    columns = _columns(words)
    numbers = words["numbers"].format(first=first, last=last)
    return f"INSERT INTO {TABLE} ({', '.join(columns)}) SELECT {', '.join(columns.values())} FROM {numbers}"


def _columns(words: dict[str, str]) -> dict[str, str]:
    n, step = words["n"], STEP // timedelta(microseconds=1)

    def joined(*parts: str) -> str:
        return words["joined"].format(parts=words["comma"].join(parts))

    def moment(seconds: int) -> str:
        later = f"CAST({n} AS {'SIGNED' if n == 'seq' else 'bigint'}) * {step} + {seconds * 1_000_000}"
        return words["moment"].format(microseconds=later, begin=BEGIN.replace(tzinfo=None))

    whole = "DIV" if n == "seq" else "/"
    queues = " ".join(f"WHEN {number} THEN '{queue}'" for number, queue in enumerate(QUEUES[1:], 1))
    customer = joined("'customer-'", f"({n} {whole} {KEY_EVERY * ROWS_OF_A_KEY})")
    key = "`key`" if n == "seq" else '"key"'
    return {
        "id": n,
        "message_id": n,
        "outcome": f"CASE WHEN {n} % 500 = 0 THEN 'dead' WHEN {n} % 1000 = 1 THEN 'dropped' ELSE 'done' END",
        "queue": f"CASE {n} % 10 {queues} ELSE '{QUEUES[0]}' END",
        key: f"CASE WHEN {n} % {KEY_EVERY} = 0 THEN {customer} END",
        "claim_token": n,
        "priority": "0",
        "read_count": f"CASE WHEN {n} % 50 = 0 THEN 2 ELSE 1 END",
        "crashes": "0",
        "body": joined('\'{"to": "someone@example.com", "n": \'', n, "'}'"),
        "content_type": "'json'",
        "error": f"CASE WHEN {n} % 500 = 0 THEN 'Rejected: no such address' WHEN {n} % 1000 = 1 THEN 'dropped' END",
        "created_at": moment(-3),
        "due_at": moment(-3),
        "claimed_at": moment(-1),
        "finished_at": moment(0),
        "archived_at": moment(60),
    }


def _settle(alias: str) -> None:
    """Do now what the server would do by itself in the hours after a bulk load."""
    connection = connections[alias]
    with connection.cursor() as cursor:
        if connection.vendor == "mysql":
            cursor.execute(f"ANALYZE TABLE {TABLE}")
            cursor.fetchall()
        else:
            cursor.execute(f"SELECT setval(pg_get_serial_sequence('{TABLE}', 'id'), MAX(id)) FROM {TABLE}")
            cursor.execute(f"VACUUM ANALYZE {TABLE}")
