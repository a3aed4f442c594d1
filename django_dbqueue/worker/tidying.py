"""Whether a handler's own SQL may have left a transaction or locked tables behind, where the driver doesn't say.

Those of PostgreSQL and SQLite do. MySQL's keeps the server's word for it to itself, and to ask would be a journey for
each message. So what is sent is looked at on its way: most statements can begin nothing. Only after another one is
the session brought to order, by two journeys.
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
"""How statements begin that open nothing that outlasts them in autocommit. What begins otherwise is suspected."""
_LONGEST: Final = max(map(len, _BEGIN_NOTHING))
_SECOND: Final = re.compile(
    rb";\s*(?:BEGIN|START|SET|COMMIT|ROLLBACK|LOCK|FLUSH|XA|CALL|EXECUTE|PREPARE|/)", re.IGNORECASE
)
"""A second statement in one text, or what looks like one."""


class Watch:
    """Stands before the ``query`` of a driver's connection, through which all of its cursors send."""

    def __init__(self, raw: Any) -> None:
        self._send = raw.query
        self.is_suspect = True
        """Nobody looked at what was sent before."""
        raw.query = self

    def __call__(self, query: Any, *rest: Any, **options: Any) -> Any:
        text = query.encode(errors="replace") if isinstance(query, str) else bytes(query)
        if not text[:_LONGEST].upper().startswith(_BEGIN_NOTHING) or (b";" in text and _SECOND.search(text)):
            self.is_suspect = True
        return self._send(query, *rest, **options)


def tidy(raw: Any) -> None:
    """End what SQL on this connection of MySQL's driver may have begun; raises the driver's error if it can't be."""
    watch = getattr(raw, "query", None)
    if not isinstance(watch, Watch):
        watch = Watch(raw)
    if not watch.is_suspect:
        return
    raw.rollback()
    with raw.cursor() as cursor:
        cursor.execute("UNLOCK TABLES")
    watch.is_suspect = False
