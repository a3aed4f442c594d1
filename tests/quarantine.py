"""Tests that fail at times and are not mended yet: out of the gate, in by night, few, and not for long.

``@pytest.mark.quarantined("what goes wrong", "2026-11-26")``, with the day on which it was put there.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path

MOST = 8
DAYS = 14


@dataclass(frozen=True, slots=True)
class Quarantine:
    file: Path
    reason: str
    since: date


def quarantined(directory: Path) -> list[Quarantine]:
    """Who is there, below a directory; raise ValueError for a mark without a reason or a date."""
    return [found for file in sorted(directory.rglob("test_*.py")) for found in _read(file)]


def _read(file: Path) -> Iterator[Quarantine]:
    text = file.read_text()
    if "mark.quarantined" not in text:
        return
    tree = ast.parse(text)
    calls = {id(node.func): node for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr == "quarantined":
            try:
                reason, since = (ast.literal_eval(argument) for argument in calls[id(node)].args)
                yield Quarantine(file, str(reason), date.fromisoformat(since))
            except (KeyError, ValueError, TypeError) as error:
                raise ValueError(f"{file}:{node.lineno}: it is quarantined(reason, date): {error}") from error
