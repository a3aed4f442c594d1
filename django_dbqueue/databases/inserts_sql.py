"""Rows of one INSERT by column: columns no row sets are left out; values all rows share go into the SQL."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Final

from django_dbqueue.codecs import JSON
from django_dbqueue.databases.literals import literal
from django_dbqueue.databases.server import Subject
from django_dbqueue.databases.statements import Row, Statement

_PLAIN: Final = re.compile(r"[A-Za-z0-9_.:/=+-]*\Z")
"""Text that can be put into SQL as it is, whatever the server and its mode."""
LIVE_KEY: Final = "key_hash, live"
"""The columns that are unique among live messages."""
DEFAULTS: Final[Mapping[str, object]] = {"content_type": JSON, "priority": 0}
"""The message table's defaults for columns that a sender can set; for all others NULL."""


class InsertsSQL(Subject):
    """INSERTs of messages. What a row doesn't set is left to the table's defaults, including that it is due now."""

    def insert_into(self, names: Iterable[str]) -> str:
        """Return the beginning of an INSERT of these columns."""
        return f"INSERT INTO {self.sql.message} ({self.sql.columns([*names])})"

    def insert_values(
        self,
        columns: Mapping[str, Sequence[object]],
        delays: Sequence[float | None],
        moments: Sequence[object],
        ending: str,
        *,
        parked: bool = False,
    ) -> Statement:
        """Insert rows, given as columns of equal length, with a VALUES list."""
        names, row, params = one_row(columns)
        if is_parked := parked or "lane" in names:
            names, row = [*names, "available_at"], f"{row}, {self.sql.parked}"
        values = [f"({row})"] * len(params)
        if any(delays) or any(moments):
            dues = [self.sql.due_from_now(delay or 0.0, at) for delay, at in zip(delays, moments, strict=True)]
            times = 1 if is_parked else 2
            names += ["available_at", "due_at"][-times:]
            values = [f"({', '.join([row, *[due] * times])})" for due, _ in dues]
            params = [(*own, *more * times) for own, (_, more) in zip(params, dues, strict=True)]
        return Statement(
            f"{self.insert_into(names)} VALUES {', '.join(values)}{ending}", tuple(chain.from_iterable(params))
        )


def one_row(
    columns: Mapping[str, Sequence[object]], defaults: Mapping[str, object] = DEFAULTS
) -> tuple[list[str], str, list[Row]]:
    """Return the names of the columns that any row sets, one row of them as SQL, and the parameters of each row."""
    words, varying = said(columns, defaults)
    count = max(map(len, columns.values()))
    return list(words), ", ".join(words.values()), list(zip(*varying, strict=True)) if varying else [()] * count


def said(
    columns: Mapping[str, Sequence[object]], defaults: Mapping[str, object] = DEFAULTS
) -> tuple[dict[str, str], list[Sequence[object]]]:
    """Return SQL for each column that any row sets, and the columns of values that its %s stand for.

    What is the default in all rows is left to the table. Other values that all rows share go into the SQL, where
    possible: a parameter costs the driver more than building the row does.
    """
    words: dict[str, str] = {}
    varying: list[Sequence[object]] = []
    for name, values in columns.items():
        first = values[0]
        alike = values.count(first) == len(values)
        if alike and first == defaults.get(name):
            continue
        if alike and (isinstance(first, int | float) or (isinstance(first, str) and _PLAIN.match(first))):
            words[name] = literal(first)
        else:
            words[name] = "%s"
            varying.append(values)
    return words, varying
