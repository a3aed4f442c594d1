"""The tables of settings: names and defaults from ``conf.py``, and its comments (``#:``) as their meaning."""

from __future__ import annotations

import ast
import inspect
import re
from typing import Final

from generated import NotDescribed

from django_dbqueue import conf

NAMED: Final = {"TOP_LEVEL": "key"}
"""What the first column is called, if not option."""
IN_COLUMN: Final = re.compile(r"\[([^\]]+)\] (?=\S)")
"""Begins a description whose default the code doesn't say: None, but the setting is required."""
DAY: Final = 86_400


def table_of(name: str) -> str:
    """Return one of the dicts of ``conf.py`` as a table."""
    source = inspect.getsource(conf)
    described = _descriptions(source, name)
    rows = [f"| {NAMED.get(name, 'option')} | default | meaning |", "|---|---|---|"]
    for key, default in getattr(conf, name).items():
        text = described.get(key)
        if not text:
            raise NotDescribed(f"{name}[{key!r}] has no description: write '#: …' above it in django_dbqueue/conf.py")
        said = IN_COLUMN.match(text)
        shown = said[1] if said else _shown(default)
        rows.append(f"| `{key}` | {shown} | {text[said.end() :] if said else text} |")
    return "\n".join(rows)


def _descriptions(source: str, name: str) -> dict[str, str]:
    """Return by key what the comments directly above it say."""
    lines = source.splitlines()
    [assigned] = [
        node.value
        for node in ast.parse(source).body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == name
    ]
    assert isinstance(assigned, ast.Dict)
    return {
        key.value: _comment_above(lines, key.lineno - 1)
        for key in assigned.keys
        if isinstance(key, ast.Constant) and isinstance(key.value, str)
    }


def _comment_above(lines: list[str], line: int) -> str:
    parts: list[str] = []
    while line and (comment := re.match(r" *#: ?(.*)", lines[line - 1])):
        parts.insert(0, comment[1].strip())
        line -= 1
    return " ".join(parts)


def _shown(default: object) -> str:
    if isinstance(default, bool) or not isinstance(default, (int, float)):
        return f'`"{default}"`' if isinstance(default, str) else f"`{default!r}`"
    text = f"{default:,.0f}" if default == int(default) else f"{default:,}"
    if isinstance(default, float) and default >= DAY and default % DAY == 0:
        return f"{text} ({default / DAY:.0f} days)"
    return text
