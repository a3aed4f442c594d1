"""What the package says to people, by its source, and what a translation makes of it; without gettext's tools."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from django.utils.translation.template import templatize

PACKAGE = Path(__file__).resolve().parent.parent / "django_dbqueue"
MARKS = re.compile(r"(n?)(p?)gettext(_lazy|_noop)?\Z")


class Text(NamedTuple):
    """A text to be translated."""

    context: str | None
    singular: str
    plural: str | None


@dataclass(slots=True)
class Entry:
    """What a translation says of a text."""

    text: Text
    forms: list[str]
    is_fuzzy: bool


def marked() -> dict[Text, str]:
    """Every text that is marked for translation in the package, and where it was first found."""
    found: dict[Text, str] = {}
    for file in sorted(PACKAGE.rglob("*.py")):
        for text, line in _in_python(file.read_text()):
            found.setdefault(text, f"{file.relative_to(PACKAGE.parent)}:{line}")
    for file in sorted((PACKAGE / "templates").rglob("*.html")):
        for text in _in_template(file.read_text()):
            found.setdefault(text, str(file.relative_to(PACKAGE.parent)))
    return found


def _in_python(source: str) -> Iterator[tuple[Text, int]]:
    tree = ast.parse(source)
    names = {
        alias.asname or alias.name: alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "django.utils.translation"
        for alias in node.names
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names:
            text = _text(names[node.func.id], node)
            if text is not None:
                yield text, node.lineno


def _in_template(source: str) -> Iterator[Text]:
    marked = templatize(source)
    for start in re.finditer(r"\b(n?p?gettext)\(", marked):
        for end in re.finditer(r"\)", marked[start.end() :]):
            try:
                call = ast.parse(marked[start.start() : start.end() + end.end()], mode="eval").body
            except SyntaxError:
                continue
            assert isinstance(call, ast.Call)
            text = _text(start.group(1), call)
            assert text is not None, start
            yield text
            break


def _text(name: str, call: ast.Call) -> Text | None:
    """Read a call; None of a function that marks nothing. What is no literal can't be translated."""
    mark = MARKS.match(name)
    if mark is None:
        return None
    number = 1 + bool(mark[1]) + bool(mark[2])
    words = [argument.value if isinstance(argument, ast.Constant) else None for argument in call.args[:number]]
    assert all(isinstance(word, str) for word in words), f"not a literal: {ast.unparse(call)}"
    rest = [str(word) for word in words]
    context = rest.pop(0) if mark[2] else None
    return Text(context, rest[0], rest[1] if mark[1] else None)


def entries(path: Path) -> list[Entry]:
    """Read a .po file; the header, whose text is empty, is left out."""
    found = []
    for block in path.read_text().split("\n\n"):
        words: dict[str, str] = {}
        name = ""
        for line in block.splitlines():
            if not line.startswith("#"):
                key, _, quoted = line.partition('"')
                name = key.strip() or name
                words[name] = words.get(name, "") + ast.literal_eval('"' + quoted)
        if not words.get("msgid"):
            continue
        text = Text(words.get("msgctxt"), words["msgid"], words.get("msgid_plural"))
        forms = [words[name] for name in sorted(words) if name.startswith("msgstr")]
        is_fuzzy = any(line.startswith("#,") and "fuzzy" in line for line in block.splitlines())
        found.append(Entry(text, forms, is_fuzzy))
    return found


def holes(text: str) -> list[str]:
    """What is put in by the % operator, in the order of the positional ones; those with names in any order."""
    found = re.findall(r"%(?:\((\w+)\))?([-+0 ]*\d*(?:\.\d+)?[sdrgfx%])", text)
    positional = [form for name, form in found if not name and form != "%"]
    return positional + sorted(f"{name}:{form}" for name, form in found if name)
