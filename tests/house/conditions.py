"""Where code spells the states of a message, and asks whether its reads are spent."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from typing import Any

from tests.house.sources import PACKAGE, Finding, House, Source, name_of, outside

STATES = PACKAGE + "states/"
"""Where the states of a message will be spelled once."""
THEIR_OWN = {
    "claims/claims_sql.py": (5, "what a claim finds and takes: its own bounds and fence"),
    "insight/statistics_sql.py": (1, "the bound of a page"),
    "insight/why.py": (1, "the bound of what a claim takes before a message"),
    "lanes/heads.py": (2, "the state of who is next, as one statement has read it: its row isn't there"),
    "lanes/lanes_sql.py": (2, "the lock of those that can be put into a line"),
    "lanes/tickets.py": (4, "the same of several"),
    "lifecycle/archive_sql.py": (4, "the marks of a walk through the index"),
    "models/message.py": (2, "the table's own constraints, which a migration repeats by the letter"),
    "operations/bulk_sql.py": (5, "the marks of a walk through the index"),
    "statements/scan_sql.py": (1, "a status that people name, where a word is no state"),
    "statements/steps_sql.py": (1, "a move keeps what is parked parked"),
    "streams/stream_messages_sql.py": (1, "the fence of what a stream sets free"),
    "testing/run.py": (1, "how far a test lets time go on"),
    "worker/idle_poll_sql.py": (3, "the ranges in which a claim would find something, now or later"),
}
"""How often a file compares a status or a due time other than as the table of states does; and why."""
COMPARED = (
    r"\bavailable_at\s*(?:IS\b|[<>])",
    r"(?:\b(?:WHERE|AND|OR|WHEN|NOT|ON)\s+|\(|^)(?:\w+\.)?available_at\s*=\s*(?:%s|\{+[^}]*parked)",
    r"(?:\b(?:WHERE|AND|OR|WHEN|NOT|ON)\s+|\(|^)(?:\w+\.)?status\s*(?:=|<>|IN\b)\s*\(?'[^']+'(?!,\s*\w+\s*=)",
)
"""In SQL, what tells messages of one state from others; what a SET assigns is none."""
STATE_IN_SQL = re.compile("|".join(COMPARED))
SPENT_IN_SQL = re.compile(r"\b_?read_count\s*[<>]=?\s*[a-z_{]|[<>]=?\s*(?:\w+\.)?_?read_count\b")


def conditions_of_states(house: House) -> Iterator[Finding]:
    """What tells messages of one state from others by status or due time: in SQL, in filters of the ORM, in Python."""
    for source in outside(house.package, STATES):
        found = list(_conditions_in(source))
        may_have, _ = THEIR_OWN.get(source.file.removeprefix(PACKAGE), (0, ""))
        yield from found if len(found) > may_have else ()
        if len(found) < may_have:
            yield Finding(source.file, 1, f"has {len(found)} now: lower THEIR_OWN")
    for file, text in house.routines:
        yield from (Finding(file, line, found) for line, found in _in_lines(text, STATE_IN_SQL))


def _conditions_in(source: Source) -> Iterator[Finding]:
    yield from _matches(source.literals(), STATE_IN_SQL, source)
    for node in source.all(ast.keyword):
        compares = (node.arg or "").startswith("available_at__")
        if compares or (node.arg == "available_at" and name_of(node.value) == "PARKED"):
            yield source.at(node)
    for node in source.all(ast.Compare):
        sides = [node.left, *node.comparators]
        names = {name_of(each) for each in sides}
        if "available_at" in names or ("status" in names and any(map(_is_status, sides))):
            yield source.at(node)


def _is_status(node: ast.expr) -> bool:
    return ast.unparse(node) in {f"{of}{name}" for of in ("", "statuses.") for name in ("NEW", "RUNNING", "DONE")}


def conditions_of_spent_reads(house: House) -> Iterator[Finding]:
    """Where a message's reads are compared with what it may have: by their names, or as ``most and reads >= most``."""
    for source in outside(house.package, STATES):
        yield from _matches(source.literals(), SPENT_IN_SQL, source)
        for node in source.all(ast.Compare):
            sides = [node.left, *node.comparators]
            if _orders(node) and {"read_count", "reads"} & set(map(name_of, sides)) and _names_a_most(node):
                yield source.at(node)
        for node in source.all(ast.BoolOp):
            if _is_most_and_at_least_most(node):
                yield source.at(node)
    for file, text in house.routines:
        yield from (Finding(file, line, found) for line, found in _in_lines(text, SPENT_IN_SQL))


def _orders(node: ast.Compare) -> bool:
    return all(isinstance(each, ast.Lt | ast.LtE | ast.Gt | ast.GtE) for each in node.ops)


def _names_a_most(node: ast.Compare) -> bool:
    """Whether it is between 0, for no limit, and the reads; or names the limit."""
    return len(node.ops) == 2 or "max_reads" in ast.unparse(node)


def _is_most_and_at_least_most(node: ast.BoolOp) -> bool:
    most, reached = node.values[:2]
    if not isinstance(reached, ast.Compare) or not isinstance(reached.ops[0], ast.GtE):
        return False
    is_of_a_row = isinstance(reached.left, ast.Subscript) and isinstance(reached.left.slice, ast.Constant)
    return (is_of_a_row or name_of(reached.left) == "reads") and ast.dump(most) == ast.dump(reached.comparators[0])


def _matches(places: Iterable[tuple[Any, str]], pattern: re.Pattern[str], source: Source) -> Iterator[Finding]:
    for node, text in places:
        yield from (source.at(node, found) for _, found in _in_lines(text, pattern))


def _in_lines(text: str, pattern: re.Pattern[str]) -> Iterator[tuple[int, str]]:
    """Return each match with its line in the text, and a little of what stands around it."""
    for match in pattern.finditer(text):
        before = re.search(r"(?:\S+\s+){0,2}\S*\Z", text[: match.start()][-60:])
        after = re.match(r"\S*(?:\s+\S+){0,2}", text[match.end() :])
        around = "".join((before.group() if before else "", match.group(), after.group() if after else ""))
        yield text.count("\n", 0, match.start()) + 1, " ".join(around.split())
