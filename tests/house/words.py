"""Words of identifiers that we no longer use."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from typing import Any

from tests.house.sources import Finding, Source

OLD_WORDS = re.compile(
    r"(?<![a-z])(?:(?<!write_)ahead|anew|asked|beaten|beside|blamed|forsaken|given?_back|got|is_over|lease_over|look|looked"
    r"|lookout|looks|meanwhile|nobody|patient|said|says?|(?<![a-z]_)short(?!_[a-z])|silence|silent|standings?|strays?|taken"
    r"|telling|tells?|told)(?![a-z])"
)
"""Those of the left column of CONTRIBUTING's table that identifiers have, and words that mean several things here.

SQLite's ``write_ahead_log`` stays. ``short`` by itself tells nothing; a ``short_sleep`` is short.
"""


def old_words(sources: Iterable[Source]) -> Iterator[Finding]:
    """Old words in the names that code defines or uses; a name of two of them counts twice."""
    for source in sources:
        for node, name in _identifiers(source):
            words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
            yield from (source.at(node, name) for _ in OLD_WORDS.finditer(words))


def _identifiers(source: Source) -> Iterator[tuple[Any, str]]:
    for node in source.all(ast.Name):
        yield node, node.id
    for node in source.all(ast.Attribute):
        yield node, node.attr
    for node in source.all(ast.arg, ast.keyword):
        yield node, node.arg or ""
    for node in source.all(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.ExceptHandler):
        yield node, node.name or ""
    for node in source.all(ast.alias):
        yield node, f"{node.name}_{node.asname or ''}"
