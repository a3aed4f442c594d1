"""What statements leave in a session, by the words they are made of."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_ASIDE: Final = r"'[^']*'|\"(?P<name>[a-z_]+)\"|\"[^\"]*\"|/\*.*?\*/|--[^\n]*"
_NOTHING: Final = re.compile(r"(?!)")


class Traces(NamedTuple):
    """How to read a server's SQL for that."""

    harmless: re.Pattern[str]
    """What changes no session, besides what no server's does."""
    aside: re.Pattern[str] = re.compile(_ASIDE, re.DOTALL)
    """Literals, comments that are not executed, and names in quotes. A ``name`` that a function can have stays."""
    asks_by: frozenset[str] = frozenset({"SELECT", "WITH", "VALUES"})
    """First words of statements that change a session by the functions that they call, if at all."""
    needles: tuple[str, ...] = ()
    """Without any of these, in lower case, a statement does nothing of the following."""
    locks: re.Pattern[str] = _NOTHING
    """Takes a lock by name."""
    changes: re.Pattern[str] = _NOTHING
    release: str = ""
    """Releases all locks by name."""


MYSQL_TRACES: Final = Traces(
    aside=re.compile(
        r"'[^'\\]*(?:\\.[^'\\]*)*'|\"[^\"\\]*(?:\\.[^\"\\]*)*\"|`[^`]*`|/\*(?!M?!).*?\*/|--(?=\s|\Z)[^\n]*|#[^\n]*",
        re.DOTALL,
    ),
    asks_by=frozenset({"SELECT", "WITH", "VALUES", "DO"}),
    harmless=re.compile(r"SET\s+(?:TRANSACTION|STATEMENT)\b|LOAD\s+(?:DATA|XML)\b", re.IGNORECASE),
    needles=("get_lock", ":=", "into", "instance"),
    locks=re.compile(r"\bGET_LOCK\s*\(", re.IGNORECASE),
    changes=re.compile(r":=|\bINTO\s+@|\bLOCK\s+INSTANCE\b", re.IGNORECASE),
    release="DO RELEASE_ALL_LOCKS()",
)
POSTGRESQL_TRACES: Final = Traces(
    aside=re.compile(r"\b[eE]'(?:\\.|[^'\\])*'|\$(?P<tag>(?:[^\W\d]\w*)?)\$.*?\$(?P=tag)\$|" + _ASIDE, re.DOTALL),
    harmless=re.compile(r"SET\s+(?:LOCAL|TRANSACTION|CONSTRAINTS)\b|DECLARE\b(?!.*\bHOLD\b)", re.I | re.DOTALL),
    needles=("advisory_lock", "set_config", "into"),
    locks=re.compile(r"\bpg_(?:try_)?advisory_lock", re.IGNORECASE),
    changes=re.compile(
        r"\bset_config\b\"?\s*\((?!(?:[^()]|\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))*"
        r",\s*(?:is_local\s*(?:=>|:=)\s*)?true\s*\))|"
        r"(?<!INSERT)(?<!MERGE)(?<!\s)\s*\bINTO\s+(?:LOCAL\s+|GLOBAL\s+)?TEMP(?:ORARY)?\s",
        re.IGNORECASE,
    ),
    release="SELECT pg_advisory_unlock_all()",
)
SQLITE_TRACES: Final = Traces(
    harmless=re.compile(
        r"PRAGMA\s+[\w.\"]+\s*\Z|PRAGMA\s+(?:\w+\.)?(?:table_x?info|index_x?info|index_list|foreign_key_list|"
        r"foreign_key_check|integrity_check|quick_check|optimize|wal_checkpoint)\b",
        re.IGNORECASE,
    ),
)
