"""Queue depths and contents: a bounded range of the claim index per queue, state and priority."""

from __future__ import annotations

from collections.abc import Sequence

from django_dbqueue.databases.server import Server
from django_dbqueue.databases.statement import Statement
from django_dbqueue.states.table import Place, first_rows


def counts(server: Server, places: Sequence[Place], limit: int, overdue: Sequence[int] = ()) -> Statement:
    """Count the messages in each place, up to the limit: one row, with a column for each."""
    rows = [first_rows(server, place, "id", limit, overdue) for place in places]
    return _columns("(SELECT COUNT(*) FROM ({}) AS counted)", rows)


def oldest(server: Server, places: Sequence[Place]) -> Statement:
    """Read when the first message in each place became due, or NULL: one row, with a column for each."""
    return _columns("({})", [first_rows(server, place, "available_at", 1) for place in places])


def _columns(form: str, each: Sequence[Statement]) -> Statement:
    columns = ", ".join(form.format(one.sql) for one in each)
    return Statement(f"SELECT {columns}", tuple(value for one in each for value in one.params))
