"""Built SQL as the text of a routine: parameters written into it, lines broken for reading."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from django_dbqueue.databases.statement import Statement

COMMENT: Final = "{comment}"
"""The placeholder that is filled last: it holds the digest of the rest."""
SCHEMA: Final = "{schema}"
"""The placeholder that is filled after all others: a schema's name may itself contain braces."""
_PLACEHOLDER = re.compile(r"^( *)(.*?)\{([a-z_]+)\}", re.MULTILINE)
_WORD = re.compile(r"(?:'(?:[^']|'')*'|[^\s'])+")
_CLAUSES: Final = {"SET", "FROM", "WHERE", "ORDER", "VALUES", "RETURNING"}
_WIDTH = 100


class _Raw(str):
    __slots__ = ()


def raw(sql: str) -> Any:
    """Return a parameter, for any builder, that is SQL itself: a variable of the routine."""
    return _Raw(sql)


def render(text: str, fill: Mapping[str, str]) -> str:
    """Replace the placeholders with SQL; the resulting lines are indented like the line they are in."""

    def put(match: re.Match[str]) -> str:
        indent, before, name = match.groups()
        if name == "comment":
            return match[0].replace(COMMENT, "\0")
        if name == "schema":
            return match[0].replace(SCHEMA, "\1")
        return indent + before + fill[name].replace("\n", f"\n{indent}    ")

    while (rendered := _PLACEHOLDER.sub(put, text)) != text:
        text = rendered
    return text.replace("\0", COMMENT).replace("\1", fill.get("schema", ""))


def inline(statement: Statement) -> str:
    """Return a statement's text with its parameters written into it, wrapped for reading."""
    pieces = statement.sql.split("%s")
    text = pieces[0]
    for value, piece in zip(statement.params, pieces[1:], strict=True):
        text += literal(value) + piece
    return _wrap(text.replace("%%", "%"))


def literal(value: object) -> str:
    """Return a parameter as SQL."""
    if value is None:
        return "NULL"
    if isinstance(value, _Raw):
        return str(value)
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return repr(value)


def _wrap(text: str) -> str:
    lines = [""]
    for word in _WORD.findall(text):
        if lines[-1] and (word in _CLAUSES or len(lines[-1]) + len(word) > _WIDTH):
            lines.append("")
        lines[-1] += f" {word}" if lines[-1] else word
    return "\n".join(lines)
