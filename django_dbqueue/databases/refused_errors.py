"""Errors of what was to be written, not of the server: sent again, it would be refused again.

They are about one row: a foreign key of the project's that still points to it, a constraint, a trigger, a value that
is too large or that the column can't hold. Whatever is in no list here counts as an outage, after which the same
statement is repeated: a lost connection, a full disk, a missing table, a missing privilege, a read-only server.
"""

from __future__ import annotations

from typing import Final

MYSQL_SAFE_UPDATES: Final = frozenset({1175})
"""A session with ``sql_safe_updates`` took a statement for one that reads a whole table."""
MYSQL_OVERSIZED: Final = frozenset({1118, 1153, 1162, 1301, 1406, 1713, 2020})
"""A row, a packet, a string, a value, an undo record, a packet of the client."""
MYSQL_REFERENCED: Final = frozenset({1216, 1217, 1451, 1452, 1557, 1761, 1762})
MYSQL_UNSTORABLE: Final = frozenset(
    {1048, 1264, 1265, 1267, 1270, 1271, 1292, 1300, 1364, 1366, 1367, 1411, 1690, 1977, 3140, 3854, 3988}
)
"""NULL, out of range, cut, of another character set or collation (1366, 1300, 1977, 3854, 3988), no number, no JSON."""
MYSQL_CHECKED: Final = frozenset({1442, 1644, 3819, 4025})
"""A trigger that can't run, or says no; a CHECK (MySQL, MariaDB)."""
MYSQL_REFUSED: Final = (
    MYSQL_SAFE_UPDATES | MYSQL_OVERSIZED | MYSQL_REFERENCED | MYSQL_UNSTORABLE | MYSQL_CHECKED | {1062}
)
SQLSTATE_REFUSED: Final = ("21", "22", "23", "27", "38", "39", "44", "54", "P0")
"""Prefixes: cardinality, data, integrity, triggers, external routines, WITH CHECK, limits of a program, PL/pgSQL."""
