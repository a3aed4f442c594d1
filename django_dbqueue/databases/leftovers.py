"""Whether a handler's own SQL may have left an open transaction or locked tables, where the driver doesn't say.

The drivers of PostgreSQL and SQLite do say. MySQL's doesn't pass on the server's status, and asking would be a round
trip per message. So the SQL is inspected as it is sent: most statements can't begin anything. Only after any other
statement is the session cleaned up, in two round trips.
"""

from __future__ import annotations

import re
from typing import Any, Final

_BEGIN_NOTHING: Final = (
    b"SELECT ",
    b"INSERT ",
    b"UPDATE ",
    b"DELETE ",
    b"REPLACE ",
    b"WITH ",
    b"SHOW ",
    b"SAVEPOINT ",
    b"RELEASE SAVEPOINT ",
)
"""Prefixes of statements that leave nothing open in autocommit. All others are suspect."""
_LONGEST: Final = max(map(len, _BEGIN_NOTHING))
_SECOND: Final = re.compile(
    rb";\s*(?:[-#/]|BEGIN|START|SET|COMMIT|ROLLBACK|LOCK|FLUSH|XA|CALL|EXECUTE|PREPARE|IF|CASE|LOOP|REPEAT|WHILE|FOR)",
    re.IGNORECASE,
)
"""A second statement in one text, or what looks like one: quick to look for in large values, too."""
_ASIDE: Final = re.compile(
    rb"""'[^'\\]*(?:\\.[^'\\]*)*'|"[^"\\]*(?:\\.[^"\\]*)*"|`[^`]*`|/\*(?!M?!).*?\*/|--(?=\s|\Z)[^\n]*|#[^\n]*""",
    re.DOTALL,
)
"""Literals, names in quotes and comments, but not those that are executed: where a semicolon separates nothing."""


class Watch:
    """A wrapper around the ``query`` of a driver's connection, through which all of its cursors send."""

    def __init__(self, raw: Any) -> None:
        self._send = raw.query
        self.is_suspect = True
        """Nothing checked what was sent before."""
        raw.query = self

    def __call__(self, query: Any, *rest: Any, **options: Any) -> Any:
        text = query.encode(errors="replace") if isinstance(query, str) else bytes(query)
        if not begins_nothing(text):
            self.is_suspect = True
        return self._send(query, *rest, **options)


def begins_nothing(text: bytes) -> bool:
    """Return whether none of the statements in a text can leave anything open."""
    if _SECOND.search(text) is None:
        return text[:_LONGEST].upper().startswith(_BEGIN_NOTHING)
    parts = (part.lstrip() for part in _ASIDE.sub(b" ", text).split(b";"))
    return all(not part or part[:_LONGEST].upper().startswith(_BEGIN_NOTHING) for part in parts)


def tidy(raw: Any) -> None:
    """End what SQL on this connection of MySQL's driver may have begun; raise the driver's error if that fails."""
    watch = getattr(raw, "query", None)
    if not isinstance(watch, Watch):
        watch = Watch(raw)
    if not watch.is_suspect:
        return
    raw.rollback()
    with raw.cursor() as cursor:
        cursor.execute("UNLOCK TABLES")
    watch.is_suspect = False
