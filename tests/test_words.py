"""No text has a phrase that we no longer write: CONTRIBUTING's "Words we use" says what we write instead."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pytest

from tests.translations import PACKAGE, marked

pytestmark = pytest.mark.once
ROOT = PACKAGE.parent
CONTRIBUTING = ROOT / "CONTRIBUTING.md"
RETIRED = {
    "given back": r"\bgiven back\b",
    "trying on": r"\btrying on:",
    "lease is over": r"\bleases? (?:is|are|was|were) over\b",
    "is over since": r"\bover since\b",
    "due since": r"\bdue since\b",
    "is no ... name": r"\bis no (?:\w+ )?name\b",
    "is no JSON": r"\bis no (?:JSON|base64|moment|day|header)\b",
    "is said": r"\b(?:is|was|are|were) said\b",
    "fallen silent": r"\bfallen silent\b",
    "not beaten": r"\bnot beaten\b",
    "for one": r"\bemoji, for one\b",
    "pooler stands": r"\bpooler stands\b",
    "anew": r"\banew\b(?!\[|, same)",
    "goes on": r"\b(?:go|goes) on\b(?! (?:the|a|its|your|PyPI)\b)",
    "look at it again": r"\blooks? at (?:it|them|that) again\b",
    "it is taken": r"(?:\b(?:[Ii]t|[Oo]ne that|#\S+) |\A)is taken\b(?! (?:over|out))|\bneither taken\b",
    "shall": r"\bshall\b",
    "so many at most": r"\bso many at most\b",
    "that long ago": r"\bthat long ago\b",
    "can be moved so": r"\bbe (?:moved|done|changed) so\b",
    "stand as they stood": r"\b(?:stands?|stood) as (?:it|they) (?:stood|stands?)\b",
    "is still READY in time": r"\bis still \S+ in time\b",
}
OF_PEOPLE = {"meanwhile": r"\bmeanwhile\b"}
"""What texts don't say that people are shown; docstrings and pages may."""
ALLOWED = {
    "when its lease is over",
    "Can send messages anew with an edited payload",
    "Sent anew by %(user)s with an edited payload.",
}
"""Whole texts that stay: the names of a field and of a permission, which a migration would change; what rows have."""


def _texts() -> Iterator[tuple[str, str]]:
    """Every literal of the package's code that is no docstring: errors, logs and helps; and every translatable text."""
    for place, node, is_docstring in _literals():
        if not is_docstring and isinstance(node, ast.JoinedStr):
            yield place, " ".join(_text_of(part) for part in node.values)
        elif not is_docstring and isinstance(node, ast.Constant):
            yield place, str(node.value)
    yield from ((place, text.singular) for text, place in marked().items() if place.endswith(".html"))


def _docstrings() -> Iterator[tuple[str, str]]:
    """What the package says of its modules, classes, functions and constants."""
    return ((place, str(node.value)) for place, node, is_docstring in _literals() if is_docstring)


def _literals() -> Iterator[tuple[str, Any, bool]]:
    for file in sorted(PACKAGE.rglob("*.py")):
        if "migrations" in file.parts:
            continue
        tree = ast.parse(file.read_text())
        docstrings = {
            id(node.value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str)):
                yield f"{file.relative_to(ROOT)}:{node.lineno}", node, id(node) in docstrings


def _text_of(part: ast.expr) -> str:
    """Return a part of an f-string: what is put in counts as a word."""
    return str(part.value) if isinstance(part, ast.Constant) else "X"


def _found(places: Iterable[tuple[str, str]], retired: Mapping[str, str] = RETIRED) -> list[str]:
    return [
        f"{place}: {name!r} in {text.strip()!r}"
        for place, text in places
        for name, pattern in retired.items()
        if text not in ALLOWED and re.search(pattern, " ".join(text.split()))
    ]


def _pages() -> Iterator[tuple[str, str]]:
    """Every page but the records of decisions, which aren't rewritten, and this table itself; joined over line ends."""
    for page in sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]):
        if "decisions" in page.parts:
            continue
        text = page.read_text()
        if page == CONTRIBUTING:
            text = re.sub(r"\n## Words we use\n.*?(?=\n## )", "", text, flags=re.DOTALL)
        for paragraph in re.split(r"\n\s*\n|\n(?=[|*-])", text):
            yield str(page.relative_to(ROOT)), " ".join(paragraph.split())


def test_no_text_of_the_package_has_a_retired_phrase() -> None:
    assert _found(_texts(), RETIRED | OF_PEOPLE) == []


def test_no_docstring_of_the_package_has_a_retired_phrase() -> None:
    assert _found(_docstrings()) == []


def test_no_page_has_a_retired_phrase() -> None:
    assert _found(_pages()) == []


@pytest.mark.parametrize(
    ("text", "is_found"),
    [
        ("worker ended: 3 done, 0 given back", True),
        ("its lease is over", True),
        ("the lease was over", True),
        ("database trouble, trying on: gone", True),
        ("'a b' is no queue name", True),
        ("The header 'a' is said twice.", True),
        ("so many at most, the first", True),
        ("None of these messages can be moved so.", True),
        ("the others stand as they stood", True),
        ("Task a.b is still READY in time", True),
        ("Every group goes on: none waits", True),
        ("groups that could go on and don't", True),
        ("Message #4711 was sent anew.", True),
        ("it has changed: look at it again", True),
        ("It is taken: release it first.", True),
        ("is neither taken nor dead", True),
        ("it is taken over once", False),
        ("a row whose key is taken", False),
        ("what is going on", False),
        ("what was moved so far", False),
        ("extended in time", False),
        ("worker ended: 3 done, 0 released", False),
        ("the benchmark is over", False),
        ("it gives the worker back-off", False),
        ("'a b' is not a queue name", False),
        ("trying once more", False),
    ],
)
def test_the_phrases_are_found_and_nothing_else(text: str, is_found: bool) -> None:
    assert bool(_found(iter([("", text)]))) is is_found


def test_the_table_has_what_to_write_instead() -> None:
    [table] = re.findall(r"\n## Words we use\n(.*?)\n## ", CONTRIBUTING.read_text(), flags=re.DOTALL)
    rows = [
        line.strip("|").split("|") for line in table.splitlines() if line.startswith("| ") and "instead of" not in line
    ]
    assert len(rows) >= 20
    assert all(left.strip() and right.strip() for left, right in rows)
