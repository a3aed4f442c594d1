"""What is to be in one place alone: the claim's loop, the burial, the mover, the lists of a message's columns."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping

from tests.house.sources import PACKAGE, Finding, House, Source, name_of

LOOP_IN: Mapping[str, str] = {"claims/claim.py": "the claim"}
"""Files that may, and why."""
BURY_IN: Mapping[str, str] = {
    "claims/burial.py": "the burial",
    "routines/routine_moves.py": "the same statement, as the text of a stored routine",
}
MOVE_IN: Mapping[str, str] = {"operations/ways.py": "the mover"}
COLUMNS_IN: Mapping[str, str] = {
    "statements/message_columns.py": "the mapping",
    "envelope.py": "the fields of a sealed envelope, from which the mapping reads its columns",
    "routines/routine_moves.py": "what a stored routine's arguments are called",
    "spark/columns.py": "what people call the columns of a frame",
}
COLUMNS = 6
"""From how many of a sender's columns on a list counts as a mapping of its own."""
CLAIMS = frozenset({"find", "take", "take_ids", "take_ids_and_return", "claim", "hold"})
"""What a claim does at each priority."""


def claim_loops(house: House) -> Iterator[Finding]:
    """Loops over priorities that find, or take, rows for a claim."""
    for source in _elsewhere(house, LOOP_IN):
        for loop in source.all(ast.For, ast.While, ast.comprehension):
            over = loop.test if isinstance(loop, ast.While) else loop.iter
            calls = {name_of(each.func) for each in ast.walk(loop) if isinstance(each, ast.Call)}
            if "priorities" in ast.unparse(over) and calls & CLAIMS:
                yield source.at(over)


def burials(house: House) -> Iterator[Finding]:
    """Calls of ``moves_sql.bury``, by whatever import."""
    for source in _elsewhere(house, BURY_IN):
        own = any(
            each.module == "django_dbqueue.statements.moves_sql" and any(name.name == "bury" for name in each.names)
            for each in source.all(ast.ImportFrom)
        )
        for node in source.all(ast.Attribute):
            if node.attr == "bury" and name_of(node.value) == "moves_sql":
                yield source.at(node)
        yield from (source.at(node) for node in source.all(ast.Name) if own and node.id == "bury")


def movers(house: House) -> Iterator[Finding]:
    """Calls that ask an operator's verb for its change: whoever makes one is a mover."""
    for source in _elsewhere(house, MOVE_IN):
        for node in source.all(ast.Attribute):
            if node.attr in {"change", "move"} and name_of(node.value) == "verb" and _is_called(source, node):
                yield source.at(node)


def _is_called(source: Source, node: ast.Attribute) -> bool:
    return any(call.func is node for call in source.all(ast.Call))


def lists_of_columns(house: House) -> Iterator[Finding]:
    """Literals, and texts of SQL, that name six or more of the columns that a sender sets."""
    columns = _sent_columns(house)
    for source in _elsewhere(house, COLUMNS_IN):
        for node in source.all(ast.Tuple, ast.List, ast.Set, ast.Dict):
            parts = node.keys if isinstance(node, ast.Dict) else node.elts
            if len(columns & {each.value for each in parts if isinstance(each, ast.Constant)}) >= COLUMNS:
                yield source.at(node)
        for node, text in source.literals():
            if len(columns.intersection(re.findall(r"\w+", text))) >= COLUMNS:
                yield source.at(node)


def _sent_columns(house: House) -> set[object]:
    """Return the fields of a sealed envelope up to its delay, which is no column."""
    for source in house.package:
        for node in source.all(ast.ClassDef):
            if node.name == "Sealed":
                fields = [name_of(each.target) for each in node.body if isinstance(each, ast.AnnAssign)]
                return set(fields[: fields.index("delay")])
    return set()


def _elsewhere(house: House, allowed: Mapping[str, str]) -> Iterable[Source]:
    return (source for source in house.package if source.file.removeprefix(PACKAGE) not in allowed)
